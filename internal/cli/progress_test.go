package cli

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestProgress(t *testing.T) {
	for _, tc := range []struct {
		name          string
		bar, log      bool
		every         time.Duration // of a step
		steps         int
		want, wantEnd string
	}{
		{name: "short", every: 10 * time.Millisecond, steps: 4},
		{name: "short-bar", bar: true, every: 10 * time.Millisecond, steps: 4},
		{name: "lines", every: 3 * time.Second, steps: 4, want: "work: 2 of 4\nwork: 4 of 4\n"},
		{name: "bar", bar: true, every: time.Second, steps: 2,
			want:    "\rwork [###############...............] 1/2\rwork [##############################] 2/2",
			wantEnd: "\r\x1b[K"},
		{name: "json", log: true, every: 5 * time.Second, steps: 1, want: `"msg":"work","done":1,"total":1}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out bytes.Buffer
			now := time.Unix(0, 0)
			a := &app{cfg: Config{Stderr: &out, Now: func() time.Time { return now }}, jsonLog: tc.log}
			p := a.progress("work", tc.steps)
			if tc.bar {
				p.bar, p.next = true, now.Add(barAfter)
			}
			for range tc.steps {
				now = now.Add(tc.every)
				p.step()
			}
			got := out.String()
			if tc.log {
				if !bytes.Contains(out.Bytes(), []byte(tc.want)) {
					t.Errorf("%s, want %s", got, tc.want)
				}
				return
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			out.Reset()
			p.end()
			if out.String() != tc.wantEnd {
				t.Errorf("end %q, want %q", out.String(), tc.wantEnd)
			}
		})
	}
}

package monitor

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// clock ticks a microsecond each time it is read.
func clock() func() time.Time {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return func() time.Time { now = now.Add(time.Microsecond); return now }
}

func TestLogLines(t *testing.T) {
	long := strings.Repeat("x", maxLine)
	for _, tt := range []struct {
		name, in string
		want     []string // without the time
	}{
		{"lines", "one\ntwo\n", []string{"stdout F one", "stdout F two"}},
		{"no end", "one\ntwo", []string{"stdout F one", "stdout P two"}},
		{"empty line", "\n", []string{"stdout F "}},
		{"nothing", "", nil},
		{"long", long + "yz\n", []string{"stdout P " + long, "stdout F yz"}},
		{"just full", long[1:] + "\n", []string{"stdout F " + long[1:]}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "c", "0.log")
			w, err := openLog(LogSpec{Path: path}, clock())
			if err != nil {
				t.Fatal(err)
			}
			w.copy("stdout", iotest.OneByteReader(strings.NewReader(tt.in)))
			if err := w.close(); err != nil {
				t.Fatal(err)
			}
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for line := range strings.Lines(string(data)) {
				at, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
				if _, err := time.Parse(time.RFC3339Nano, at); err != nil {
					t.Error(err)
				}
				got = append(got, rest)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestLogRotates(t *testing.T) {
	path := filepath.Join(t.TempDir(), "0.log")
	w, err := openLog(LogSpec{Path: path, MaxSize: 200, MaxFiles: 3}, clock())
	if err != nil {
		t.Fatal(err)
	}
	for range 40 {
		w.copy("stderr", strings.NewReader("0123456789\n"))
	}
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	aside := Rotated(path)
	if len(aside) != 2 {
		t.Errorf("put aside: %v, want 2 files", aside)
	}
	for _, f := range append(aside, path) {
		if info, err := os.Stat(f); err != nil || info.Size() > 200 || info.Size() == 0 {
			t.Errorf("%s: %v %v", f, info, err)
		}
	}
}

// TestLogOfSomebodyElse: what is no file, or another one by another name, is not written to, and holds nobody.
func TestLogOfSomebodyElse(t *testing.T) {
	for name, plant := range map[string]func(path string) error{
		"fifo": func(path string) error { return unix.Mkfifo(path, 0o600) },
		"link": func(path string) error { return os.Symlink("elsewhere", path) },
		"second-name": func(path string) error {
			return errors.Join(os.WriteFile(path+".other", nil, 0o600), os.Link(path+".other", path))
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "0.log")
			if err := plant(path); err != nil {
				t.Fatal(err)
			}
			if w, err := openLog(LogSpec{Path: path}, clock()); err == nil {
				w.close()
				t.Error("it is the log")
			}
		})
	}
}

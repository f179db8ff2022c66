package usage

import (
	"errors"
	"testing"

	"github.com/spf13/pflag"
)

func TestExplain(t *testing.T) {
	for _, tt := range []struct{ arg, want string }{
		{"--number=many", `--number: "many" is no whole number`},
		{"--number=99999999999999999999", `--number: "99999999999999999999" is no whole number`},
		{"--port=-1", `--port: "-1" is no whole number`},
		{"--wait=5", `--wait: "5" is no duration, such as 30s or 5m`},
		{"--watch=perhaps", `--watch: "perhaps" is neither true nor false`},
		{"--nope", "unknown flag: --nope"},
	} {
		f := pflag.NewFlagSet("", pflag.ContinueOnError)
		f.Int("number", 1, "")
		f.Uint("port", 1, "")
		f.Duration("wait", 0, "")
		f.Bool("watch", false, "")
		err := f.Parse([]string{tt.arg})
		if got := Explain(err); got == nil || got.Error() != tt.want || !errors.Is(got, err) {
			t.Errorf("%s: %v, want %s", tt.arg, got, tt.want)
		}
	}
}

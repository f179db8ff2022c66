package cli

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestLogBlock: a state is read line by line, and what it holds does nothing to a terminal.
func TestLogBlock(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(logHandler(&out, slog.LevelDebug, false)).With("network", "pods")
	log.Debug("apply", "state", "pod  link eth0\npod  addr \x1b 10.1.0.2/24\n", "sweep", true)
	want := "level=DEBUG msg=apply network=pods sweep=true\n  pod  link eth0\n  pod  addr \\u001b 10.1.0.2/24\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

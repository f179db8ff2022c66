package traffic

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/cleat-cni/cleat/internal/netns"
)

// Pinging has a namespace, nil for this process's own, ping an address at an interval in seconds, such as 0.02. The function returned ends
// it and checks that all was answered.
func Pinging(t testing.TB, ns *netns.Handle, addr, interval string) (end func()) {
	t.Helper()
	var out strings.Builder
	cmd := exec.Command("ping", "-q", "-i", interval, addr)
	cmd.Stdout, cmd.Stderr = &out, &out
	start := cmd.Start
	if ns != nil {
		start = func() error { return ns.Do(cmd.Start) }
	}
	if err := start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	t.Cleanup(func() {
		if !ended {
			cmd.Process.Kill()
			cmd.Wait()
		}
	})
	return func() {
		t.Helper()
		ended = true
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil || !strings.Contains(out.String(), " 0% packet loss") {
			t.Errorf("%s was disturbed: %v\n%s", addr, err, out.String())
		}
	}
}

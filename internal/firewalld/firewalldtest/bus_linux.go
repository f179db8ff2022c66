// Package firewalldtest is the test kit of package firewalld: a message bus of a test's own, and a firewalld in this process that
// behaves on it as the real one does, as far as zones and their sources go.
package firewalldtest

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cleat-cni/cleat/internal/sandbox"
)

// busConfig lets everybody who has the socket do everything.
const busConfig = `<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>session</type>
  <listen>unix:path=%s</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow own="*"/>
    <allow send_destination="*"/>
    <allow receive_sender="*"/>
  </policy>
</busconfig>
`

// StartBus starts a bus that ends with the test, and returns its address. Without dbus-daemon t is skipped.
func StartBus(t testing.TB) string {
	t.Helper()
	program, err := exec.LookPath("dbus-daemon")
	if err != nil {
		sandbox.Need(t, "dbus-daemon", err.Error())
	}
	// The path of a socket is short: t.TempDir has the test's name in it.
	dir, err := os.MkdirTemp("", "bus")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	config := filepath.Join(dir, "bus.conf")
	if err := os.WriteFile(config, fmt.Appendf(nil, busConfig, filepath.Join(dir, "socket")), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "--config-file="+config, "--nofork", "--nopidfile", "--print-address")
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	// It prints the address when it listens.
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("start %s: %v", program, err)
	}
	return strings.TrimSpace(line)
}

package pause

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cleat-cni/cleat/internal/agent/spawn"
	"github.com/cleat-cni/cleat/internal/netns"
	"github.com/cleat-cni/cleat/internal/sandbox"
)

const roleKey = "CLEAT_PAUSE_ROLE"

func TestMain(m *testing.M) {
	if os.Getenv(roleKey) != "" {
		os.Exit(Main(os.Args[1:]))
	}
	os.Exit(m.Run())
}

// start starts a pause process in namespaces of its own.
func start(t *testing.T, hostname string, sysctls ...string) (*spawn.Child, error) {
	t.Helper()
	sandbox.Require(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ns, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ns.Close() })
	return spawn.Start(t.Context(), spawn.Command{
		Path: self, Name: Name, Args: Args(hostname, sysctls), Env: append(os.Environ(), roleKey+"=1"),
		NetNS: ns, Cloneflags: unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWPID,
	})
}

// inside runs a shell command in all namespaces of a process.
func inside(t *testing.T, pid int, script string) string {
	t.Helper()
	cmd := exec.Command("nsenter", "-t", strconv.Itoa(pid), "-n", "-u", "-i", "-p", "sh", "-c", script)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return strings.TrimSpace(string(out))
}

func TestPauseHoldsReapsAndEnds(t *testing.T) {
	child, err := start(t, "web-1", "net.core.somaxconn=77", "kernel.shmmni=99")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(child.Abandon)
	if err := child.Go(); err != nil {
		t.Fatal(err)
	}
	got := inside(t, child.PID, "hostname; cat /proc/sys/net/core/somaxconn /proc/sys/kernel/shmmni")
	if want := "web-1\n77\n99"; got != want {
		t.Errorf("in the namespaces: %q, want %q", got, want)
	}
	// A grandchild without parent falls to the pause process, which reaps it: its number is free again.
	orphan := inside(t, child.PID, "(sh -c 'echo $PPID >/dev/null; exec sleep 0.05' >/dev/null 2>&1 & echo $!)")
	if got := inside(t, child.PID, "for i in $(seq 200); do kill -0 "+orphan+" 2>/dev/null || { echo reaped; exit; }; sleep 0.02; done"); got != "reaped" {
		t.Errorf("process %s was not reaped", orphan)
	}
	if err := child.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := child.Wait(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestPauseRefuses(t *testing.T) {
	for _, tt := range []struct{ name, sysctl, want string }{
		{"no value", "net.core.somaxconn", "no value"},
		{"no such setting", "net.core.nothing=1", "set net.core.nothing"},
		{"climbs out", "../../etc/passwd=1", "no setting of the kernel"},
		{"absolute", "/etc/passwd=1", "no setting of the kernel"},
		{"bad value", "net.core.somaxconn=lots", "invalid argument"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			child, err := start(t, "", tt.sysctl)
			if err == nil {
				child.Abandon()
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("start: %v, want %q", err, tt.want)
			}
		})
	}
	child, err := start(t, strings.Repeat("x", 65))
	if err == nil {
		child.Abandon()
	}
	if err == nil || !strings.Contains(err.Error(), "set hostname") {
		t.Errorf("a hostname of 65 characters: %v", err)
	}
}

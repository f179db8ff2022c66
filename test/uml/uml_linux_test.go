package uml

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cleat-cni/cleat/internal/leaktest"
	"github.com/cleat-cni/cleat/internal/sandbox"
)

// TestMain has the processes of a machine that outlive uml.sh become this one's, so that they are found.
func TestMain(m *testing.M) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		panic(err)
	}
	leaktest.Main(m)
}

// uml is a call of uml.sh; env is beside this process's own.
func uml(t *testing.T, env []string, args ...string) *exec.Cmd {
	t.Helper()
	if os.Getenv("CLEAT_UML") == "" {
		sandbox.Need(t, "uml", "run it with make test-uml")
	}
	t.Cleanup(func() { reap(t) })
	cmd := exec.CommandContext(t.Context(), "../../uml.sh", args...)
	cmd.Env = append(append(os.Environ(), "CLEAT_UML_MEMORY=64M"), env...)
	return cmd
}

// reap waits for the processes of a machine that uml.sh did not wait for.
func reap(t *testing.T) {
	t.Helper()
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, unix.SIGCHLD)
	defer signal.Stop(ended)
	deadline := time.After(10 * time.Second)
	for {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		if errors.Is(err, unix.ECHILD) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if pid > 0 {
			continue
		}
		select {
		case <-ended:
		case <-deadline:
			t.Fatal("a process of the machine is left")
		}
	}
}

// code is the status that a program ended with.
func code(t *testing.T, err error) int {
	t.Helper()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	if err != nil {
		t.Fatal(err)
	}
	return 0
}

func TestCommand(t *testing.T) {
	script := filepath.Join(t.TempDir(), "it's one")
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho \"$1, $WORD\"\nuname -r\nexit 7\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	out, err := uml(t, []string{"WORD=a word's \"quote\""}, script, "$HOME and 'so'").Output()
	if got := code(t, err); got != 7 {
		t.Errorf("status %d, want 7", got)
	}
	words, release, _ := strings.Cut(string(out), "\n")
	if want := `$HOME and 'so', a word's "quote"`; words != want {
		t.Errorf("printed %q, want %q", words, want)
	}
	if !strings.HasPrefix(release, "6.") {
		t.Errorf("kernel %q", release)
	}
}

func TestChangesNothing(t *testing.T) {
	dir := t.TempDir()
	out, err := uml(t, nil, "sh", "-c", "touch '"+dir+"/new' /run/new; ls /run/new '"+dir+"'").CombinedOutput()
	if got := code(t, err); got != 0 {
		t.Errorf("status %d: %s", got, out)
	}
	if _, err := os.Stat(filepath.Join(dir, "new")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file of this machine was made: %v", err)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	out, err := uml(t, nil, "sh", "-c", "head -c 200000000 /dev/zero | tail -n 1 | wc -c | grep 200000000").CombinedOutput()
	if code(t, err) == 0 {
		t.Errorf("200 MB fit into 64: %s", out)
	}
}

func TestTimeIsBounded(t *testing.T) {
	begun := time.Now()
	out, err := uml(t, []string{"CLEAT_UML_TIME=5"}, "sh", "-c", "echo begun; sleep 1000 & sleep 1000").CombinedOutput()
	if code(t, err) == 0 || !strings.Contains(string(out), "the machine ended before the command did") || !strings.HasPrefix(string(out), "begun") {
		t.Errorf("%v, %s", err, out)
	}
	if took := time.Since(begun); took > time.Minute {
		t.Errorf("it took %v", took)
	}
}

// TestEndsWhenTold: go test ends a test that takes too long by SIGQUIT, others end it by SIGTERM.
func TestEndsWhenTold(t *testing.T) {
	for _, sig := range []syscall.Signal{unix.SIGQUIT, unix.SIGTERM} {
		t.Run(unix.SignalName(sig), func(t *testing.T) {
			cmd := uml(t, nil, "sh", "-c", "sleep 1000 & sleep 1000")
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			// Whenever it comes, before or after the machine is up.
			time.AfterFunc(2*time.Second, func() { _ = cmd.Process.Signal(sig) })
			if code(t, cmd.Wait()) == 0 {
				t.Error("it ended well")
			}
		})
	}
}

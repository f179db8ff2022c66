package pluginexec_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/pluginexec"
)

// TestRuntimeToBeKilled is the runtime of TestPluginDiesWithRuntime, in a process of its own.
func TestRuntimeToBeKilled(t *testing.T) {
	path := os.Getenv("PLUGINEXEC_TEST_PLUGIN")
	if path == "" {
		t.Skip("only as a process of TestPluginDiesWithRuntime")
	}
	_, err := pluginexec.Run(t.Context(), pluginexec.Command{Path: path, Verb: cni.VerbAdd, Env: os.Environ()})
	t.Fatal(err)
}

// A plugin that outlives a killed runtime would go on making what nobody deletes any more.
func TestPluginDiesWithRuntime(t *testing.T) {
	pidFile := filepath.Join(t.TempDir(), "pid")
	path := script(t, "echo $$ > "+pidFile+".new; mv "+pidFile+".new "+pidFile+"; exec sleep 60")
	runtime := exec.Command(os.Args[0], "-test.run=^TestRuntimeToBeKilled$")
	runtime.Env = append(os.Environ(), "PLUGINEXEC_TEST_PLUGIN="+path)
	if err := runtime.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	waitFor(t, "the plugin to start", func() bool {
		text, err := os.ReadFile(pidFile)
		if err == nil {
			pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
		}
		return err == nil
	})
	if err := runtime.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	runtime.Wait()
	waitFor(t, "the plugin to end", func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) })
}

// waitFor looks every few milliseconds, for ten seconds at most.
func waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(10 * time.Second); !done(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("waited too long for %s", what)
		}
	}
}

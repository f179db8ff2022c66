//go:build amd64 || arm64

package crash

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/builtin"
	"github.com/cleat-cni/cleat/internal/cli"
)

// cleat is the command for a verb on a container, which is added with the chain's flags.
func (w *world) cleat(verb, id string, flags ...string) command {
	if verb == "add" {
		flags = append(flags, w.chain.flags(id)...)
	}
	return w.command(verb, id, flags...)
}

func (w *world) command(verb, id string, flags ...string) command {
	return w.plain(verb, append([]string{network, w.podPath(id), "--id", id}, flags...)...)
}

// plain is a command of cleat in this world.
func (w *world) plain(verb string, rest ...string) command {
	how := "--builtin"
	if w.form == execd {
		how = "--exec-only"
	}
	args := []string{"--conf-dir", w.path("conf"), "--state-dir", w.path("state"), "--plugin-dir", w.path("bin"), how, verb}
	return command{path: filepath.Join(w.bin, "cleat"), args: append(args, rest...), env: without(os.Environ(), roleKey)}
}

// setUp does a verb in the world's form.
func (w *world) setUp(verb, id string) error {
	if w.form == builtIn {
		return w.here(verb, id)
	}
	return w.must(w.cleat(verb, id))
}

// here does a verb by the built-in plugins in this process, whatever the world's form is: nothing is started and it takes
// a tenth of the time. It is for what prepares a run and for what proves that it left nothing in the way.
func (w *world) here(verb, id string) error {
	quick := *w
	quick.form = builtIn
	cmd := quick.cleat(verb, id)
	var stdout, stderr strings.Builder
	code := cli.Main(context.Background(), cli.Config{
		Args: cmd.args, Env: func(string) string { return "" }, Stdout: &stdout, Stderr: &stderr, Version: "test", NewRunner: w.runner,
	})
	if code != 0 {
		return fmt.Errorf("%s of %s: %s%s", verb, id, stdout.String(), strings.TrimSpace(stderr.String()))
	}
	if verb == "add" && !strings.Contains(stdout.String(), "10.99.0.") {
		return fmt.Errorf("ADD of %s gave no address: %s", id, stdout.String())
	}
	return nil
}

// runner runs plugins in this process, for the world's host.
func (w *world) runner(o cli.RunnerOptions) (*builtin.Runner, error) {
	return newRunner(w.k, o.StateDir, o.Mode)
}

// gc is the command for a GC that finds these containers valid.
func (w *world) gc(timeout time.Duration, valid ...string) (command, error) {
	c := collection{ConfDir: w.path("conf"), StateDir: w.path("state"), PluginDir: w.path("bin"), ExecOnly: w.form == execd, Timeout: timeout}
	for _, id := range valid {
		c.Valid = append(c.Valid, cni.Attachment{ContainerID: id, IfName: "eth0"})
	}
	env, err := c.environment()
	return command{path: w.self, env: env}, err
}

// run runs a command undisturbed.
func (w *world) run(cmd command) (outcome, error) {
	var o outcome
	err := w.host.Do(func() error {
		c := exec.Command(cmd.path, cmd.args...)
		c.Env = cmd.env
		var stdout, stderr strings.Builder
		c.Stdout, c.Stderr = &stdout, &stderr
		err := c.Run()
		if c.ProcessState == nil {
			return err
		}
		o.status = unix.WaitStatus(c.ProcessState.ExitCode() << 8)
		o.stdout, o.stderr = stdout.String(), stderr.String()
		return nil
	})
	return o, err
}

// must makes an error of a command that fails.
func (w *world) must(cmd command) error {
	o, err := w.run(cmd)
	if err == nil && !o.ok() {
		err = fmt.Errorf("%s: %s", strings.Join(cmd.args[max(0, len(cmd.args)-6):], " "), strings.TrimSpace(o.stdout+o.stderr))
	}
	return err
}

//go:build amd64 || arm64

package crash

import (
	"context"
	"crypto/sha512"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/builtin"
	"github.com/cleat-cni/cleat/internal/cli"
)

// referenceState is where the reference's cnitool keeps its records, which nobody can change.
const referenceState = "/var/lib/cni"

// attach is the command for a verb on a container, in the world's form.
func (w *world) attach(verb, id string, flags ...string) (command, error) {
	if w.form == reference {
		return w.cnitool(verb, id)
	}
	return w.cleat(verb, id, flags...), nil
}

// cnitool is the reference's command for a verb on a container.
func (w *world) cnitool(verb, id string) (command, error) {
	caps, err := json.Marshal(w.chain.request(id).capabilities())
	return command{
		path: filepath.Join(os.Getenv(peersKey), "cnitool"), args: []string{verb, network, w.podPath(id)},
		env: append(without(os.Environ(), roleKey), "NETCONFPATH="+w.path("conf"), "CNI_PATH="+w.path("bin"), "CAP_ARGS="+string(caps)),
	}, err
}

// cleat is our command for a verb on a container, which is added with what the chain asks for.
func (w *world) cleat(verb, id string, flags ...string) command {
	if verb == "add" {
		flags = append(flags, w.chain.request(id).flags()...)
	}
	return w.command(verb, id, flags...)
}

func (w *world) command(verb, id string, flags ...string) command {
	return w.plain(verb, append([]string{network, w.podPath(id), "--id", w.containerID(id)}, flags...)...)
}

// containerID is the ID of a container by its name; cnitool makes one of the namespace's path.
func (w *world) containerID(id string) string {
	if w.form != reference {
		return id
	}
	sum := sha512.Sum512([]byte(w.podPath(id)))
	return fmt.Sprintf("cnitool-%x", sum[:10])
}

// stateDir is where records are.
func (w *world) stateDir() string {
	if w.form == reference {
		return referenceState
	}
	return w.path("state")
}

// plain is a command of cleat in this world.
func (w *world) plain(verb string, rest ...string) command {
	how := "--exec-only"
	if w.form == builtIn {
		how = "--builtin"
	}
	args := []string{"--conf-dir", w.path("conf"), "--state-dir", w.stateDir(), "--plugin-dir", w.path("bin"), how, verb}
	return command{path: filepath.Join(w.bin, "cleat"), args: append(args, rest...), env: without(os.Environ(), roleKey)}
}

// setUp does a verb in the world's form.
func (w *world) setUp(verb, id string) error {
	if w.form == builtIn {
		return w.here(verb, id)
	}
	return w.started(verb, id)
}

// started does a verb in the world's form by a program.
func (w *world) started(verb, id string) error {
	cmd, err := w.attach(verb, id)
	if err != nil {
		return err
	}
	return w.must(cmd)
}

// here does a verb by the built-in plugins in this process, whatever the world's form is: nothing is started and it takes
// a tenth of the time. It is for what prepares a run and for what proves that it left nothing in the way.
func (w *world) here(verb, id string) error {
	cmd := w.cleat(verb, id)
	i := slices.Index(cmd.args, verb)
	cmd.args[i-1] = "--builtin"
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
	c := collection{ConfDir: w.path("conf"), StateDir: w.stateDir(), PluginDir: w.path("bin"), ExecOnly: w.form != builtIn, Timeout: timeout}
	for _, id := range valid {
		c.Valid = append(c.Valid, cni.Attachment{ContainerID: w.containerID(id), IfName: "eth0"})
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

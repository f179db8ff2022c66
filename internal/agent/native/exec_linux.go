package native

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/cleat-cni/cleat/internal/agent/container"
	"github.com/cleat-cni/cleat/internal/agent/monitor"
)

// Exec runs a command in a container and returns what it prints on both streams, at most maxExecOutput, and its exit code. If ctx ends before, it is
// killed.
func (r *Runtime) Exec(ctx context.Context, id string, command []string) (output []byte, code int, err error) {
	out := &limitedBuffer{most: maxExecOutput}
	code, err = r.Run(ctx, id, container.Command{Args: command, Stdout: out, Stderr: out})
	return out.Bytes(), code, err
}

// maxExecOutput bounds what a command of a probe or a hook may say, as the kubelet does.
const maxExecOutput = 10 << 10

// limitedBuffer keeps the beginning of what is written. The buffer is a field, since one that is embedded would take all by its ReadFrom.
type limitedBuffer struct {
	kept bytes.Buffer
	most int
}

func (b *limitedBuffer) Write(p []byte) (int, error) {
	if room := b.most - b.kept.Len(); room > 0 {
		b.kept.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

// Bytes is what was kept.
func (b *limitedBuffer) Bytes() []byte { return b.kept.Bytes() }

// Run runs a command in a container to its end and returns its exit code. If ctx ends before, it is killed.
func (r *Runtime) Run(ctx context.Context, id string, command container.Command) (code int, err error) {
	c := r.findContainer(id)
	if c == nil || c.ended() {
		return 0, fmt.Errorf("run a command in container %s: it doesn't run", id)
	}
	if c.rec.Host != nil {
		err = r.execHost(ctx, c, command)
	} else {
		err = r.execRunc(ctx, c, command)
	}
	if ctx.Err() == nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			return exit.ExitCode(), nil
		}
	} else {
		err = context.Cause(ctx)
	}
	if err != nil {
		return 0, fmt.Errorf("run %s in container %s: %w", command.Args[0], c.rec.Name, err)
	}
	return 0, nil
}

// lingering is how long after a command's end what it left may hold its output.
const lingering = time.Second

// connect gives a process that is about to be started the streams of a command. What comes in when the process has ended is read by
// nobody, and not waited for.
func connect(cmd *exec.Cmd, command container.Command) error {
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = command.Stdout, command.Stderr, lingering
	if command.Stdin == nil {
		return nil
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(in, command.Stdin) // it has ended, or whoever speaks has
		in.Close()
	}()
	return nil
}

func (r *Runtime) execHost(ctx context.Context, c *ctr, command container.Command) error {
	group, err := r.groups.Entry(c.rec.Cgroup)
	if err != nil {
		return err
	}
	h := &monitor.HostCommand{Command: command.Args, Env: c.rec.Host.Env, Dir: c.rec.Host.Dir, Namespaces: c.rec.Host.Namespaces}
	cmd, err := h.Start(group, func(cmd *exec.Cmd) error { return connect(cmd, command) })
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }) // its session, while it is not reaped
	defer stop()
	err = cmd.Wait()
	if errors.Is(err, exec.ErrWaitDelay) {
		return nil
	}
	return err
}

// execRunc has a monitor run the command, see [monitor.ExecArg].
func (r *Runtime) execRunc(ctx context.Context, c *ctr, command container.Command) error {
	var process specs.Process
	if err := read(filepath.Join(c.dir, processFile), &process); err != nil {
		return err
	}
	process.Args = command.Args
	dir, err := os.MkdirTemp(c.dir, "exec-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	err = errors.Join(save(dir, monitor.ProcessFile, process),
		save(dir, monitor.ExecFile, monitor.RuncSpec{Path: r.cfg.Runc, Root: r.path("runc"), ID: c.rec.ID}))
	if err != nil {
		return err
	}
	said, report, err := os.Pipe()
	if err != nil {
		return err
	}
	defer said.Close()
	cmd := &exec.Cmd{Path: r.cfg.Program, Args: []string{monitor.Name, monitor.ExecArg, dir}, Env: os.Environ(), Dir: "/",
		ExtraFiles: []*os.File{report, report}, SysProcAttr: &unix.SysProcAttr{Setsid: true}}
	if err = connect(cmd, command); err == nil {
		err = cmd.Start()
	}
	report.Close()
	if err != nil {
		return err
	}
	starting := context.AfterFunc(ctx, func() { _ = cmd.Process.Signal(unix.SIGTERM) }) // it may just have ended
	var started monitor.Started
	if json.NewDecoder(said).Decode(&started) != nil {
		started.Error = "its monitor ended before it told of it"
	}
	starting()
	stop := context.AfterFunc(ctx, func() {
		// With the command its monitor ends.
		if err := started.Process.Signal(unix.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
			r.log.Warn("a command goes on without its caller", "container", c.rec.ID, "error", err)
		}
	})
	defer stop()
	err = cmd.Wait()
	if started.Error != "" {
		return errors.New(started.Error)
	}
	if errors.Is(err, exec.ErrWaitDelay) {
		return nil
	}
	return err
}

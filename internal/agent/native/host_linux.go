package native

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	runc "github.com/containerd/go-runc"
	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/cleat-cni/cleat/internal/agent/container"
	"github.com/cleat-cni/cleat/internal/agent/monitor"
	"github.com/cleat-cni/cleat/internal/netns"
)

// namespaces are those of a sandbox that a container enters, by kind; those that the pod shares with the host are left out.
func (s *sandbox) namespaces(pod *v1.Pod) []netns.Namespace {
	of := func(name string, kind int) netns.Namespace {
		return netns.Namespace{Path: fmt.Sprintf("/proc/%d/ns/%s", s.rec.Pause.PID, name), Type: kind}
	}
	var list []netns.Namespace
	if !pod.Spec.HostNetwork {
		list = append(list, netns.Namespace{Path: s.rec.NetNS, Type: unix.CLONE_NEWNET}, of("uts", unix.CLONE_NEWUTS))
	}
	if !pod.Spec.HostIPC {
		list = append(list, of("ipc", unix.CLONE_NEWIPC))
	}
	if !pod.Spec.HostPID {
		list = append(list, of("pid", unix.CLONE_NEWPID))
	}
	return list
}

// prepareHost makes a command of the host of a container without an image: it runs as root in the host's file system and in the pod's
// namespaces, also the PID namespace, so that nothing of it outlives the sandbox.
func (r *Runtime) prepareHost(_ context.Context, s *sandbox, c *ctr, start container.Start, spec *monitor.Spec) error {
	command := append(append([]string{}, start.Command...), start.Args...)
	if len(command) == 0 {
		return &container.Error{Reason: container.ReasonConfig, Err: fmt.Errorf("container %s has neither image nor command", c.rec.Name)}
	}
	place := &hostPlace{Dir: start.Container.WorkingDir, Namespaces: s.namespaces(start.Pod), Env: environment(start, nil)}
	if err := r.groups.Make(c.rec.Cgroup, limits(start.Container)); err != nil {
		return &container.Error{Reason: container.ReasonCreate, Err: err}
	}
	r.mu.Lock()
	c.rec.Host = place
	r.mu.Unlock()
	spec.Host = &monitor.HostCommand{Command: command, Env: place.Env, Dir: place.Dir, Namespaces: place.Namespaces}
	return nil
}

// defaultPath is the PATH of a container that sets none.
const defaultPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// environment is that of a container: the image's, with the pod's in its place.
func environment(start container.Start, image []string) []string {
	env := append([]string{defaultPath, "HOSTNAME=" + hostname(start.Pod)}, image...)
	for _, v := range start.Env {
		env = append(env, v.Name+"="+v.Value)
	}
	return lastOfEach(env)
}

// lastOfEach keeps the last value of each variable, in the place of its first.
func lastOfEach(env []string) []string {
	at := map[string]int{}
	var list []string
	for _, e := range env {
		name, _, _ := bytes.Cut([]byte(e), []byte("="))
		if i, ok := at[string(name)]; ok {
			list[i] = e
			continue
		}
		at[string(name)] = len(list)
		list = append(list, e)
	}
	return list
}

// runc returns the client of runc.
func (r *Runtime) runc() *runc.Runc {
	return &runc.Runc{Command: r.cfg.Runc, Root: r.path("runc"), PdeathSignal: unix.SIGKILL}
}

// forced deletes a container also while it runs.
var forced = &runc.DeleteOpts{Force: true}

// Exec runs a command in a container and returns what it prints, at most maxExecOutput, and its exit code. If ctx ends before, it is killed.
func (r *Runtime) Exec(ctx context.Context, id string, command []string) (output []byte, code int, err error) {
	c := r.findContainer(id)
	if c == nil || c.ended() {
		return nil, 0, fmt.Errorf("run a command in container %s: it doesn't run", id)
	}
	out := &limitedBuffer{most: maxExecOutput}
	if c.rec.Host != nil {
		err = r.execHost(ctx, c, command, out)
	} else {
		err = r.execRunc(ctx, c, command, out)
	}
	if ctx.Err() == nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			return out.Bytes(), exit.ExitCode(), nil
		}
		if exit, ok := errors.AsType[*runc.ExitError](err); ok {
			return out.Bytes(), exit.Status, nil
		}
	} else {
		err = context.Cause(ctx)
	}
	if err != nil {
		return out.Bytes(), 0, fmt.Errorf("run %s in container %s: %w", command[0], c.rec.Name, err)
	}
	return out.Bytes(), 0, nil
}

// maxExecOutput bounds what a command may say, as the kubelet bounds probes.
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

// lingering is how long after a command's end what it left may hold its output.
const lingering = time.Second

func (r *Runtime) execHost(ctx context.Context, c *ctr, command []string, out *limitedBuffer) error {
	group, err := r.groups.Entry(c.rec.Cgroup)
	if err != nil {
		return err
	}
	h := &monitor.HostCommand{Command: command, Env: c.rec.Host.Env, Dir: c.rec.Host.Dir, Namespaces: c.rec.Host.Namespaces}
	cmd, err := h.Start(group, func(cmd *exec.Cmd) {
		cmd.Stdout, cmd.Stderr, cmd.WaitDelay = out, out, lingering
	})
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

func (r *Runtime) execRunc(ctx context.Context, c *ctr, command []string, out *limitedBuffer) error {
	var process specs.Process
	if err := read(filepath.Join(c.dir, processFile), &process); err != nil {
		return err
	}
	process.Args = command
	return r.runc().Exec(ctx, c.rec.ID, process, &runc.ExecOpts{IO: execIO{out}})
}

// execIO gives what a command prints to a buffer.
type execIO struct{ out *limitedBuffer }

func (e execIO) Set(cmd *exec.Cmd) { cmd.Stdout, cmd.Stderr, cmd.WaitDelay = e.out, e.out, lingering }

func (e execIO) Close() error          { return nil }
func (e execIO) Stdin() io.WriteCloser { return nil }
func (e execIO) Stdout() io.ReadCloser { return nil }
func (e execIO) Stderr() io.ReadCloser { return nil }

var _ runc.IO = execIO{}

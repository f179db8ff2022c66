package agenttest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cleat-cni/cleat/internal/agent/container"
)

// The exit codes of programs that a signal ended.
const (
	exitKilled     = 137
	exitTerminated = 143
)

// program is how a container's command behaves.
type program struct {
	lasts    time.Duration // 0 is for ever
	exit     int           // afterwards
	ignores  bool          // SIGTERM
	notFound bool          // it can't be started
}

// parse understands the commands that the contract uses: "/bin/sleep N", "/bin/sh -c SCRIPT" with a script of "exit N", "sleep N; exit N"
// or "trap ” TERM; sleep N", and "/does/not/exist".
func parse(command []string) (program, error) {
	switch {
	case len(command) == 0:
		return program{}, nil // that of the image
	case len(command) == 1 && command[0] == "/does/not/exist":
		return program{notFound: true}, nil
	case len(command) == 2 && command[0] == "/bin/sleep":
		return script("sleep " + command[1])
	case len(command) == 3 && command[0] == "/bin/sh" && command[1] == "-c":
		return script(command[2])
	}
	return program{}, fmt.Errorf("the runtime in memory does not know the command %q", command)
}

func script(text string) (program, error) {
	p := program{lasts: 1}
	for step := range strings.SplitSeq(text, "; ") {
		word, arg, _ := strings.Cut(step, " ")
		n, err := strconv.ParseFloat(arg, 64)
		switch {
		case step == "trap '' TERM":
			p.ignores = true
		case word == "sleep" && err == nil:
			p.lasts = time.Duration(n * float64(time.Second))
		case word == "exit" && err == nil:
			p.exit = int(n)
		default:
			return program{}, fmt.Errorf("the runtime in memory does not know %q", step)
		}
	}
	return p, nil
}

// StartContainer starts a container in a sandbox that runs. One that could not be started stays as one that has ended.
func (r *Runtime) StartContainer(ctx context.Context, start container.Start) (string, error) {
	before, after := r.enter(ctx, "StartContainer")
	defer r.mu.Unlock()
	if before != nil {
		return "", &container.Error{Reason: container.ReasonImagePull, Err: before}
	}
	s := r.sandbox(start.SandboxID)
	if s == nil || s.State != container.StateRunning {
		return "", &container.Error{Reason: container.ReasonCreate, Err: fmt.Errorf("%w %s", errNoSandbox, start.SandboxID)}
	}
	for _, c := range r.containers {
		if c.uid == start.Pod.UID && c.Name == start.Container.Name && c.State == container.StateRunning {
			r.violate("pod %s has two running containers %s", c.uid, c.Name)
		}
	}
	p, err := parse(start.Command)
	if err != nil {
		return "", &container.Error{Reason: container.ReasonCreate, Err: err}
	}
	now := time.Now()
	c := &ctr{uid: start.Pod.UID, program: p, gone: make(chan struct{}), Status: container.Status{
		ID: fmt.Sprintf("%s-%d", start.Container.Name, r.number()), SandboxID: s.ID, Name: start.Container.Name, State: container.StateRunning,
		Image: start.Container.Image, Hash: container.HashContainer(start.Container), RestartCount: start.RestartCount, CreatedAt: now, StartedAt: now,
	}}
	r.note("start %s %d of %s", c.Name, c.RestartCount, c.uid)
	r.containers = append(r.containers, c)
	switch {
	case p.notFound:
		c.StartedAt = time.Time{}
		c.finish(128)
		return "", &container.Error{Reason: container.ReasonRun, Err: fmt.Errorf("start %s: no such file", start.Command[0])}
	case p.lasts > 0:
		c.end = time.AfterFunc(p.lasts, func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			c.finish(p.exit)
		})
	}
	if after != nil { // it runs, and nobody was told
		return "", &container.Error{Reason: container.ReasonRun, Err: after}
	}
	return c.ID, nil
}

// finish ends a container, once.
func (c *ctr) finish(exit int) {
	if c.State == container.StateExited {
		return
	}
	if c.end != nil {
		c.end.Stop()
	}
	c.State, c.ExitCode, c.FinishedAt = container.StateExited, exit, time.Now()
	c.Reason = "Error"
	if exit == 0 {
		c.Reason = "Completed"
	}
	close(c.gone)
}

func (r *Runtime) container(id string) *ctr {
	i := slices.IndexFunc(r.containers, func(c *ctr) bool { return c.ID == id })
	if i < 0 {
		return nil
	}
	return r.containers[i]
}

// StopContainer asks a container to end, and kills it after the grace period.
func (r *Runtime) StopContainer(ctx context.Context, id string, grace time.Duration) error {
	before, after := r.enter(ctx, "StopContainer")
	defer r.mu.Unlock()
	c := r.container(id)
	switch {
	case c == nil || c.State == container.StateExited:
		return nil
	case before != nil:
		return fmt.Errorf("stop container %s: %w", id, before)
	}
	r.note("stop %s of %s in %v", c.Name, c.uid, grace.Round(time.Second))
	if !c.program.ignores && grace > 0 {
		c.finish(exitTerminated)
		return after
	}
	r.mu.Unlock()
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-c.gone:
	case <-timer.C:
	case <-ctx.Done():
	}
	r.mu.Lock()
	if ctx.Err() != nil && c.State != container.StateExited {
		return ctx.Err()
	}
	c.finish(exitKilled)
	return after
}

// RemoveContainer forgets a container that has ended.
func (r *Runtime) RemoveContainer(ctx context.Context, id string) error {
	before, after := r.enter(ctx, "RemoveContainer")
	defer r.mu.Unlock()
	c := r.container(id)
	switch {
	case c == nil:
		return nil
	case before != nil:
		return fmt.Errorf("remove container %s: %w", id, before)
	case c.State == container.StateRunning:
		r.violate("container %s of pod %s is removed while it runs", c.Name, c.uid)
	}
	c.finish(exitKilled)
	r.note("remove %s %d of %s", c.Name, c.RestartCount, c.uid)
	r.containers = slices.DeleteFunc(r.containers, func(other *ctr) bool { return other == c })
	return after
}

// KillContainer lets a container die by SIGKILL. It reports whether it ran.
func (r *Runtime) KillContainer(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.container(id)
	if c == nil || c.State == container.StateExited {
		return false
	}
	c.finish(exitKilled)
	return true
}

// Exec runs a command in a container: "/bin/sh -c SCRIPT" as that of a container, "/bin/echo WORD" which it answers.
func (r *Runtime) Exec(ctx context.Context, id string, command []string) (output []byte, exit int, err error) {
	before, after := r.enter(ctx, "Exec")
	defer r.mu.Unlock()
	c := r.container(id)
	switch {
	case c == nil || c.State != container.StateRunning:
		return nil, 0, fmt.Errorf("exec in container %s: it does not run", id)
	case before != nil:
		return nil, 0, before
	}
	r.note("exec %s in %s of %s", strings.Join(command, " "), c.Name, c.uid)
	if len(command) == 2 && command[0] == "/bin/echo" {
		return []byte(command[1] + "\n"), 0, after
	}
	p, err := parse(command)
	if err != nil {
		return nil, 0, err
	}
	r.mu.Unlock()
	err = pause(ctx, p.lasts)
	r.mu.Lock()
	if err != nil {
		return nil, 0, err
	}
	return nil, p.exit, after
}

package native

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cleat-cni/cleat/internal/agent/container"
	"github.com/cleat-cni/cleat/internal/agent/monitor"
	"github.com/cleat-cni/cleat/internal/agent/spawn"
	"github.com/cleat-cni/cleat/internal/atomicfile"
)

// ctr is a container. rec and exit are written under the Runtime's lock; op is held by whoever starts, stops or removes it.
type ctr struct {
	op   sync.Mutex
	rec  containerRecord
	uid  types.UID
	dir  string
	exit monitor.Exit  // once done is closed
	done chan struct{} // closed when it has ended, and its monitor has
}

func (c *ctr) ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// state is called under the Runtime's lock.
func (c *ctr) state() container.State {
	switch {
	case c.ended():
		return container.StateExited
	case c.rec.Process.IsZero():
		return container.StateCreated
	}
	return container.StateRunning
}

func (c *ctr) status() container.Status {
	rec := &c.rec
	s := container.Status{
		ID: rec.ID, SandboxID: rec.SandboxID, Name: rec.Name, State: c.state(), Image: rec.Image, ImageID: rec.ImageID, Hash: rec.Hash,
		RestartCount: rec.RestartCount, CreatedAt: rec.CreatedAt, StartedAt: rec.StartedAt, LogPath: rec.LogPath,
	}
	if s.State != container.StateExited {
		return s
	}
	s.FinishedAt, s.ExitCode = c.exit.At, c.exit.Code
	switch {
	case c.exit.OOMKilled:
		s.Reason = "OOMKilled"
	case c.exit.Error != "" && rec.StartedAt.IsZero():
		s.Reason = "ContainerCannotRun"
	case c.exit.Error != "":
		s.Reason = container.ReasonStatusUnknown
	case c.exit.Code == 0:
		s.Reason = "Completed"
	default:
		s.Reason = "Error"
	}
	s.Message = c.exit.Error
	if s.Message == "" {
		s.Message = lastWords(rec, s.ExitCode)
	}
	return s
}

// maxLastWords bounds a termination message, in bytes, as the kubelet does.
const maxLastWords = 4 << 10

// lastWords is what the container wrote into its termination log; or the end of its output, if it asks for that.
func lastWords(rec *containerRecord, code int) string {
	if rec.TerminationLog != "" {
		if text := tail(rec.TerminationLog, maxLastWords); text != "" {
			return text
		}
	}
	const fallback = 2 << 10
	if !rec.FallbackToOutput || code == 0 {
		return ""
	}
	var text strings.Builder
	for line := range strings.Lines(tail(rec.LogPath, fallback)) {
		if f := strings.SplitN(line, " ", 4); len(f) == 4 { // time, stream, tag, text
			text.WriteString(f[3])
		}
	}
	return text.String()
}

// tail is the end of a file, "" if it can't be read. What is there may be anything that a container made of it.
func tail(path string, most int64) string {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return ""
	}
	text, err := io.ReadAll(io.NewSectionReader(f, max(info.Size()-most, 0), most))
	if err != nil {
		return ""
	}
	return string(text)
}

// watch waits for the end of a container that was loaded or started; alive says that its processes can be there. It reports whether the
// end has come already.
func (r *Runtime) watch(c *ctr, alive bool) (ended bool) {
	if alive && c.rec.Process.IsZero() && c.rec.Monitor.Alive() {
		// The last agent ended between its word and the monitor's.
		var started monitor.Started
		if err := read(filepath.Join(c.dir, monitor.StartedFile), &started); err == nil {
			c.rec.Process, c.rec.StartedAt = started.Process, started.At.Round(0)
		} else {
			r.abort(c)
		}
	}
	if e, ok := exitOf(c.dir); ok || !alive || c.rec.Monitor.IsZero() || c.rec.Process.IsZero() {
		if !ok {
			e = lost(c)
		}
		c.exit = e
		close(c.done)
		return true
	}
	r.waits.Go(func() {
		if err := c.rec.Monitor.Wait(r.ctx); err != nil {
			return // the agent ends
		}
		e, ok := exitOf(c.dir)
		if !ok {
			// The monitor was killed. How the container ends can't be known any more, but that it does can.
			if err := c.rec.Process.Wait(r.ctx); err != nil {
				return
			}
			e = lost(c)
			r.cleanUpLost(c)
		}
		r.mu.Lock()
		c.exit = e
		close(c.done)
		r.mu.Unlock()
		r.cfg.Changed(c.uid)
	})
	return false
}

// lost is the end of a container that nobody saw.
func lost(c *ctr) monitor.Exit {
	const unknownCode = 137
	if c.rec.StartedAt.IsZero() {
		return monitor.Exit{Code: 128, At: c.rec.CreatedAt, Error: "the agent ended before the container was started"}
	}
	return monitor.Exit{Code: unknownCode, At: now(), Error: "how the container ended is not known: its monitor is gone, or the machine was started anew"}
}

// cleanUpLost does what the monitor would have done.
func (r *Runtime) cleanUpLost(c *ctr) {
	ctx, cancel := context.WithTimeout(r.ctx, undoTimeout)
	defer cancel()
	errs := []error{r.groups.Remove(ctx, c.rec.Cgroup)}
	if c.rec.Host == nil {
		errs = append(errs, r.runc().Delete(ctx, c.rec.ID, forced))
	}
	if err := errors.Join(errs...); err != nil {
		r.log.WarnContext(ctx, "something of a container is left", "container", c.rec.ID, "error", err)
	}
}

func (r *Runtime) updateContainer(c *ctr, change func(*containerRecord)) error {
	r.mu.Lock()
	change(&c.rec)
	rec := c.rec
	r.mu.Unlock()
	if err := save(c.dir, containerFile, rec); err != nil {
		return fmt.Errorf("write down container %s: %w", rec.ID, err)
	}
	return nil
}

// StartContainer makes a container and starts it. A container that could not be started stays as one that has ended, so that its status says
// why; nothing stays of one whose image or configuration is at fault.
func (r *Runtime) StartContainer(ctx context.Context, start container.Start) (string, error) {
	s := r.find(start.SandboxID)
	if s == nil {
		return "", &container.Error{Reason: container.ReasonCreate, Err: fmt.Errorf("no sandbox %s", start.SandboxID)}
	}
	s.op.Lock()
	defer s.op.Unlock()
	r.mu.Lock()
	ready := s.state() == container.StateRunning
	r.mu.Unlock()
	if !ready {
		return "", &container.Error{Reason: container.ReasonCreate, Err: fmt.Errorf("sandbox %s has ended", start.SandboxID)}
	}
	c := r.newContainer(s, start)
	r.mu.Lock()
	r.containers[c.rec.ID] = c
	r.mu.Unlock()
	err := r.launch(ctx, s, c, start)
	if err == nil {
		if r.watch(c, true) {
			r.cfg.Changed(c.uid) // it was faster than this agent
		}
		return c.rec.ID, nil
	}
	err = &attemptError{err, []string{c.rec.ID, s.rec.ID}}
	r.mu.Lock()
	c.exit = monitor.Exit{Code: 128, At: now(), Error: err.Error()}
	close(c.done)
	r.mu.Unlock()
	if reason := container.Reason(err); reason == container.ReasonImagePull || reason == container.ReasonConfig {
		return "", errors.Join(err, r.removeContainer(ctx, c)) // it did not come so far that it could have crashed
	}
	return "", errors.Join(err, r.leaveExit(c))
}

// leaveExit writes down why a container was not started, unless its monitor has.
func (r *Runtime) leaveExit(c *ctr) error {
	if _, ok := exitOf(c.dir); ok {
		return nil
	}
	data, err := json.Marshal(c.exit)
	if err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(c.dir, monitor.ExitFile), data, 0o600)
}

func (r *Runtime) newContainer(s *sandbox, start container.Start) *ctr {
	spec := start.Container
	c := &ctr{uid: start.Pod.UID, done: make(chan struct{}), rec: containerRecord{
		ID: newID(), SandboxID: s.rec.ID, Name: spec.Name, Image: spec.Image, Hash: container.HashContainer(spec), RestartCount: start.RestartCount,
		CreatedAt: now(), StopSignal: unix.SIGTERM, FallbackToOutput: spec.TerminationMessagePolicy == v1.TerminationMessageFallbackToLogsOnError,
		LogPath: filepath.Join(r.logDir(start.Pod), spec.Name, fmt.Sprintf("%d.log", start.RestartCount)),
	}}
	c.rec.Cgroup = r.podGroup(start.Pod.UID) + "/" + s.rec.ID + "/" + c.rec.ID
	c.dir = r.containerDir(&c.rec)
	return c
}

// launch writes the container down, starts its monitor, and waits for the word that it runs.
func (r *Runtime) launch(ctx context.Context, s *sandbox, c *ctr, start container.Start) error {
	if err := r.updateContainer(c, func(*containerRecord) {}); err != nil {
		return &container.Error{Reason: container.ReasonCreate, Err: err}
	}
	spec := monitor.Spec{ID: c.rec.ID, Cgroup: c.rec.Cgroup, Log: monitor.LogSpec{Path: c.rec.LogPath, MaxSize: r.cfg.LogSize, MaxFiles: r.cfg.LogFiles}}
	prepare := r.prepareHost
	if start.Container.Image != "" {
		prepare = r.prepareImage
	}
	if err := prepare(ctx, s, c, start, &spec); err != nil {
		return err
	}
	if err := save(c.dir, monitor.SpecFile, spec); err != nil {
		return &container.Error{Reason: container.ReasonCreate, Err: err}
	}
	said, tell, err := os.Pipe()
	if err != nil {
		return &container.Error{Reason: container.ReasonCreate, Err: err}
	}
	defer said.Close()
	child, err := spawn.Start(ctx, spawn.Command{Path: r.cfg.Program, Name: monitor.Name, Args: []string{c.dir}, Env: os.Environ(), Dir: "/", Files: []*os.File{tell}})
	tell.Close()
	if err != nil {
		return &container.Error{Reason: container.ReasonCreate, Err: err}
	}
	if err := r.updateContainer(c, func(rec *containerRecord) { rec.Monitor = child.Identity }); err != nil {
		child.Abandon()
		return &container.Error{Reason: container.ReasonCreate, Err: err}
	}
	err = child.Go()
	if err == nil {
		err = r.running(ctx, c, said)
	}
	if err != nil {
		// It may run by now: the monitor goes, and what is below it.
		r.abort(c)
	}
	return err
}

// running takes the monitor's word that the container runs.
func (r *Runtime) running(ctx context.Context, c *ctr, said *os.File) error {
	stop := context.AfterFunc(ctx, func() { _ = said.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	var started monitor.Started
	err := json.NewDecoder(said).Decode(&started)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return &container.Error{Reason: container.ReasonRun, Err: fmt.Errorf("the monitor ended: %w", err)}
	case started.Error != "":
		return &container.Error{Reason: container.ReasonRun, Err: errors.New(started.Error)}
	}
	return r.updateContainer(c, func(rec *containerRecord) { rec.Process, rec.StartedAt = started.Process, started.At.Round(0) })
}

// abort ends a container of which it is not known whether it runs.
func (r *Runtime) abort(c *ctr) {
	if err := send(c.rec.Monitor, unix.SIGKILL); err != nil {
		r.log.Warn("a monitor can't be ended", "container", c.rec.ID, "error", err)
	}
	r.cleanUpLost(c)
}

// StopContainer asks a container to end and kills it when the grace is over. One that isn't there, or has ended, is success.
func (r *Runtime) StopContainer(ctx context.Context, id string, grace time.Duration) error {
	c := r.findContainer(id)
	if c == nil {
		return nil
	}
	return r.stopContainer(ctx, c, grace)
}

func (r *Runtime) stopContainer(ctx context.Context, c *ctr, grace time.Duration) error {
	c.op.Lock()
	defer c.op.Unlock()
	r.mu.Lock()
	process, signal := c.rec.Process, c.rec.StopSignal
	r.mu.Unlock()
	if c.ended() {
		return nil
	}
	if grace > 0 {
		if err := send(process, signal); err != nil {
			return fmt.Errorf("stop container %s: %w", c.rec.ID, err)
		}
		wait := time.NewTimer(grace)
		defer wait.Stop()
		select {
		case <-c.done:
			return nil
		case <-ctx.Done(): // who shortens the grace calls again
			return context.Cause(ctx)
		case <-wait.C:
		}
	}
	if err := send(process, unix.SIGKILL); err != nil {
		return fmt.Errorf("kill container %s: %w", c.rec.ID, err)
	}
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the end of container %s: %w", c.rec.ID, context.Cause(ctx))
	}
}

// send sends a signal; who has ended needs none.
func send(process spawn.Identity, signal unix.Signal) error {
	if err := process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// RemoveContainer forgets a container that has ended. One that isn't there is success.
func (r *Runtime) RemoveContainer(ctx context.Context, id string) error {
	c := r.findContainer(id)
	if c == nil {
		return nil
	}
	if err := r.stopContainer(ctx, c, 0); err != nil {
		return err
	}
	return r.removeContainer(ctx, c)
}

func (r *Runtime) removeContainer(ctx context.Context, c *ctr) error {
	c.op.Lock()
	defer c.op.Unlock()
	if err := r.groups.Remove(ctx, c.rec.Cgroup); err != nil {
		return err
	}
	if err := r.discard(c.dir); err != nil {
		return fmt.Errorf("forget container %s: %w", c.rec.ID, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.containers, c.rec.ID)
	return nil
}

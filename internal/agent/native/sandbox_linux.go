package native

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/cleat-cni/cleat/internal/agent/container"
	"github.com/cleat-cni/cleat/internal/agent/network"
	"github.com/cleat-cni/cleat/internal/agent/pause"
	"github.com/cleat-cni/cleat/internal/agent/spawn"
	"github.com/cleat-cni/cleat/internal/netns"
)

// sandbox is a sandbox. rec is written under the Runtime's lock; op is held by whoever makes, stops or removes it.
type sandbox struct {
	op   sync.Mutex
	rec  sandboxRecord
	done chan struct{} // closed when the pause process has ended, or was never started
}

// state is called under the Runtime's lock.
func (s *sandbox) state() container.State {
	select {
	case <-s.done:
		return container.StateExited
	default:
	}
	if s.rec.Pause.IsZero() || s.rec.Stopped || ends(s.rec.Pause) {
		return container.StateExited // it is being made, or was not made to the end
	}
	return container.StateRunning
}

// ends reports whether a process is about to end. The first process of a PID namespace takes all others with it, and is not gone before they
// are: whoever saw that a container has ended, and not that its sandbox does, would start it again in there. It has left its namespaces by then.
func ends(pause spawn.Identity) bool {
	_, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/uts", pause.PID))
	return errors.Is(err, os.ErrNotExist)
}

func (s *sandbox) status() container.SandboxStatus {
	return container.SandboxStatus{ID: s.rec.ID, Attempt: s.rec.Attempt, State: s.state(), CreatedAt: s.rec.CreatedAt,
		HostNetwork: s.rec.HostNetwork, IPs: slices.Clone(s.rec.IPs)}
}

// adopt watches the pause process of a sandbox that was loaded.
func (r *Runtime) adopt(s *sandbox) {
	if s.rec.Boot != r.boot || s.rec.Pause.IsZero() {
		close(s.done)
		return
	}
	r.watchPause(s)
}

func (r *Runtime) watchPause(s *sandbox) {
	id, uid := s.rec.Pause, s.rec.UID
	r.waits.Go(func() {
		if err := id.Wait(r.ctx); err != nil {
			return // the agent ends
		}
		close(s.done)
		r.cfg.Changed(uid)
	})
}

// update changes a record and writes it down.
func (r *Runtime) update(s *sandbox, change func(*sandboxRecord)) error {
	r.mu.Lock()
	change(&s.rec)
	rec := s.rec
	r.mu.Unlock()
	if err := save(r.sandboxDir(rec.ID), sandboxFile, rec); err != nil {
		return fmt.Errorf("write down sandbox %s: %w", rec.ID, err)
	}
	return nil
}

// CreateSandbox makes a pod's namespaces, attaches them to its networks, and starts the pause process. If it fails, what was made is taken
// down again; where that fails too, the sandbox stays as one that has ended, for StopSandbox.
func (r *Runtime) CreateSandbox(ctx context.Context, pod *v1.Pod, attempt int) (string, error) {
	s := &sandbox{done: make(chan struct{}), rec: sandboxRecord{
		ID: newID(), UID: pod.UID, Name: pod.Name, Namespace: pod.Namespace, Attempt: attempt,
		CreatedAt: now(), Boot: r.boot, HostNetwork: pod.Spec.HostNetwork,
	}}
	s.op.Lock()
	defer s.op.Unlock()
	if err := r.update(s, func(*sandboxRecord) {}); err != nil {
		return "", err
	}
	r.mu.Lock()
	r.sandboxes[s.rec.ID] = s
	r.mu.Unlock()
	err := r.build(ctx, s, pod)
	if err == nil {
		r.watchPause(s)
		return s.rec.ID, nil
	}
	close(s.done)
	err = &attemptError{err, []string{s.rec.ID}}
	undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	if undoErr := r.takeDown(undo, s); undoErr != nil {
		return "", errors.Join(err, fmt.Errorf("take the sandbox down again: %w", undoErr))
	}
	r.mu.Lock()
	delete(r.sandboxes, s.rec.ID)
	r.mu.Unlock()
	return "", errors.Join(err, os.RemoveAll(r.sandboxDir(s.rec.ID)))
}

// undoTimeout bounds the taking down of what a failed or cancelled CreateSandbox made.
const undoTimeout = 2 * time.Minute

func (r *Runtime) build(ctx context.Context, s *sandbox, pod *v1.Pod) error {
	if err := r.groups.Make(r.podGroup(pod.UID), podLimits(pod)); err != nil {
		return err
	}
	if err := r.makePodFiles(pod); err != nil {
		return err
	}
	cmd := spawn.Command{
		Path: r.cfg.Program, Name: pause.Name, Args: pause.Args(hostname(pod), sysctls(pod)), Env: []string{pauseEnv + s.rec.ID}, Dir: "/",
		Cloneflags: unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWPID,
	}
	if pod.Spec.HostNetwork {
		cmd.Args = pause.Args("", sysctls(pod))
		cmd.Cloneflags &^= unix.CLONE_NEWUTS
	} else {
		ns, err := r.connect(ctx, s, pod)
		if err != nil {
			return err
		}
		defer ns.Close()
		cmd.NetNS = ns
	}
	if pod.Spec.HostPID {
		cmd.Cloneflags &^= unix.CLONE_NEWPID
	}
	if pod.Spec.HostIPC {
		cmd.Cloneflags &^= unix.CLONE_NEWIPC
	}
	child, err := spawn.Start(ctx, cmd)
	if err != nil {
		return err
	}
	if err := r.update(s, func(rec *sandboxRecord) { rec.Pause = child.Identity }); err != nil {
		child.Abandon()
		return err
	}
	return child.Go()
}

// connect makes the network namespace and attaches it.
func (r *Runtime) connect(ctx context.Context, s *sandbox, pod *v1.Pod) (*netns.Handle, error) {
	p, err := networkPod(pod)
	if err != nil {
		return nil, err
	}
	p.SandboxID, p.NetNS, p.CgroupPath = s.rec.ID, r.path("netns", s.rec.ID), "/"+r.podGroup(pod.UID)
	if err := r.cfg.Networks.Ready(p); err != nil {
		return nil, fmt.Errorf("%w: %w", container.ErrNetworkNotReady, err)
	}
	plan, err := r.cfg.Networks.Plan(p)
	if err != nil {
		return nil, err
	}
	if err := r.update(s, func(rec *sandboxRecord) { rec.NetNS, rec.Networks = p.NetNS, plan }); err != nil {
		return nil, err
	}
	ns, err := netns.Mount(p.NetNS)
	if err != nil {
		return nil, err
	}
	ips, err := r.cfg.Networks.SetUpPod(ctx, p, plan)
	if err == nil {
		err = r.update(s, func(rec *sandboxRecord) { rec.IPs = ips })
	}
	if err != nil {
		ns.Close()
		return nil, err
	}
	return ns, r.writeHosts(pod, ips)
}

// StopSandbox ends all of a sandbox that runs and detaches it from its networks. One that isn't there is success, and so is one that
// was stopped; after an error it is called again.
func (r *Runtime) StopSandbox(ctx context.Context, id string) error {
	s := r.find(id)
	if s == nil {
		return nil
	}
	s.op.Lock()
	defer s.op.Unlock()
	if s.rec.Stopped {
		return nil
	}
	var errs []error
	for _, c := range r.containersOf(id) {
		errs = append(errs, r.stopContainer(ctx, c, 0))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return r.takeDown(ctx, s)
}

// takeDown ends the pause process, and then detaches: no process is left that could use what DEL frees.
func (r *Runtime) takeDown(ctx context.Context, s *sandbox) error {
	rec := s.rec
	if rec.Boot == r.boot && !rec.Pause.IsZero() {
		if err := rec.Pause.Signal(unix.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("end the pause process: %w", err)
		}
		if err := rec.Pause.Wait(ctx); err != nil {
			return fmt.Errorf("wait for the end of the pause process: %w", err)
		}
	}
	if len(rec.Networks) > 0 {
		if err := r.cfg.Networks.TearDownPod(ctx, rec.ID, rec.Networks); err != nil {
			return err
		}
	}
	if rec.NetNS != "" {
		if err := netns.Unmount(rec.NetNS); err != nil {
			return err
		}
	}
	if err := r.groups.Remove(ctx, r.podGroup(rec.UID)+"/"+rec.ID); err != nil {
		return err
	}
	if err := r.update(s, func(rec *sandboxRecord) { rec.Stopped, rec.IPs, rec.Networks = true, nil, nil }); err != nil {
		// On a full disk, for instance, which the pod may be about to empty. All of it is taken down, and another agent may do it once more.
		r.log.WarnContext(ctx, "that a sandbox is taken down is not written down", "sandbox", rec.ID, "error", err)
	}
	return nil
}

// RemoveSandbox stops a sandbox and forgets it with its containers. One that isn't there is success.
func (r *Runtime) RemoveSandbox(ctx context.Context, id string) error {
	s := r.find(id)
	if s == nil {
		return nil
	}
	if err := r.StopSandbox(ctx, id); err != nil {
		return err
	}
	s.op.Lock()
	defer s.op.Unlock()
	for _, c := range r.containersOf(id) {
		if err := r.removeContainer(ctx, c); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(r.sandboxDir(id)); err != nil {
		return fmt.Errorf("forget sandbox %s: %w", id, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.sandboxes, id)
	return nil
}

// RemovePod removes what a pod has beside its sandboxes: its control group, its logs, and its files and volumes. It is called when the last
// sandbox was removed. Until all of that is gone, the pod is listed.
func (r *Runtime) RemovePod(ctx context.Context, pod *v1.Pod) error {
	r.mu.Lock()
	for _, s := range r.sandboxes {
		if s.rec.UID == pod.UID {
			r.mu.Unlock()
			return fmt.Errorf("remove pod %s: it has sandbox %s", pod.UID, s.rec.ID)
		}
	}
	r.mu.Unlock()
	if err := errors.Join(r.groups.Remove(ctx, r.podGroup(pod.UID)), os.RemoveAll(r.logDir(pod))); err != nil {
		return err
	}
	if err := r.removePodFiles(pod.UID); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.pods, pod.UID)
	return nil
}

// Valid are the sandboxes whose attachments a collection keeps: all that are not stopped.
func (r *Runtime) Valid() map[string][]network.Attachment {
	r.mu.Lock()
	defer r.mu.Unlock()
	valid := map[string][]network.Attachment{}
	for id, s := range r.sandboxes {
		if !s.rec.Stopped {
			valid[id] = slices.Clone(s.rec.Networks)
		}
	}
	return valid
}

// Collect frees, in every network, what belongs to no sandbox.
func (r *Runtime) Collect(ctx context.Context) error {
	since := now()
	return r.cfg.Networks.Collect(ctx, r.Valid(), since)
}

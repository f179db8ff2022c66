package podworkers

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/cleat-cni/cleat/internal/agent/container"
	"github.com/cleat-cni/cleat/internal/agent/decide"
)

// minimumGrace is what a container gets at least to end by itself, whatever its hook has used up.
const minimumGrace = 2 * time.Second

// victim is a container that is to be stopped.
type victim struct {
	pod     *v1.Pod // nil if nobody has a spec of it
	id      string
	name    string
	ips     []netip.Addr // of the pod
	reason  decide.KillReason
	message string // for the event; default that it is stopped
}

// spec returns the container's spec, or nil.
func (v victim) spec() *v1.Container {
	if v.pod == nil {
		return nil
	}
	c, _ := decide.Container(v.pod, v.name)
	return c
}

func (v victim) isSidecar() bool {
	c := v.spec()
	if c == nil {
		return false
	}
	_, isInit := decide.Container(v.pod, v.name)
	return isInit && decide.IsSidecar(c)
}

// killPod stops all containers of a pod and then all its sandboxes, also those that no longer run: they may still be attached. The
// grace period is the pod's own if it is nil.
func (s *Syncer) killPod(ctx context.Context, pod *v1.Pod, status *container.PodStatus, grace *time.Duration) error {
	var main, sidecars []victim
	for _, c := range status.Containers {
		if c.State == container.StateExited {
			continue
		}
		v := victim{pod: pod, id: c.ID, name: c.Name, ips: status.IPs}
		if v.isSidecar() {
			sidecars = append(sidecars, v)
		} else {
			main = append(main, v)
		}
	}
	began := time.Now()
	err := s.killAll(ctx, main, grace)
	// Sidecars serve the others, so they go after them: the last first, with what is left of the grace period.
	slices.SortStableFunc(sidecars, func(a, b victim) int { return position(b) - position(a) })
	for _, v := range sidecars {
		left := max(s.grace(v, grace)-time.Since(began), minimumGrace)
		err = errors.Join(err, s.killContainer(ctx, v, left))
	}
	if err != nil {
		return err
	}
	var errs []error
	for _, sandbox := range status.Sandboxes {
		if err := s.stopSandbox(ctx, sandbox.ID); err != nil {
			if pod != nil && ctx.Err() == nil {
				s.config.Recorder.Event(pod, v1.EventTypeWarning, "FailedKillPod", err.Error())
			}
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// position is where a sidecar stands among the init containers.
func position(v victim) int {
	return slices.IndexFunc(v.pod.Spec.InitContainers, func(c v1.Container) bool { return c.Name == v.name })
}

func (s *Syncer) stopSandbox(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if err := s.config.Runtime.StopSandbox(ctx, id); err != nil {
		return fmt.Errorf("stop sandbox %s: %w", id, err)
	}
	return nil
}

// killUnwanted stops single containers of a pod that goes on.
func (s *Syncer) killUnwanted(ctx context.Context, pod *v1.Pod, kills []decide.Kill) error {
	var list []victim
	last, _ := s.config.Status.GetPodStatus(pod.UID)
	ips := podIPs(last)
	for _, k := range kills {
		list = append(list, victim{pod: pod, id: k.ID, name: k.Name, ips: ips, reason: k.Reason, message: k.Message})
	}
	return s.killAll(ctx, list, nil)
}

func podIPs(status v1.PodStatus) []netip.Addr {
	var list []netip.Addr
	for _, ip := range status.PodIPs {
		if addr, err := netip.ParseAddr(ip.IP); err == nil { // the agent wrote it
			list = append(list, addr)
		}
	}
	return list
}

// killAll stops containers at the same time.
func (s *Syncer) killAll(ctx context.Context, list []victim, grace *time.Duration) error {
	errs := make([]error, len(list))
	var wg sync.WaitGroup
	for i, v := range list {
		wg.Go(func() { errs[i] = s.killContainer(ctx, v, s.grace(v, grace)) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// grace is how long a container gets: what was asked for, else what its probe says if that is why it is stopped, else what the pod
// says.
func (s *Syncer) grace(v victim, override *time.Duration) time.Duration {
	if override != nil {
		return *override
	}
	if v.pod == nil || v.pod.Spec.TerminationGracePeriodSeconds == nil {
		return minimumGrace
	}
	seconds := *v.pod.Spec.TerminationGracePeriodSeconds
	if c := v.spec(); c != nil {
		probe := map[decide.KillReason]*v1.Probe{decide.KillLiveness: c.LivenessProbe, decide.KillStartup: c.StartupProbe}[v.reason]
		if probe != nil && probe.TerminationGracePeriodSeconds != nil {
			seconds = *probe.TerminationGracePeriodSeconds
		}
	}
	return time.Duration(seconds) * time.Second
}

// killContainer runs the container's preStop hook and stops it, both within the grace period.
func (s *Syncer) killContainer(ctx context.Context, v victim, grace time.Duration) error {
	if v.pod != nil {
		message := "Stopping container " + v.name
		if v.message != "" {
			message = v.message
		}
		s.config.Recorder.Event(v.pod, v1.EventTypeNormal, "Killing", message)
	}
	began := time.Now()
	if c := v.spec(); c != nil && c.Lifecycle != nil && c.Lifecycle.PreStop != nil {
		hookCtx, cancel := context.WithTimeout(ctx, grace)
		if err := s.runHook(hookCtx, v, c.Lifecycle.PreStop); err != nil && ctx.Err() == nil {
			s.config.Recorder.Event(v.pod, v1.EventTypeWarning, "FailedPreStopHook", "PreStopHook failed: "+err.Error())
		}
		cancel()
	}
	grace = max(grace-time.Since(began), minimumGrace)
	ctx, cancel := context.WithTimeout(ctx, grace+requestTimeout)
	defer cancel()
	if err := s.config.Runtime.StopContainer(ctx, v.id, grace); err != nil {
		return fmt.Errorf("stop container %s: %w", v.name, err)
	}
	return nil
}

package podworkers

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/cleat-cni/cleat/internal/agent/container"
	"github.com/cleat-cni/cleat/internal/agent/decide"
)

// act does what was decided, in the order that the kubelet has: nothing is made before the old was stopped without an error.
func (s *Syncer) act(ctx context.Context, pod *v1.Pod, status *container.PodStatus, a decide.PodActions) error {
	if a.KillPod {
		if err := s.killPod(ctx, pod, status, nil); err != nil {
			return err
		}
	} else if err := s.killUnwanted(ctx, pod, a.Kill); err != nil {
		return err
	}
	sandbox, ips := a.SandboxID, status.IPs
	if a.CreateSandbox {
		var err error
		if sandbox, ips, err = s.createSandbox(ctx, pod, a.Attempt); err != nil {
			return err
		}
	}
	return s.startAll(ctx, status, a.Start, container.Start{Pod: pod, SandboxID: sandbox, IPs: ips})
}

// The reasons of events and of the condition PodReadyToStartContainers, as the kubelet calls them.
const (
	reasonNotReady  = "NetworkNotReady"
	reasonNoSandbox = "FailedCreatePodSandBox"
)

// createSandbox makes a sandbox and returns its ID and addresses. Its status is set at once, before images are pulled.
func (s *Syncer) createSandbox(ctx context.Context, pod *v1.Pod, attempt int) (string, []netip.Addr, error) {
	if err := s.config.Network(); err != nil && !pod.Spec.HostNetwork {
		s.config.Recorder.Event(pod, v1.EventTypeWarning, reasonNotReady, err.Error())
		s.keepNoSandbox(pod.UID, reasonNotReady, err)
		return "", nil, err
	}
	limited, cancel := context.WithTimeout(ctx, createTimeout)
	defer cancel()
	id, err := s.config.Runtime.CreateSandbox(limited, pod, attempt)
	if err != nil {
		if ctx.Err() == nil {
			s.config.Recorder.Event(pod, v1.EventTypeWarning, reasonNoSandbox, err.Error())
			s.keepNoSandbox(pod.UID, reasonNoSandbox, err)
		}
		return "", nil, fmt.Errorf("create sandbox of pod %s: %w", pod.UID, err)
	}
	s.keepNoSandbox(pod.UID, "", nil)
	status, err := s.config.Runtime.PodStatus(ctx, pod.UID)
	if err != nil {
		return "", nil, fmt.Errorf("get status of pod %s: %w", pod.UID, err)
	}
	s.config.Status.SetPodStatus(pod, s.apiStatus(pod, status, false))
	return id, status.IPs, nil
}

// startAll starts containers one after the other. One that cannot be started does not hold back the others, unless it is an init container.
func (s *Syncer) startAll(ctx context.Context, status *container.PodStatus, list []decide.Start, in container.Start) error {
	waiting := map[string]v1.ContainerStateWaiting{}
	var errs []error
	var first *BackoffError
	onlyBackoff := true
	for _, start := range list {
		err := s.start(ctx, status, start, in)
		if err == nil {
			continue
		}
		errs = append(errs, err)
		if b, ok := errors.AsType[*BackoffError](err); !ok {
			onlyBackoff = false
		} else if first == nil || b.Until.Before(first.Until) {
			first = b
		}
		waiting[start.Container.Name] = v1.ContainerStateWaiting{Reason: container.Reason(err), Message: err.Error()}
		if start.Init || ctx.Err() != nil {
			break
		}
	}
	s.keepWaiting(in.Pod.UID, waiting)
	err := errors.Join(errs...)
	if err != nil && onlyBackoff {
		return &BackoffError{first.Until, err}
	}
	return err
}

// start starts one container, unless it has to wait since it crashed before.
func (s *Syncer) start(ctx context.Context, status *container.PodStatus, d decide.Start, in container.Start) error {
	if err := s.checkBackoff(in.Pod, status, d.Container); err != nil {
		return err
	}
	in.Container, in.Init, in.RestartCount = d.Container, d.Init, d.RestartCount
	env, err := decide.Env(decide.EnvInput{
		Pod: in.Pod, Container: d.Container, IPs: in.IPs, HostIPs: s.config.HostIPs, Allocatable: s.config.Allocatable,
	})
	if err != nil {
		s.config.Recorder.Event(in.Pod, v1.EventTypeWarning, "Failed", "Error: "+err.Error())
		return &container.Error{Reason: container.ReasonConfig, Err: err}
	}
	in.Env = env
	in.Command, in.Args = decide.ExpandAll(d.Container.Command, env), decide.ExpandAll(d.Container.Args, env)
	id, err := s.config.Runtime.StartContainer(ctx, in)
	if err != nil {
		if ctx.Err() == nil {
			s.config.Recorder.Event(in.Pod, v1.EventTypeWarning, "Failed", "Error: "+err.Error())
		}
		return fmt.Errorf("start container %s: %w", d.Container.Name, err)
	}
	s.config.Recorder.Event(in.Pod, v1.EventTypeNormal, "Started", "Started container "+d.Container.Name)
	if d.Container.Lifecycle == nil || d.Container.Lifecycle.PostStart == nil {
		return nil
	}
	return s.postStart(ctx, victim{pod: in.Pod, id: id, name: d.Container.Name, ips: in.IPs}, d.Container.Lifecycle.PostStart)
}

// postStart runs the hook of a container that was just started. One whose hook does not succeed is stopped.
func (s *Syncer) postStart(ctx context.Context, v victim, hook *v1.LifecycleHandler) error {
	err := s.runHook(ctx, v, hook)
	if err == nil {
		return nil
	}
	s.config.Recorder.Event(v.pod, v1.EventTypeWarning, "FailedPostStartHook", "PostStartHook failed: "+err.Error())
	err = &container.Error{Reason: container.ReasonPostStart, Err: fmt.Errorf("run postStart of container %s: %w", v.name, err)}
	v.message = "FailedPostStartHook"
	return errors.Join(err, s.killContainer(ctx, v, s.grace(v, nil)))
}

// checkBackoff returns a [BackoffError] if a container has to wait, counted from the end of its last run.
func (s *Syncer) checkBackoff(pod *v1.Pod, status *container.PodStatus, c *v1.Container) error {
	var last *container.Status
	for i := range status.Containers {
		if status.Containers[i].Name == c.Name && status.Containers[i].State == container.StateExited {
			last = &status.Containers[i]
			break
		}
	}
	if last == nil {
		return nil
	}
	now := time.Now()
	until, ok := s.backoff.Allow(string(pod.UID)+"/"+c.Name+"/"+container.HashContainer(c), last.FinishedAt, now)
	if ok {
		return nil
	}
	text := fmt.Sprintf("back-off %v restarting failed container %s of pod %s/%s", until.Sub(now).Round(time.Second), c.Name, pod.Namespace, pod.Name)
	s.config.Recorder.Event(pod, v1.EventTypeWarning, "BackOff", "Back-off restarting failed container "+c.Name)
	return &BackoffError{until, &container.Error{Reason: container.ReasonCrashLoop, Err: errors.New(text)}}
}

package decide

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/cleat-cni/cleat/internal/agent/container"
)

// initContainers decides on the init containers and sidecars, and reports whether the regular containers may run. They are looked at
// from the last to the first: the last one that left a trace in the sandbox tells how far the pod came, since the records of those
// before it may have been collected.
func (in Input) initContainers(a *PodActions) (initialized bool) {
	list := in.Pod.Spec.InitContainers
	if len(list) == 0 {
		return true
	}
	initialized = in.anyContainerIn(a.SandboxID)
	past := initialized // whether the one that is looked at lies behind the furthest that has begun
	var starts []Start
	for i := len(list) - 1; i >= 0; i-- {
		c := &list[i]
		s := in.findIn(a.SandboxID, c.Name)
		if past {
			if IsSidecar(c) {
				starts = append(starts, in.sidecar(a, c, s)...)
			}
			continue
		}
		if s == nil {
			continue
		}
		past = true
		done, again := in.furthest(a, c, s)
		switch {
		case a.KillPod:
			return false
		case done && i == len(list)-1:
			initialized = true
		case done:
			starts = append(starts, in.start(&list[i+1], true))
		}
		starts = append(starts, again...)
	}
	if !past {
		starts = append(starts, in.start(&list[0], true))
	}
	slices.Reverse(starts)
	a.Start = append(a.Start, starts...)
	return initialized
}

// furthest decides on the init container that is furthest along: whether the next one may begin, and whether it has to be started
// again itself.
func (in Input) furthest(a *PodActions, c *v1.Container, s *container.Status) (done bool, again []Start) {
	switch {
	case IsSidecar(c):
		again = in.sidecar(a, c, s)
		started := c.StartupProbe == nil || in.Probes[s.ID].Startup == container.ProbeSuccess
		return len(again) == 0 && s.State == container.StateRunning && started, again
	case s.State == container.StateRunning:
		return false, nil
	case succeeded(s):
		return true, nil
	case s.State == container.StateExited && in.Pod.Spec.RestartPolicy == v1.RestartPolicyNever:
		*a = PodActions{KillPod: true, SandboxID: a.SandboxID, Attempt: a.Attempt}
		return false, nil
	}
	in.killUnknown(a, s)
	return false, []Start{in.start(c, true)}
}

// sidecar decides on a sidecar that has its turn: it is started whenever it does not run.
func (in Input) sidecar(a *PodActions, c *v1.Container, s *container.Status) []Start {
	if s == nil || s.State != container.StateRunning {
		in.killUnknown(a, s)
		return []Start{in.start(c, true)}
	}
	kill, bad := in.unfit(c, s)
	if !bad {
		return nil
	}
	kill.Message += ", will be restarted"
	a.Kill = append(a.Kill, kill)
	return []Start{in.start(c, true)}
}

// anyContainerIn reports whether a regular container was ever made in the sandbox, so that the pod's initialization is over.
func (in Input) anyContainerIn(sandbox string) bool {
	return slices.ContainsFunc(in.Pod.Spec.Containers, func(c v1.Container) bool { return in.findIn(sandbox, c.Name) != nil })
}

// findIn returns the newest container of a name in a sandbox, or nil.
func (in Input) findIn(sandbox, name string) *container.Status {
	for i := range in.Status.Containers {
		if s := &in.Status.Containers[i]; s.Name == name && s.SandboxID == sandbox {
			return s
		}
	}
	return nil
}

package decide

import v1 "k8s.io/api/core/v1"

// tally counts containers by what their states mean to the pod.
type tally struct{ unknown, waiting, running, stopped, succeeded int }

// Phase returns the phase that follows from the statuses of a pod's containers. A pod that has ended is judged by how its containers
// ended, whatever its restart policy says.
func Phase(pod *v1.Pod, status v1.PodStatus, ended bool) v1.PodPhase {
	pending, sidecarPending, failed := initPhase(pod, status.InitContainerStatuses)
	never := pod.Spec.RestartPolicy == v1.RestartPolicyNever
	if failed && (never || ended) {
		return v1.PodFailed
	}
	var n tally
	sidecars := 0
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; IsSidecar(c) {
			if s := findStatus(status.InitContainerStatuses, c.Name); s != nil && s.State.Running != nil {
				sidecars++
			}
		}
	}
	for i := range pod.Spec.Containers {
		n.add(findStatus(status.ContainerStatuses, pod.Spec.Containers[i].Name))
	}
	n.running += sidecars
	switch {
	case ended && n.running == 0:
		if n.stopped == len(pod.Spec.Containers) && n.stopped == n.succeeded {
			return v1.PodSucceeded
		}
		return v1.PodFailed
	case pending, sidecarPending && n.running-sidecars+n.stopped == 0, n.waiting > 0, n.unknown > 0:
		return v1.PodPending
	case n.running > 0, pod.Spec.RestartPolicy == v1.RestartPolicyAlways:
		return v1.PodRunning
	case n.stopped == n.succeeded:
		return v1.PodSucceeded
	case never:
		return v1.PodFailed
	}
	return v1.PodRunning
}

// initPhase reports whether init containers hold the pod back, whether sidecars do, which they can only as long as no regular container was
// started, and whether an init container failed.
func initPhase(pod *v1.Pod, statuses []v1.ContainerStatus) (pending, sidecarPending, failed bool) {
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		s := findStatus(statuses, c.Name)
		switch {
		case IsSidecar(c):
			// One that ran and ended does not put a pod back to pending.
			sidecarPending = sidecarPending || s == nil ||
				s.State.Terminated == nil && s.LastTerminationState.Terminated == nil && (s.Started == nil || !*s.Started)
		case s == nil:
			pending = true
		case s.State.Terminated != nil:
			failed = failed || s.State.Terminated.ExitCode != 0
			pending = pending || s.State.Terminated.ExitCode != 0
		case s.State.Waiting != nil && s.LastTerminationState.Terminated != nil:
			failed = failed || s.LastTerminationState.Terminated.ExitCode != 0
			pending = true
		default:
			pending = true
		}
	}
	return pending, sidecarPending, failed
}

// add counts one regular container; nil is one without a status. One that waits to be started again counts as stopped.
func (n *tally) add(s *v1.ContainerStatus) {
	var end *v1.ContainerStateTerminated
	switch {
	case s == nil:
		n.unknown++
		return
	case s.State.Running != nil:
		n.running++
		return
	case s.State.Terminated != nil:
		end = s.State.Terminated
	case s.LastTerminationState.Terminated != nil:
		end = s.LastTerminationState.Terminated
	default:
		n.waiting++
		return
	}
	n.stopped++
	if end.ExitCode == 0 {
		n.succeeded++
	}
}

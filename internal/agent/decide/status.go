package decide

import (
	"net/netip"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cleat-cni/cleat/internal/agent/container"
)

// exitUnknown is the exit code of a container whose end nobody saw, which counts as a kill.
const exitUnknown = 137

// StatusInput is what the status of a pod is made from.
type StatusInput struct {
	Input
	// Waiting says why containers do not run, by name: what the last attempt to start each of them said.
	Waiting map[string]v1.ContainerStateWaiting
	// NoSandbox says why there is no sandbox: what the last attempt to make one said.
	NoSandbox v1.ContainerStateWaiting
	Last      v1.PodStatus // as it was shown before; the zero value for a new pod
	HostIPs   []netip.Addr // of the node
	Ended     bool         // no container will be started again, whatever the policy says
	Now       time.Time
}

// APIStatus returns the status that the API shows. Once it was Failed or Succeeded the phase stays.
func APIStatus(in StatusInput) v1.PodStatus {
	status := v1.PodStatus{StartTime: in.Last.StartTime, Message: in.Last.Message, Reason: in.Last.Reason}
	if status.StartTime == nil {
		status.StartTime = &metav1.Time{Time: in.Now}
		if made := in.Status.CreatedAt; !made.IsZero() && made.Before(in.Now) { // it is an earlier agent's
			status.StartTime.Time = made
		}
	}
	status.InitContainerStatuses = in.containerStatuses(in.Pod.Spec.InitContainers, in.Last.InitContainerStatuses)
	initialized := allInitialized(in.Pod, status.InitContainerStatuses)
	status.ContainerStatuses = in.containerStatuses(in.Pod.Spec.Containers, in.Last.ContainerStatuses)
	if !initialized {
		for i := range status.ContainerStatuses {
			if w := status.ContainerStatuses[i].State.Waiting; w != nil && w.Reason == container.ReasonCreating {
				w.Reason = container.ReasonPodInitializing
			}
		}
	}
	status.Phase = in.Last.Phase
	if !terminal(status.Phase) {
		status.Phase = Phase(in.Pod, status, in.Ended)
	}
	in.addresses(&status)
	status.Conditions = in.conditions(status)
	return status
}

func terminal(phase v1.PodPhase) bool { return phase == v1.PodFailed || phase == v1.PodSucceeded }

// addresses fills in the addresses of pod and node. A pod keeps those it had when its sandbox is gone.
func (in StatusInput) addresses(status *v1.PodStatus) {
	for _, ip := range in.HostIPs {
		status.HostIPs = append(status.HostIPs, v1.HostIP{IP: ip.String()})
	}
	if len(in.HostIPs) > 0 {
		status.HostIP = in.HostIPs[0].String()
	}
	ips := in.Status.IPs
	if in.Pod.Spec.HostNetwork {
		ips = in.HostIPs
	}
	for _, ip := range ips {
		status.PodIPs = append(status.PodIPs, v1.PodIP{IP: ip.String()})
	}
	if len(ips) == 0 {
		status.PodIPs = in.Last.PodIPs
	}
	if len(status.PodIPs) > 0 {
		status.PodIP = status.PodIPs[0].IP
	}
}

func (in StatusInput) containerStatuses(specs []v1.Container, last []v1.ContainerStatus) []v1.ContainerStatus {
	var list []v1.ContainerStatus
	for i := range specs {
		c := &specs[i]
		s := in.containerStatus(c, findStatus(last, c.Name))
		in.readiness(c, &s)
		list = append(list, s)
	}
	return list
}

// containerStatus makes the status of one container from the newest two of its name.
func (in StatusInput) containerStatus(c *v1.Container, last *v1.ContainerStatus) v1.ContainerStatus {
	var found []*container.Status
	for i := range in.Status.Containers {
		if s := &in.Status.Containers[i]; s.Name == c.Name {
			found = append(found, s)
		}
	}
	if len(found) == 0 {
		return in.vanished(c, last)
	}
	newest := found[0]
	api := v1.ContainerStatus{
		Name: c.Name, Image: newest.Image, ImageID: newest.ImageID, ContainerID: newest.ID,
		RestartCount: int32(newest.RestartCount), State: state(newest),
	}
	if len(found) > 1 && found[1].State == container.StateExited {
		api.LastTerminationState = state(found[1])
	}
	if end := lastEnd(last); end != nil && len(found) == 1 && end.ContainerID != newest.ID {
		api.LastTerminationState.Terminated = end // the record of it was collected
	}
	in.wait(&api, newest)
	return api
}

// lastEnd returns how the run before the last ended, or nil.
func lastEnd(last *v1.ContainerStatus) *v1.ContainerStateTerminated {
	if last == nil {
		return nil
	}
	return last.LastTerminationState.Terminated
}

// wait turns the state of a container that ended and is to be started again into waiting, if an attempt was made and said why.
func (in StatusInput) wait(api *v1.ContainerStatus, newest *container.Status) {
	why, ok := in.Waiting[api.Name]
	if !ok || newest.State == container.StateRunning || in.Ended || !ShouldRestart(in.Pod, newest) {
		return
	}
	if api.State.Terminated != nil {
		api.LastTerminationState = api.State
	}
	api.State = v1.ContainerState{Waiting: &why}
}

// vanished makes the status of a container that the runtime knows nothing of: one that was not made yet, or one whose record is gone.
func (in StatusInput) vanished(c *v1.Container, last *v1.ContainerStatus) v1.ContainerStatus {
	if last != nil && last.State.Terminated != nil {
		return *last
	}
	if _, isInit := Container(in.Pod, c.Name); isInit && !IsSidecar(c) && in.initialized() {
		return v1.ContainerStatus{Name: c.Name, Image: c.Image, State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{
			Reason: "Completed", Message: "the runtime no longer knows the init container; the pod has come past it",
		}}}
	}
	why := v1.ContainerStateWaiting{Reason: container.ReasonCreating}
	if w, ok := in.Waiting[c.Name]; ok && !in.Ended {
		why = w
	}
	api := v1.ContainerStatus{Name: c.Name, Image: c.Image, State: v1.ContainerState{Waiting: &why}}
	if last == nil {
		return api
	}
	api.RestartCount, api.LastTerminationState = last.RestartCount, last.LastTerminationState
	if last.State.Running != nil {
		api.RestartCount++
		api.LastTerminationState = v1.ContainerState{Terminated: &v1.ContainerStateTerminated{
			ExitCode: exitUnknown, Reason: container.ReasonStatusUnknown, ContainerID: last.ContainerID,
			Message: "the runtime no longer knows the container; how it ended is not known",
		}}
	}
	if in.Ended && api.LastTerminationState.Terminated != nil {
		api.State, api.LastTerminationState = api.LastTerminationState, v1.ContainerState{}
	}
	return api
}

// initialized reports whether a regular container was ever made, which is done once all init containers are through.
func (in Input) initialized() bool {
	return slices.ContainsFunc(in.Pod.Spec.Containers, func(c v1.Container) bool { return in.Status.FindContainer(c.Name) != nil })
}

func state(s *container.Status) v1.ContainerState {
	switch s.State {
	case container.StateRunning:
		return v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: metav1.Time{Time: s.StartedAt}}}
	case container.StateExited:
		return v1.ContainerState{Terminated: &v1.ContainerStateTerminated{
			ExitCode: int32(s.ExitCode), Reason: s.Reason, Message: s.Message, ContainerID: s.ID,
			StartedAt: metav1.Time{Time: s.StartedAt}, FinishedAt: metav1.Time{Time: s.FinishedAt},
		}}
	case container.StateCreated:
		return v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: container.ReasonCreating}}
	}
	return v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: container.ReasonStatusUnknown}}
}

// readiness sets whether a container has started and is ready, by its probes. Without a probe it is as soon as it runs. An init
// container that is no sidecar is ready once it has succeeded.
func (in StatusInput) readiness(c *v1.Container, s *v1.ContainerStatus) {
	probe := in.Probes[s.ContainerID]
	running := s.State.Running != nil
	started := running && (c.StartupProbe == nil || probe.Startup == container.ProbeSuccess)
	s.Started = &started
	if _, isInit := Container(in.Pod, c.Name); isInit && !IsSidecar(c) {
		s.Ready = s.State.Terminated != nil && s.State.Terminated.ExitCode == 0
		return
	}
	s.Ready = started && (c.ReadinessProbe == nil || probe.Readiness == container.ProbeSuccess)
}

func findStatus(list []v1.ContainerStatus, name string) *v1.ContainerStatus {
	for i := range list {
		if list[i].Name == name {
			return &list[i]
		}
	}
	return nil
}

// allInitialized reports whether every init container has done its part: ended well, or as a sidecar has started.
func allInitialized(pod *v1.Pod, statuses []v1.ContainerStatus) bool {
	return len(incomplete(pod, statuses)) == 0
}

// incomplete lists the init containers that hold back the pod.
func incomplete(pod *v1.Pod, statuses []v1.ContainerStatus) []string {
	var list []string
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		s := findStatus(statuses, c.Name)
		done := s != nil && s.Ready
		if IsSidecar(c) {
			done = s != nil && s.Started != nil && *s.Started
		}
		if !done {
			list = append(list, c.Name)
		}
	}
	return list
}

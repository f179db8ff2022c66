// Package decide says what a pod needs and how it stands, from its spec and from what the runtime and the probes know of it. It is
// pure: whoever calls it acts on what it returns, and time comes in as a value.
//
// [ComputePodActions] is the kubelet's computePodActions, with init containers and sidecars (init containers that are always
// restarted); [APIStatus] makes the status that the API shows, with [Phase] and the conditions; [Backoff] is the wait of a container
// that crashes again and again; [Env] resolves a container's environment.
//
// It differs from the kubelet where that one cannot tell apart the containers of a pod's earlier sandboxes: ours carry the sandbox's
// ID, so init containers that ran in an earlier one need not be purged, and a pod that is never restarted still gets the containers
// that it never had when its sandbox is lost.
package decide

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/cleat-cni/cleat/internal/agent/container"
)

// Probe is what the probes of a container last concluded.
type Probe struct{ Liveness, Readiness, Startup container.ProbeResult }

// Input is what decisions are made from.
type Input struct {
	Pod    *v1.Pod
	Status *container.PodStatus
	Probes map[string]Probe // by the container's ID
}

// PodActions is what has to be done, in the order of the fields.
type PodActions struct {
	KillPod       bool    // stop every container, and then every sandbox
	Kill          []Kill  // stop these containers; empty if the whole pod is stopped
	CreateSandbox bool    // only once the old ones were stopped
	Attempt       int     // of the sandbox that is to be made
	SandboxID     string  // of the sandbox that stays; "" if none does
	Start         []Start // one after the other; an init container that fails ends it
}

// Kill is a container that has to be stopped.
type Kill struct {
	ID      string
	Name    string
	Reason  KillReason
	Message string
}

// KillReason says why a container is stopped.
type KillReason string

// The reasons.
const (
	KillChanged  KillReason = "changed"  // the spec differs from what it was started from
	KillLiveness KillReason = "liveness" // the probe failed
	KillStartup  KillReason = "startup"  // the probe failed
	KillUnknown  KillReason = "unknown"  // nobody knows whether it runs, and another one is to be started
	KillLeftover KillReason = "leftover" // of an earlier sandbox, or no longer in the spec
)

// Start is a container that has to be started.
type Start struct {
	Container    *v1.Container // in the pod's spec
	Init         bool
	RestartCount int
}

// Empty reports whether nothing is to be done.
func (a PodActions) Empty() bool {
	return !a.KillPod && !a.CreateSandbox && len(a.Kill) == 0 && len(a.Start) == 0
}

// ComputePodActions says what a pod that is to run needs. It must not be asked about one that is being deleted or has ended.
func ComputePodActions(in Input) PodActions {
	changed, attempt, id := podSandboxChanged(in.Pod, in.Status)
	if changed {
		return in.newSandbox(attempt)
	}
	a := PodActions{SandboxID: id, Attempt: attempt}
	a.Kill = in.leftovers(id)
	initialized := in.initContainers(&a)
	if a.KillPod || !initialized {
		return a
	}
	if keep := in.containers(&a); keep == 0 && !slices.ContainsFunc(a.Start, func(s Start) bool { return !s.Init }) {
		return PodActions{KillPod: true, SandboxID: id, Attempt: attempt} // sidecars alone do not keep a pod
	}
	return a
}

// podSandboxChanged reports whether a pod needs a new sandbox, of which attempt, and else the ID of the one it has.
func podSandboxChanged(pod *v1.Pod, status *container.PodStatus) (changed bool, attempt int, id string) {
	if len(status.Sandboxes) == 0 {
		return true, 0, ""
	}
	running := 0
	for _, s := range status.Sandboxes {
		if s.State == container.StateRunning {
			running++
		}
	}
	newest := status.Sandboxes[0]
	switch {
	case running > 1, newest.State != container.StateRunning, newest.HostNetwork != pod.Spec.HostNetwork,
		!newest.HostNetwork && len(newest.IPs) == 0:
		return true, newest.Attempt + 1, ""
	}
	return false, newest.Attempt, newest.ID
}

// newSandbox says what a pod needs that has no usable sandbox: everything stopped and started anew, unless nothing is left to do.
func (in Input) newSandbox(attempt int) PodActions {
	a := PodActions{KillPod: true, Attempt: attempt}
	never := in.Pod.Spec.RestartPolicy == v1.RestartPolicyNever
	for i := range in.Pod.Spec.Containers {
		c := &in.Pod.Spec.Containers[i]
		last := in.Status.FindContainer(c.Name)
		switch {
		case last == nil:
		case never, in.Pod.Spec.RestartPolicy == v1.RestartPolicyOnFailure && succeeded(last):
			continue
		}
		a.Start = append(a.Start, in.start(c, false))
	}
	if len(a.Start) == 0 || never && in.initFailed() {
		a.Start = nil
		return a
	}
	a.CreateSandbox = true
	if len(in.Pod.Spec.InitContainers) > 0 {
		a.Start = []Start{in.start(&in.Pod.Spec.InitContainers[0], true)}
	}
	return a
}

// initFailed reports whether an init container that is no sidecar ended with an error, in any sandbox.
func (in Input) initFailed() bool {
	for i := range in.Pod.Spec.InitContainers {
		c := &in.Pod.Spec.InitContainers[i]
		if s := in.Status.FindContainer(c.Name); !IsSidecar(c) && s != nil && s.State == container.StateExited && !succeeded(s) {
			return true
		}
	}
	return false
}

// leftovers lists containers that may run and that nothing in the spec stands for in the sandbox.
func (in Input) leftovers(sandbox string) []Kill {
	var list []Kill
	for i := range in.Status.Containers {
		s := &in.Status.Containers[i]
		if s.State == container.StateExited {
			continue
		}
		c, _ := Container(in.Pod, s.Name)
		switch {
		case c == nil:
			list = append(list, Kill{s.ID, s.Name, KillLeftover, fmt.Sprintf("Container %s is no longer in the spec", s.Name)})
		case s.SandboxID != sandbox:
			list = append(list, Kill{s.ID, s.Name, KillLeftover, fmt.Sprintf("Container %s is of an earlier sandbox", s.Name)})
		case in.Status.FindContainer(s.Name).ID != s.ID:
			list = append(list, Kill{s.ID, s.Name, KillLeftover, fmt.Sprintf("Container %s was started a second time", s.Name)})
		}
	}
	return list
}

// containers decides on the regular containers and returns how many are left as they are.
func (in Input) containers(a *PodActions) (keep int) {
	for i := range in.Pod.Spec.Containers {
		c := &in.Pod.Spec.Containers[i]
		s := in.Status.FindContainer(c.Name)
		if s == nil || s.State != container.StateRunning || s.SandboxID != a.SandboxID {
			if ShouldRestart(in.Pod, s) {
				in.killUnknown(a, s)
				a.Start = append(a.Start, in.start(c, false))
			}
			continue
		}
		kill, bad := in.unfit(c, s)
		if !bad {
			keep++
			continue
		}
		// What was started from another spec is replaced whatever the policy says.
		if in.Pod.Spec.RestartPolicy != v1.RestartPolicyNever || kill.Reason == KillChanged {
			kill.Message += ", will be restarted"
			a.Start = append(a.Start, in.start(c, false))
		}
		a.Kill = append(a.Kill, kill)
	}
	return keep
}

// unfit says why a running container has to be stopped, if it does.
func (in Input) unfit(c *v1.Container, s *container.Status) (Kill, bool) {
	probe := in.Probes[s.ID]
	switch {
	case s.Hash != container.HashContainer(c):
		return Kill{s.ID, c.Name, KillChanged, fmt.Sprintf("Container %s definition changed", c.Name)}, true
	case probe.Liveness == container.ProbeFailure:
		return Kill{s.ID, c.Name, KillLiveness, fmt.Sprintf("Container %s failed liveness probe", c.Name)}, true
	case probe.Startup == container.ProbeFailure:
		return Kill{s.ID, c.Name, KillStartup, fmt.Sprintf("Container %s failed startup probe", c.Name)}, true
	}
	return Kill{}, false
}

// killUnknown stops a container of which nobody knows whether it runs, or that was made and not started, before another takes its
// place.
func (in Input) killUnknown(a *PodActions, s *container.Status) {
	if s != nil && s.SandboxID == a.SandboxID && (s.State == container.StateUnknown || s.State == container.StateCreated) {
		a.Kill = append(a.Kill, Kill{s.ID, s.Name, KillUnknown, fmt.Sprintf("Container %s is in state %s, try killing it before restart", s.Name, s.State)})
	}
}

// start makes the order to start a container, one more time than it was.
func (in Input) start(c *v1.Container, isInit bool) Start {
	count := 0
	if last := in.Status.FindContainer(c.Name); last != nil {
		count = last.RestartCount + 1
	}
	return Start{Container: c, Init: isInit, RestartCount: count}
}

// ShouldRestart reports whether a container that does not run is to be started, by the pod's policy and how it ended. The status is
// nil if there never was one.
func ShouldRestart(pod *v1.Pod, s *container.Status) bool {
	switch {
	case pod.DeletionTimestamp != nil:
		return false
	case s == nil, s.State != container.StateExited:
		return true
	case pod.Spec.RestartPolicy == v1.RestartPolicyNever:
		return false
	case pod.Spec.RestartPolicy == v1.RestartPolicyOnFailure:
		return !succeeded(s)
	}
	return true
}

// Container returns the container or init container of a name, and whether it is an init container; nil if there is none.
func Container(pod *v1.Pod, name string) (c *v1.Container, isInit bool) {
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Name == name {
			return &pod.Spec.Containers[i], false
		}
	}
	for i := range pod.Spec.InitContainers {
		if pod.Spec.InitContainers[i].Name == name {
			return &pod.Spec.InitContainers[i], true
		}
	}
	return nil, false
}

// IsSidecar reports whether an init container is one that runs as long as the pod.
func IsSidecar(c *v1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways
}

func succeeded(s *container.Status) bool { return s.State == container.StateExited && s.ExitCode == 0 }

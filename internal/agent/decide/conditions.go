package decide

import (
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cleat-cni/cleat/internal/agent/container"
)

// conditions makes the conditions of a pod in the order in which it passes them. Each keeps the time of its last transition. Those
// that somebody else set, such as readiness gates, stay.
func (in StatusInput) conditions(status v1.PodStatus) []v1.PodCondition {
	own := []v1.PodCondition{
		condition(v1.PodScheduled, nil),
		condition(v1.PodReadyToStartContainers, in.sandboxMissing()),
		condition(v1.PodInitialized, in.notInitialized(status)),
		condition(v1.ContainersReady, in.containersUnready(status)),
		condition(v1.PodReady, in.unready(status)),
	}
	var list []v1.PodCondition
	for _, c := range own {
		c.LastTransitionTime = metav1.Time{Time: in.Now}
		if old := findCondition(in.Last.Conditions, c.Type); old != nil && old.Status == c.Status {
			c.LastTransitionTime = old.LastTransitionTime
		}
		list = append(list, c)
	}
	for _, c := range in.Last.Conditions {
		if findCondition(own, c.Type) == nil {
			list = append(list, c)
		}
	}
	return list
}

// obstacle says why a condition is not met.
type obstacle struct{ reason, message string }

func condition(kind v1.PodConditionType, o *obstacle) v1.PodCondition {
	if o == nil {
		return v1.PodCondition{Type: kind, Status: v1.ConditionTrue}
	}
	return v1.PodCondition{Type: kind, Status: v1.ConditionFalse, Reason: o.reason, Message: o.message}
}

func findCondition(list []v1.PodCondition, kind v1.PodConditionType) *v1.PodCondition {
	for i := range list {
		if list[i].Type == kind {
			return &list[i]
		}
	}
	return nil
}

// sandboxMissing is nil if a sandbox with a network exists.
func (in StatusInput) sandboxMissing() *obstacle {
	if len(in.Status.Sandboxes) > 0 {
		if s := in.Status.Sandboxes[0]; s.State == container.StateRunning && (s.HostNetwork || len(s.IPs) > 0) {
			return nil
		}
	}
	return &obstacle{in.NoSandbox.Reason, in.NoSandbox.Message}
}

func (in StatusInput) notInitialized(status v1.PodStatus) *obstacle {
	if status.Phase == v1.PodSucceeded {
		return nil
	}
	for _, s := range status.ContainerStatuses {
		if s.State.Running != nil || s.State.Terminated != nil || s.LastTerminationState.Terminated != nil {
			return nil // a regular container was started: that was once all were complete
		}
	}
	if names := incomplete(in.Pod, status.InitContainerStatuses); len(names) > 0 {
		return &obstacle{"ContainersNotInitialized", fmt.Sprintf("containers with incomplete status: %v", names)}
	}
	return nil
}

func (in StatusInput) containersUnready(status v1.PodStatus) *obstacle {
	switch status.Phase {
	case v1.PodSucceeded:
		return &obstacle{"PodCompleted", ""}
	case v1.PodFailed:
		return &obstacle{"PodFailed", ""}
	}
	var names []string
	for i := range in.Pod.Spec.InitContainers {
		if c := &in.Pod.Spec.InitContainers[i]; IsSidecar(c) {
			names = appendUnready(names, status.InitContainerStatuses, c.Name)
		}
	}
	for _, c := range in.Pod.Spec.Containers {
		names = appendUnready(names, status.ContainerStatuses, c.Name)
	}
	if len(names) > 0 {
		return &obstacle{"ContainersNotReady", fmt.Sprintf("containers with unready status: %v", names)}
	}
	return nil
}

func appendUnready(names []string, statuses []v1.ContainerStatus, name string) []string {
	if s := findStatus(statuses, name); s == nil || !s.Ready {
		names = append(names, name)
	}
	return names
}

// unready is nil if the containers are ready and every readiness gate is true.
func (in StatusInput) unready(status v1.PodStatus) *obstacle {
	if o := in.containersUnready(status); o != nil {
		return o
	}
	var gates []string
	for _, gate := range in.Pod.Spec.ReadinessGates {
		if c := findCondition(in.Last.Conditions, gate.ConditionType); c == nil || c.Status != v1.ConditionTrue {
			gates = append(gates, string(gate.ConditionType))
		}
	}
	if len(gates) > 0 {
		return &obstacle{"ReadinessGatesNotReady", "readiness gates that are not true: " + strings.Join(gates, ", ")}
	}
	return nil
}

// SetReadiness makes the conditions ContainersReady and Ready of a status anew, after somebody changed whether a container is ready.
func SetReadiness(pod *v1.Pod, status *v1.PodStatus, now time.Time) {
	in := StatusInput{Input: Input{Pod: pod, Status: &container.PodStatus{}}, Last: *status, Now: now}
	for _, c := range in.conditions(*status) {
		if c.Type != v1.ContainersReady && c.Type != v1.PodReady {
			continue
		}
		if old := findCondition(status.Conditions, c.Type); old != nil {
			*old = c
		} else {
			status.Conditions = append(status.Conditions, c)
		}
	}
}

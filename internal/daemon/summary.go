package daemon

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
)

// summary is a pod in a few words, those of kubectl get pods.
type summary struct{ ready, status, restarts string }

// summarize follows printPod of k8s.io/kubernetes/pkg/printers/internalversion: a container's reason goes before the pod's phase, an init
// container's before that of others, and the end of the pod before all.
func summarize(pod *v1.Pod, now time.Time) summary {
	var t tally
	reason := string(pod.Status.Phase)
	if pod.Status.Reason != "" {
		reason = pod.Status.Reason
	}
	total := len(pod.Spec.Containers)
	sidecars := map[string]bool{}
	for _, c := range pod.Spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways {
			sidecars[c.Name] = true
			total++
		}
	}
	initReason := t.initialize(pod, sidecars)
	if initReason != "" {
		reason = initReason
	}
	if initReason == "" || hasCondition(pod, v1.PodInitialized) {
		reason = t.run(pod, reason)
	}
	if pod.DeletionTimestamp != nil {
		reason = "Terminating"
	}
	restarts := fmt.Sprint(t.restarts)
	if t.restarts > 0 && !t.last.IsZero() {
		restarts += " (" + age(t.last, now) + " ago)"
	}
	return summary{fmt.Sprintf("%d/%d", t.ready, total), reason, restarts}
}

// tally counts what a summary needs of containers.
type tally struct {
	ready, restarts int
	last            time.Time // when a container ended last that was started again
}

func (t *tally) add(s *v1.ContainerStatus) {
	t.restarts += int(s.RestartCount)
	if end := s.LastTerminationState.Terminated; end != nil && end.FinishedAt.After(t.last) {
		t.last = end.FinishedAt.Time
	}
}

// initialize counts the init containers, and says what holds back the pod; "" if none does.
func (t *tally) initialize(pod *v1.Pod, sidecars map[string]bool) string {
	all := tally{}
	for i := range pod.Status.InitContainerStatuses {
		s := &pod.Status.InitContainerStatuses[i]
		all.add(s)
		switch w, end := s.State.Waiting, s.State.Terminated; {
		case end != nil && end.ExitCode == 0:
			continue
		case sidecars[s.Name] && s.Started != nil && *s.Started:
			t.add(s)
			if s.Ready {
				t.ready++
			}
			continue
		case end != nil:
			t.restarts, t.last = all.restarts, all.last
			return "Init:" + ended(end)
		case w != nil && w.Reason != "" && w.Reason != "PodInitializing" && w.Reason != "ContainerCreating":
			t.restarts, t.last = all.restarts, all.last
			return "Init:" + w.Reason
		}
		t.restarts, t.last = all.restarts, all.last
		return fmt.Sprintf("Init:%d/%d", i, len(pod.Spec.InitContainers))
	}
	return ""
}

// run counts the containers, and says what the first one with a reason says.
func (t *tally) run(pod *v1.Pod, reason string) string {
	running := false
	for i := len(pod.Status.ContainerStatuses) - 1; i >= 0; i-- {
		s := &pod.Status.ContainerStatuses[i]
		t.add(s)
		switch {
		case s.State.Waiting != nil && s.State.Waiting.Reason != "":
			reason = s.State.Waiting.Reason
		case s.State.Terminated != nil:
			reason = ended(s.State.Terminated)
		case s.Ready && s.State.Running != nil:
			running = true
			t.ready++
		}
	}
	if reason == "Completed" && running {
		if reason = "NotReady"; hasCondition(pod, v1.PodReady) {
			reason = "Running"
		}
	}
	return reason
}

// ended says how a container ended.
func ended(end *v1.ContainerStateTerminated) string {
	switch {
	case end.Reason != "":
		return end.Reason
	case end.Signal != 0:
		return fmt.Sprintf("Signal:%d", end.Signal)
	}
	return fmt.Sprintf("ExitCode:%d", end.ExitCode)
}

func hasCondition(pod *v1.Pod, kind v1.PodConditionType) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == kind {
			return c.Status == v1.ConditionTrue
		}
	}
	return false
}

// created is when a pod came: static pods have no time of creation, but one at which the agent first worked on them.
func created(pod *v1.Pod) time.Time {
	if pod.CreationTimestamp.IsZero() && pod.Status.StartTime != nil {
		return pod.Status.StartTime.Time
	}
	return pod.CreationTimestamp.Time
}

// age gives the time since t as kubectl does: in one unit, or two of them while that says more.
func age(t, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	const day = 24 * time.Hour
	d := max(now.Sub(t), 0)
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < 10*time.Minute && d%time.Minute >= time.Second:
		return fmt.Sprintf("%dm%ds", d/time.Minute, d%time.Minute/time.Second)
	case d < 3*time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 8*time.Hour && d%time.Hour >= time.Minute:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	case d < 2*day:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d < 8*day && d%day >= time.Hour:
		return fmt.Sprintf("%dd%dh", d/day, d%day/time.Hour)
	}
	return fmt.Sprintf("%dd", d/day)
}

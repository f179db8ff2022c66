package daemon

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// clock is when the tests run.
func clock() time.Time { return time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC) }

// The states of containers.
func runs() v1.ContainerState {
	return v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: metav1.NewTime(clock())}}
}

func waits(reason string) v1.ContainerState {
	return v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: reason}}
}

func ends(code int32, reason string) v1.ContainerState {
	return v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: code, Reason: reason, FinishedAt: metav1.NewTime(clock().Add(-5 * time.Minute))}}
}

func statusOf(name string, state v1.ContainerState, ready bool) v1.ContainerStatus {
	started := state.Running != nil
	return v1.ContainerStatus{Name: name, State: state, Ready: ready, Started: &started}
}

func podWith(status v1.PodStatus) *v1.Pod {
	pod := &v1.Pod{Status: status}
	for _, s := range status.InitContainerStatuses {
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, v1.Container{Name: s.Name})
	}
	for _, s := range status.ContainerStatuses {
		pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Name: s.Name})
	}
	return pod
}

func withSidecar(pod *v1.Pod, i int) *v1.Pod {
	pod.Spec.InitContainers[i].RestartPolicy = new(v1.ContainerRestartPolicyAlways)
	return pod
}

func TestSummarize(t *testing.T) {
	initialized := []v1.PodCondition{{Type: v1.PodInitialized, Status: v1.ConditionTrue}}
	isReady := append(initialized[:1:1], v1.PodCondition{Type: v1.PodReady, Status: v1.ConditionTrue})
	crashing := statusOf("a", waits("CrashLoopBackOff"), false)
	crashing.RestartCount, crashing.LastTerminationState = 3, ends(1, "Error")
	leaving := podWith(v1.PodStatus{Phase: v1.PodRunning, ContainerStatuses: []v1.ContainerStatus{statusOf("a", runs(), true)}})
	leaving.DeletionTimestamp = &metav1.Time{Time: clock()}
	for _, tt := range []struct {
		name string
		pod  *v1.Pod
		want summary
	}{
		{"nothing-yet", &v1.Pod{Spec: v1.PodSpec{Containers: make([]v1.Container, 2)}, Status: v1.PodStatus{Phase: v1.PodPending}}, summary{"0/2", "Pending", "0"}},
		{"creating", podWith(v1.PodStatus{Phase: v1.PodPending, ContainerStatuses: []v1.ContainerStatus{statusOf("a", waits("ContainerCreating"), false)}}),
			summary{"0/1", "ContainerCreating", "0"}},
		{"runs", podWith(v1.PodStatus{Phase: v1.PodRunning, ContainerStatuses: []v1.ContainerStatus{statusOf("a", runs(), true), statusOf("b", runs(), false)}}),
			summary{"1/2", "Running", "0"}},
		{"crash-loop", podWith(v1.PodStatus{Phase: v1.PodRunning, ContainerStatuses: []v1.ContainerStatus{crashing, statusOf("b", runs(), true)}}),
			summary{"1/2", "CrashLoopBackOff", "3 (5m ago)"}},
		{"completed", podWith(v1.PodStatus{Phase: v1.PodSucceeded, ContainerStatuses: []v1.ContainerStatus{statusOf("a", ends(0, "Completed"), false)}}),
			summary{"0/1", "Completed", "0"}},
		{"failed-without-reason", podWith(v1.PodStatus{Phase: v1.PodFailed, ContainerStatuses: []v1.ContainerStatus{statusOf("a", ends(9, ""), false)}}),
			summary{"0/1", "ExitCode:9", "0"}},
		{"pod-reason", podWith(v1.PodStatus{Phase: v1.PodFailed, Reason: "Evicted"}), summary{"0/0", "Evicted", "0"}},
		{"one-completed", podWith(v1.PodStatus{Phase: v1.PodRunning, Conditions: initialized,
			ContainerStatuses: []v1.ContainerStatus{statusOf("a", ends(0, "Completed"), false), statusOf("b", runs(), true)}}), summary{"1/2", "NotReady", "0"}},
		{"one-completed-and-ready", podWith(v1.PodStatus{Phase: v1.PodRunning, Conditions: isReady,
			ContainerStatuses: []v1.ContainerStatus{statusOf("a", ends(0, "Completed"), false), statusOf("b", runs(), true)}}), summary{"1/2", "Running", "0"}},
		{"init-runs", podWith(v1.PodStatus{Phase: v1.PodPending,
			InitContainerStatuses: []v1.ContainerStatus{statusOf("i", ends(0, "Completed"), true), statusOf("j", runs(), false)},
			ContainerStatuses:     []v1.ContainerStatus{statusOf("a", waits("PodInitializing"), false)}}), summary{"0/1", "Init:1/2", "0"}},
		{"init-fails", podWith(v1.PodStatus{Phase: v1.PodPending,
			InitContainerStatuses: []v1.ContainerStatus{statusOf("i", ends(1, "Error"), false)},
			ContainerStatuses:     []v1.ContainerStatus{statusOf("a", waits("PodInitializing"), false)}}), summary{"0/1", "Init:Error", "0"}},
		{"init-crash-loop", podWith(v1.PodStatus{Phase: v1.PodPending, InitContainerStatuses: []v1.ContainerStatus{crashing},
			ContainerStatuses: []v1.ContainerStatus{statusOf("b", waits("PodInitializing"), false)}}), summary{"0/1", "Init:CrashLoopBackOff", "3 (5m ago)"}},
		{"sidecar", withSidecar(podWith(v1.PodStatus{Phase: v1.PodRunning, Conditions: isReady,
			InitContainerStatuses: []v1.ContainerStatus{statusOf("s", runs(), true)},
			ContainerStatuses:     []v1.ContainerStatus{statusOf("a", runs(), true)}}), 0), summary{"2/2", "Running", "0"}},
		{"terminating", leaving, summary{"1/1", "Terminating", "0"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, summarize(tt.pod, clock()), cmp.AllowUnexported(summary{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestAge(t *testing.T) {
	const day = 24 * time.Hour
	for want, d := range map[string]time.Duration{
		"0s": -time.Second, "90s": 90 * time.Second, "2m": 2 * time.Minute, "2m1s": 121 * time.Second, "10m": 10*time.Minute + 5*time.Second,
		"179m": 179 * time.Minute, "3h": 3 * time.Hour, "3h1m": 3*time.Hour + time.Minute, "9h": 9*time.Hour + 30*time.Minute, "47h": 47 * time.Hour,
		"2d": 2 * day, "2d1h": 2*day + time.Hour, "8d": 8*day + 5*time.Hour,
	} {
		if got := age(clock().Add(-d), clock()); got != want {
			t.Errorf("age of %v: %s, want %s", d, got, want)
		}
	}
	if got := age(time.Time{}, clock()); got != "" {
		t.Errorf("age of no time: %q", got)
	}
}

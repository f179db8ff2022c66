package status

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func pod(policy v1.RestartPolicy, names ...string) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u", Namespace: "default", Name: "web"}, Spec: v1.PodSpec{RestartPolicy: policy}}
	for _, n := range names {
		p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: n})
	}
	return p
}

func running(name string) v1.ContainerStatus {
	return v1.ContainerStatus{Name: name, ContainerID: name + "0", State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}}
}

func exited(name string, code int32) v1.ContainerStatus {
	return v1.ContainerStatus{Name: name, ContainerID: name + "0", State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: code}}}
}

func waiting(name string) v1.ContainerStatus {
	return v1.ContainerStatus{Name: name, State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "ContainerCreating"}}}
}

func phase(p v1.PodPhase, containers ...v1.ContainerStatus) v1.PodStatus {
	return v1.PodStatus{Phase: p, ContainerStatuses: containers}
}

func TestStatusMovesForward(t *testing.T) {
	tests := []struct {
		name       string
		policy     v1.RestartPolicy
		first, set v1.PodStatus
		want       v1.PodStatus
		logs       string
	}{
		{"replaced", v1.RestartPolicyAlways, phase("Pending", waiting("a")), phase("Running", running("a")), phase("Running", running("a")), ""},
		{"phase-stays-failed", v1.RestartPolicyNever, phase("Failed", exited("a", 1)), phase("Running", exited("a", 1)), phase("Failed", exited("a", 1)), "keeps its phase"},
		{"phase-stays-succeeded", v1.RestartPolicyNever, phase("Succeeded"), phase("Failed"), phase("Succeeded"), "keeps its phase"},
		{"never-runs-again", v1.RestartPolicyNever, phase("Running", exited("a", 1)), phase("Running", running("a")), phase("Running", exited("a", 1)), "can't run again"},
		{"success-runs-again", v1.RestartPolicyOnFailure, phase("Running", exited("a", 0)), phase("Running", waiting("a")), phase("Running", exited("a", 0)), "can't run again"},
		{"failure-runs-again", v1.RestartPolicyOnFailure, phase("Running", exited("a", 1)), phase("Running", running("a")), phase("Running", running("a")), ""},
		{"always-runs-again", v1.RestartPolicyAlways, phase("Running", exited("a", 0)), phase("Running", running("a")), phase("Running", running("a")), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var log bytes.Buffer
			m := NewManager(slog.New(slog.NewTextHandler(&log, nil)))
			p := pod(tt.policy, "a")
			m.SetPodStatus(p, tt.first)
			m.SetPodStatus(p, tt.set)
			got, _ := m.GetPodStatus("u")
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
			if tt.logs == "" && log.Len() > 0 || !strings.Contains(log.String(), tt.logs) {
				t.Errorf("log %q, want %q", log.String(), tt.logs)
			}
		})
	}
}

func TestStatusIsACopy(t *testing.T) {
	m := NewManager(nil)
	s := phase("Running", running("a"))
	m.SetPodStatus(pod(v1.RestartPolicyAlways, "a"), s)
	s.ContainerStatuses[0].Name = "changed by the caller"
	before, _ := m.GetPodStatus("u")
	m.SetContainerReadiness("u", "a0", true)
	if got := before.ContainerStatuses[0]; got.Name != "a" || got.Ready {
		t.Errorf("a reader's status changed: %+v", got)
	}
}

func TestVersions(t *testing.T) {
	m := NewManager(nil)
	p := pod(v1.RestartPolicyAlways, "a")
	other := pod(v1.RestartPolicyAlways, "a")
	other.UID = "other"
	m.SetPodStatus(p, phase("Pending"))
	version, changed := m.Changes()
	m.SetPodStatus(p, phase("Pending")) // the same
	select {
	case <-changed:
		t.Error("the same status is a change")
	default:
	}
	m.SetPodStatus(other, phase("Running"))
	<-changed
	after, _ := m.Changes()
	if version != 1 || after != 2 || m.Version("u") != 1 || m.Version("other") != 2 || m.Version("none") != 0 {
		t.Errorf("versions %d, %d; pods %d, %d, %d", version, after, m.Version("u"), m.Version("other"), m.Version("none"))
	}
	_, changed = m.Changes()
	m.RemoveOrphanedStatuses(map[types.UID]bool{"u": true})
	<-changed
	if _, ok := m.GetPodStatus("other"); ok {
		t.Error("the orphan is there")
	}
	m.RemovePodStatus("u")
	if _, ok := m.GetPodStatus("u"); ok {
		t.Error("the pod is there")
	}
	m.SetPodStatus(p, phase("Pending")) // it may come again
	if got, _ := m.GetPodStatus("u"); got.Phase != v1.PodPending {
		t.Errorf("phase %s after it came again", got.Phase)
	}
}

func TestReadinessChangesConditions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewManager(nil)
		p := pod(v1.RestartPolicyAlways, "a", "b")
		b := running("b")
		b.Ready = true
		past := metav1.Now()
		s := phase("Running", running("a"), b)
		s.Conditions = []v1.PodCondition{
			{Type: v1.PodInitialized, Status: v1.ConditionTrue, LastTransitionTime: past},
			{Type: v1.PodReady, Status: v1.ConditionFalse, LastTransitionTime: past},
		}
		m.SetPodStatus(p, s)
		time.Sleep(time.Minute)
		m.SetContainerReadiness("u", "a0", true)
		m.SetContainerReadiness("u", "a-of-before", false)
		m.SetContainerReadiness("none", "a0", false)
		got, _ := m.GetPodStatus("u")
		now := metav1.Now()
		want := []v1.PodCondition{
			{Type: v1.PodInitialized, Status: v1.ConditionTrue, LastTransitionTime: past},
			{Type: v1.PodReady, Status: v1.ConditionTrue, LastTransitionTime: now},
			{Type: v1.ContainersReady, Status: v1.ConditionTrue, LastTransitionTime: now},
		}
		if diff := cmp.Diff(want, got.Conditions); diff != "" {
			t.Errorf("conditions (-want +got):\n%s", diff)
		}
		m.SetContainerStartup("u", "b0", false)
		got, _ = m.GetPodStatus("u")
		if st := got.ContainerStatuses[1].Started; st == nil || *st {
			t.Errorf("started: %v", st)
		}
		m.SetContainerReadiness("u", "b0", false)
		got, _ = m.GetPodStatus("u")
		if c := got.Conditions[1]; c.Status != v1.ConditionFalse || c.Message != "containers with unready status: [b]" {
			t.Errorf("condition %+v", c)
		}
	})
}

func TestTerminatePod(t *testing.T) {
	initialized := func(s v1.PodStatus) v1.PodStatus {
		s.Conditions = []v1.PodCondition{{Type: v1.PodInitialized, Status: v1.ConditionTrue}}
		return s
	}
	withInit := func(s v1.PodStatus, inits ...v1.ContainerStatus) v1.PodStatus {
		s.InitContainerStatuses = inits
		return s
	}
	tests := []struct {
		name string
		was  v1.PodStatus
		want string // phase, and of each container, init ones first, its code or -
	}{
		{"never-started", phase("Pending", waiting("a")), "Failed -"},
		{"ended-well", phase("Succeeded", exited("a", 0)), "Succeeded 0"},
		{"one-is-missing", initialized(phase("Running", exited("a", 0), waiting("b"))), "Failed 0 137"},
		{"one-seems-to-run", phase("Running", running("a")), "Failed 137"},
		{"second-init-container", withInit(phase("Pending", waiting("a")), exited("i", 0), running("j"), waiting("k")), "Failed 0 137 - -"},
		{"no-init-container-yet", withInit(phase("Pending", waiting("a")), waiting("i")), "Failed - -"},
		{"sidecar-seems-to-run", withInit(phase("Running", exited("a", 0)), running("i")), "Failed 137 0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := NewManager(nil)
			p := pod(v1.RestartPolicyAlways, "a", "b")
			m.SetPodStatus(p, tt.was)
			m.TerminatePod(p)
			s, _ := m.GetPodStatus("u")
			got := []string{string(s.Phase)}
			for _, c := range append(s.InitContainerStatuses, s.ContainerStatuses...) {
				switch end := c.State.Terminated; {
				case end == nil:
					got = append(got, "-")
				case end.ExitCode == 0:
					got = append(got, "0")
				case end.ExitCode == 137 && end.Reason == "ContainerStatusUnknown":
					got = append(got, "137")
				default:
					t.Errorf("%s: %+v", c.Name, end)
				}
			}
			if text := strings.Join(got, " "); text != tt.want {
				t.Errorf("got %s, want %s", text, tt.want)
			}
		})
	}
}

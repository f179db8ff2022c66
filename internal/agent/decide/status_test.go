package decide

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cleat-cni/cleat/internal/agent/container"
)

func TestPhase(t *testing.T) {
	const always, onFailure, never = v1.RestartPolicyAlways, v1.RestartPolicyOnFailure, v1.RestartPolicyNever
	tests := []struct {
		name   string
		pod    *v1.Pod
		status []string
		ended  bool
		want   v1.PodPhase
	}{
		{"nothing", pod(always, "web"), nil, false, v1.PodPending},
		{"one-of-two", pod(always, "web", "db"), []string{"s0 web running"}, false, v1.PodPending},
		{"both", pod(always, "web", "db"), []string{"s0 web running", "s0 db running"}, false, v1.PodRunning},
		{"one-ended", pod(never, "web", "db"), []string{"s0 web exited 1", "s0 db running"}, false, v1.PodRunning},
		{"ended-always", pod(always, "web"), []string{"s0 web exited 1"}, false, v1.PodRunning},
		{"failed-never", pod(never, "web"), []string{"s0 web exited 1"}, false, v1.PodFailed},
		{"failed-on-failure", pod(onFailure, "web"), []string{"s0 web exited 1"}, false, v1.PodRunning},
		{"succeeded-never", pod(never, "web"), []string{"s0 web exited 0"}, false, v1.PodSucceeded},
		{"succeeded-on-failure", pod(onFailure, "web"), []string{"s0 web exited 0"}, false, v1.PodSucceeded},
		{"succeeded-always", pod(always, "web"), []string{"s0 web exited 0"}, false, v1.PodRunning},
		{"terminated-always", pod(always, "web"), []string{"s0 web exited 0"}, true, v1.PodSucceeded},
		{"terminated-always-failed", pod(always, "web"), []string{"s0 web exited 1"}, true, v1.PodFailed},
		{"terminated-before-it-ran", pod(always, "web"), nil, true, v1.PodFailed},
		{"init-runs", pod(always, "init:a", "web"), []string{"s0 a running"}, false, v1.PodPending},
		{"init-done", pod(always, "init:a", "web"), []string{"s0 a exited 0"}, false, v1.PodPending},
		{"init-failed-never", pod(never, "init:a", "web"), []string{"s0 a exited 1"}, false, v1.PodFailed},
		{"init-failed", pod(always, "init:a", "web"), []string{"s0 a exited 1"}, false, v1.PodPending},
		{"init-failed-terminated", pod(always, "init:a", "web"), []string{"s0 a exited 1"}, true, v1.PodFailed},
		{"sidecar-alone", pod(never, "sidecar:log", "web"), []string{"s0 log running"}, false, v1.PodPending},
		{"sidecar-and-web", pod(never, "sidecar:log", "web"), []string{"s0 log running", "s0 web running"}, false, v1.PodRunning},
		{"sidecar-ended", pod(never, "sidecar:log", "web"), []string{"s0 log exited 1", "s0 web running"}, false, v1.PodRunning},
		{"web-ended-sidecar-runs", pod(never, "sidecar:log", "web"), []string{"s0 log running", "s0 web exited 0"}, false, v1.PodRunning},
		{"record-of-sidecar-lost", pod(onFailure, "sidecar:log", "web"), []string{"s0 web exited 0"}, false, v1.PodSucceeded},
		{"record-of-init-lost", pod(always, "init:a", "web"), []string{"s0 web running"}, false, v1.PodRunning},
		{"sidecar-runs-web-does-not", pod(always, "sidecar:log", "web"), []string{"s0 log created"}, false, v1.PodPending},
		{"all-ended", pod(never, "sidecar:log", "web"), []string{"s0 log exited 1", "s0 web exited 0"}, false, v1.PodSucceeded},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := APIStatus(StatusInput{Input: Input{Pod: tt.pod, Status: status(tt.pod, tt.status...)}, Ended: tt.ended}).Phase
			if got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

func TestPhaseStaysOnceItIsTerminal(t *testing.T) {
	p := pod(v1.RestartPolicyAlways, "web")
	in := StatusInput{Input: Input{Pod: p, Status: status(p, "sandbox s0 running", "s0 web running")}, Last: v1.PodStatus{Phase: v1.PodFailed}}
	if got := APIStatus(in).Phase; got != v1.PodFailed {
		t.Errorf("%s after Failed", got)
	}
}

// summary is a status as lines.
func summary(s v1.PodStatus) string {
	var b strings.Builder
	fmt.Fprintln(&b, s.Phase, s.PodIP)
	for _, c := range append(s.InitContainerStatuses, s.ContainerStatuses...) {
		state := func(s v1.ContainerState) string {
			switch {
			case s.Running != nil:
				return "running"
			case s.Waiting != nil:
				return s.Waiting.Reason
			case s.Terminated != nil:
				return fmt.Sprint("exit", s.Terminated.ExitCode)
			}
			return "-"
		}
		fmt.Fprintln(&b, c.Name, state(c.State), state(c.LastTerminationState), "restarts", c.RestartCount, "ready", c.Ready, "started", *c.Started)
	}
	for _, c := range s.Conditions {
		fmt.Fprintln(&b, strings.TrimSpace(fmt.Sprint(c.Type, " ", c.Status, " ", c.Reason, " ", c.Message)))
	}
	return b.String()
}

func TestAPIStatus(t *testing.T) {
	crash := map[string]v1.ContainerStateWaiting{"web": {Reason: container.ReasonCrashLoop}}
	plain := pod(v1.RestartPolicyAlways, "web")
	withInit := pod(v1.RestartPolicyAlways, "init:a", "web")
	probed := pod(v1.RestartPolicyAlways, "web")
	probed.Spec.Containers[0].ReadinessProbe, probed.Spec.Containers[0].StartupProbe = &v1.Probe{}, &v1.Probe{}
	gated := pod(v1.RestartPolicyAlways, "web")
	gated.Spec.ReadinessGates = []v1.PodReadinessGate{{ConditionType: "lb"}}
	never := pod(v1.RestartPolicyNever, "web")
	ran := v1.PodStatus{PodIPs: []v1.PodIP{{IP: "10.1.0.9"}}, ContainerStatuses: []v1.ContainerStatus{
		{Name: "web", ContainerID: "web7", RestartCount: 7, State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}}}}

	const upTo = "PodScheduled True\nPodReadyToStartContainers "
	tests := []struct {
		name   string
		in     StatusInput
		status []string
		want   string
	}{
		{"new", StatusInput{Input: Input{Pod: plain}}, nil,
			"Pending \nweb ContainerCreating - restarts 0 ready false started false\n" + upTo + "False\nInitialized True\n" +
				"ContainersReady False ContainersNotReady containers with unready status: [web]\nReady False ContainersNotReady containers with unready status: [web]\n"},
		{"runs", StatusInput{Input: Input{Pod: plain}}, []string{"sandbox s0 running", "s0 web running"},
			"Running 10.1.0.2\nweb running - restarts 0 ready true started true\n" + upTo + "True\nInitialized True\nContainersReady True\nReady True\n"},
		{"crash-loop", StatusInput{Input: Input{Pod: plain}, Waiting: crash}, []string{"sandbox s0 running", "s0 web exited 1", "s0 web exited 0"},
			"Running 10.1.0.2\nweb CrashLoopBackOff exit1 restarts 1 ready false started false\n" + upTo + "True\nInitialized True\n" +
				"ContainersReady False ContainersNotReady containers with unready status: [web]\nReady False ContainersNotReady containers with unready status: [web]\n"},
		{"restarted", StatusInput{Input: Input{Pod: plain}, Waiting: crash}, []string{"sandbox s0 running", "s0 web running", "s0 web exited 1"},
			"Running 10.1.0.2\nweb running exit1 restarts 1 ready true started true\n" + upTo + "True\nInitialized True\nContainersReady True\nReady True\n"},
		{"init", StatusInput{Input: Input{Pod: withInit}}, []string{"sandbox s0 running", "s0 a running"},
			"Pending 10.1.0.2\na running - restarts 0 ready false started true\nweb PodInitializing - restarts 0 ready false started false\n" + upTo +
				"True\nInitialized False ContainersNotInitialized containers with incomplete status: [a]\n" +
				"ContainersReady False ContainersNotReady containers with unready status: [web]\nReady False ContainersNotReady containers with unready status: [web]\n"},
		{"not-started", StatusInput{Input: Input{Pod: probed, Probes: map[string]Probe{"web0": {Readiness: container.ProbeSuccess}}}},
			[]string{"sandbox s0 running", "s0 web running"},
			"Running 10.1.0.2\nweb running - restarts 0 ready false started false\n" + upTo + "True\nInitialized True\n" +
				"ContainersReady False ContainersNotReady containers with unready status: [web]\nReady False ContainersNotReady containers with unready status: [web]\n"},
		{"started-and-ready", StatusInput{Input: Input{Pod: probed, Probes: map[string]Probe{"web0": {Readiness: container.ProbeSuccess, Startup: container.ProbeSuccess}}}},
			[]string{"sandbox s0 running", "s0 web running"},
			"Running 10.1.0.2\nweb running - restarts 0 ready true started true\n" + upTo + "True\nInitialized True\nContainersReady True\nReady True\n"},
		{"gate", StatusInput{Input: Input{Pod: gated}, Last: v1.PodStatus{Conditions: []v1.PodCondition{{Type: "lb", Status: "False"}}}},
			[]string{"sandbox s0 running", "s0 web running"},
			"Running 10.1.0.2\nweb running - restarts 0 ready true started true\n" + upTo + "True\nInitialized True\nContainersReady True\n" +
				"Ready False ReadinessGatesNotReady readiness gates that are not true: lb\nlb False\n"},
		{"failed", StatusInput{Input: Input{Pod: never}, Last: ran}, []string{"sandbox s0 exited", "s0 web exited 1"},
			"Failed 10.1.0.9\nweb exit1 - restarts 0 ready false started false\n" + upTo + "False\nInitialized True\n" +
				"ContainersReady False PodFailed\nReady False PodFailed\n"},
		{"record-lost", StatusInput{Input: Input{Pod: plain}, Last: ran}, []string{"sandbox s0 exited"},
			"Running 10.1.0.9\nweb ContainerCreating exit137 restarts 8 ready false started false\n" + upTo + "False\nInitialized True\n" +
				"ContainersReady False ContainersNotReady containers with unready status: [web]\nReady False ContainersNotReady containers with unready status: [web]\n"},
		{"record-lost-at-the-end", StatusInput{Input: Input{Pod: plain}, Last: ran, Ended: true}, nil,
			"Failed 10.1.0.9\nweb exit137 - restarts 8 ready false started false\n" + upTo + "False\nInitialized True\n" +
				"ContainersReady False PodFailed\nReady False PodFailed\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.in.Status = status(tt.in.Pod, tt.status...)
			if diff := cmp.Diff(tt.want, summary(APIStatus(tt.in))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestConditionsKeepTheirTransitionTime(t *testing.T) {
	p := pod(v1.RestartPolicyAlways, "web")
	early, late := time.Unix(100, 0), time.Unix(200, 0)
	first := APIStatus(StatusInput{Input: Input{Pod: p, Status: status(p)}, Now: early})
	second := APIStatus(StatusInput{Input: Input{Pod: p, Status: status(p, "sandbox s0 running", "s0 web running")}, Last: first, Now: late})
	for kind, want := range map[v1.PodConditionType]time.Time{v1.PodScheduled: early, v1.PodInitialized: early, v1.PodReady: late} {
		if got := findCondition(second.Conditions, kind).LastTransitionTime.Time; !got.Equal(want) {
			t.Errorf("%s: %v, want %v", kind, got, want)
		}
	}
	if !second.StartTime.Time.Equal(early) {
		t.Errorf("start time %v", second.StartTime)
	}
	adopted := status(p, "sandbox s0 running", "s0 web running")
	adopted.CreatedAt = early
	if st := APIStatus(StatusInput{Input: Input{Pod: p, Status: adopted}, Now: late}); !st.StartTime.Time.Equal(early) {
		t.Errorf("start time of a pod that an earlier agent made: %v", st.StartTime)
	}
}

func TestHostNetworkPodHasTheNodesAddress(t *testing.T) {
	p := pod(v1.RestartPolicyAlways, "web")
	p.Spec.HostNetwork = true
	got := APIStatus(StatusInput{Input: Input{Pod: p, Status: status(p, "sandbox s0 running host")}, HostIPs: []netip.Addr{netip.MustParseAddr("192.0.2.1")}})
	if got.PodIP != "192.0.2.1" || got.HostIP != "192.0.2.1" {
		t.Errorf("pod %s, host %s", got.PodIP, got.HostIP)
	}
}

func field(name, path string) v1.EnvVar {
	return v1.EnvVar{Name: name, ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: path}}}
}

func resourceField(name, path, divisor string) v1.EnvVar {
	ref := &v1.ResourceFieldSelector{Resource: path}
	if divisor != "" {
		ref.Divisor = resource.MustParse(divisor)
	}
	return v1.EnvVar{Name: name, ValueFrom: &v1.EnvVarSource{ResourceFieldRef: ref}}
}

func TestEnv(t *testing.T) {
	p := pod(v1.RestartPolicyAlways, "web")
	p.Labels, p.Annotations = map[string]string{"app": "shop"}, map[string]string{"example.com/a": "b"}
	p.Spec.NodeName = "n1"
	c := &p.Spec.Containers[0]
	c.Resources.Limits = v1.ResourceList{v1.ResourceCPU: resource.MustParse("1500m"), v1.ResourceMemory: resource.MustParse("64Mi")}
	in := EnvInput{
		Pod: p, Container: c, IPs: []netip.Addr{netip.MustParseAddr("10.1.0.2"), netip.MustParseAddr("fd00::2")},
		HostIPs: []netip.Addr{netip.MustParseAddr("192.0.2.1")}, Allocatable: v1.ResourceList{v1.ResourceEphemeralStorage: resource.MustParse("1k")},
	}
	tests := []struct {
		name string
		env  []v1.EnvVar
		want string // or the error
	}{
		{"literal", []v1.EnvVar{{Name: "A", Value: "1"}}, "A=1"},
		{"expands-earlier", []v1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "$(A)-$(C)-$$(A)-$"}, {Name: "C", Value: "2"}}, "A=1 B=1-$(C)-$(A)-$ C=2"},
		{"second-stays", []v1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "x"}, {Name: "A", Value: "$(A)2"}}, "B=x A=12"},
		{"metadata", []v1.EnvVar{field("N", "metadata.name"), field("S", "metadata.namespace"), field("U", "metadata.uid")}, "N=p S=default U=u"},
		{"maps", []v1.EnvVar{field("L", "metadata.labels['app']"), field("A", "metadata.annotations['example.com/a']"), field("X", "metadata.labels['x']")},
			"L=shop A=b X="},
		{"addresses", []v1.EnvVar{field("P", "status.podIP"), field("PS", "status.podIPs"), field("H", "status.hostIP"), field("N", "spec.nodeName")},
			"P=10.1.0.2 PS=10.1.0.2,fd00::2 H=192.0.2.1 N=n1"},
		{"resources", []v1.EnvVar{resourceField("C", "limits.cpu", ""), resourceField("M", "limits.memory", "1Mi"), resourceField("MC", "limits.cpu", "1m"),
			resourceField("R", "requests.cpu", "1m"), resourceField("E", "limits.ephemeral-storage", "")}, "C=2 M=64 MC=1500 R=1500 E=1000"},
		{"no-such-field", []v1.EnvVar{field("X", "spec.hostname")}, "resolve env[0] X of container web: fieldRef spec.hostname: no such field"},
		{"secret", []v1.EnvVar{{Name: "X", ValueFrom: &v1.EnvVarSource{SecretKeyRef: &v1.SecretKeySelector{}}}},
			"resolve env[0] X of container web: valueFrom is neither a fieldRef nor a resourceFieldRef"},
		{"bad-resource", []v1.EnvVar{resourceField("X", "cpu", "")}, "resolve env[0] X of container web: resourceFieldRef cpu: neither limits nor requests"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c.Env = tt.env
			list, err := Env(in)
			var got []string
			for _, v := range list {
				got = append(got, v.Name+"="+v.Value)
			}
			if err != nil {
				got = []string{err.Error()}
			}
			if diff := cmp.Diff(tt.want, strings.Join(got, " ")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func FuzzExpand(f *testing.F) {
	for _, seed := range []string{"", "$", "$(A)", "$$(A)", "$(A", "$(B)$(A)", "a)$(A)", "$()", "$$$"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if got := Expand(text, nil); strings.ReplaceAll(text, "$$", "") == text && got != text {
			t.Errorf("%q became %q without a variable", text, got)
		}
		got := Expand(text, []container.EnvVar{{Name: "A", Value: ""}})
		if len(got) > len(text) {
			t.Errorf("%q grew to %q", text, got)
		}
	})
}

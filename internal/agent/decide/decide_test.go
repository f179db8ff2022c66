package decide

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cleat-cni/cleat/internal/agent/container"
)

// pod makes a pod of containers: "web", "init:setup", "sidecar:log".
func pod(policy v1.RestartPolicy, containers ...string) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default", UID: "u"}, Spec: v1.PodSpec{RestartPolicy: policy}}
	for _, c := range containers {
		kind, name, found := strings.Cut(c, ":")
		switch {
		case !found:
			p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: c})
		case kind == "init":
			p.Spec.InitContainers = append(p.Spec.InitContainers, v1.Container{Name: name})
		case kind == "sidecar":
			always := v1.ContainerRestartPolicyAlways
			p.Spec.InitContainers = append(p.Spec.InitContainers, v1.Container{Name: name, RestartPolicy: &always})
		}
	}
	return p
}

// status makes what the runtime knows, from lines, the newest first: "sandbox s1 running", "s1 web running", "s1 web exited 1".
// The ID of a container is its name and the number of older ones of the name.
func status(p *v1.Pod, lines ...string) *container.PodStatus {
	s := &container.PodStatus{UID: p.UID}
	for i, line := range lines {
		f := strings.Fields(line)
		if f[0] == "sandbox" {
			sandbox := container.SandboxStatus{ID: f[1], State: container.State(f[2]), Attempt: int(f[1][1] - '0')}
			switch f[len(f)-1] {
			case "host":
				sandbox.HostNetwork = true
			case "running":
				sandbox.IPs = []netip.Addr{netip.MustParseAddr("10.1.0.2")}
				s.IPs = sandbox.IPs
			}
			s.Sandboxes = append(s.Sandboxes, sandbox)
			continue
		}
		older := 0
		for _, l := range lines[i+1:] {
			if g := strings.Fields(l); g[0] != "sandbox" && g[1] == f[1] {
				older++
			}
		}
		c := container.Status{ID: fmt.Sprint(f[1], older), SandboxID: f[0], Name: f[1], State: container.State(f[2]), RestartCount: older}
		if spec, _ := Container(p, f[1]); spec != nil {
			c.Hash = container.HashContainer(spec)
		}
		switch f[len(f)-1] {
		case "old":
			c.Hash = "old"
		case "1":
			c.ExitCode = 1
		}
		s.Containers = append(s.Containers, c)
	}
	return s
}

// text is the actions as one line.
func text(a PodActions) string {
	var out []string
	if a.KillPod {
		out = append(out, "kill-pod")
	}
	for _, k := range a.Kill {
		out = append(out, fmt.Sprintf("kill %s %s", k.ID, k.Reason))
	}
	if a.CreateSandbox {
		out = append(out, fmt.Sprint("sandbox ", a.Attempt))
	}
	for _, s := range a.Start {
		out = append(out, fmt.Sprintf("start %s %d", s.Container.Name, s.RestartCount))
	}
	return strings.Join(out, ", ")
}

func TestComputePodActions(t *testing.T) {
	const always, onFailure, never = v1.RestartPolicyAlways, v1.RestartPolicyOnFailure, v1.RestartPolicyNever
	fails := map[string]Probe{"web0": {Liveness: container.ProbeFailure}}
	tests := []struct {
		name   string
		pod    *v1.Pod
		status []string
		probes map[string]Probe
		want   string
	}{
		{"new", pod(always, "web", "db"), nil, nil, "kill-pod, sandbox 0, start web 0, start db 0"},
		{"new-with-init", pod(always, "init:a", "init:b", "web"), nil, nil, "kill-pod, sandbox 0, start a 0"},
		{"sandbox-just-made", pod(always, "web"), []string{"sandbox s0 running"}, nil, "start web 0"},
		{"runs", pod(always, "web"), []string{"sandbox s0 running", "s0 web running"}, nil, ""},
		{"pause-died", pod(always, "web"), []string{"sandbox s0 exited", "s0 web running"}, nil, "kill-pod, sandbox 1, start web 1"},
		{"pause-died-with-init", pod(always, "init:a", "web"), []string{"sandbox s0 exited", "s0 web exited", "s0 a exited"}, nil,
			"kill-pod, sandbox 1, start a 1"},
		{"new-sandbox-begins-with-init", pod(always, "init:a", "web"), []string{"sandbox s1 running", "sandbox s0 exited", "s0 web exited", "s0 a exited"}, nil,
			"start a 1"},
		{"two-sandboxes-run", pod(always, "web"), []string{"sandbox s1 running", "sandbox s0 running"}, nil, "kill-pod, sandbox 2, start web 0"},
		{"lost-its-address", pod(always, "web"), []string{"sandbox s0 running none", "s0 web running"}, nil, "kill-pod, sandbox 1, start web 1"},
		{"network-mode-differs", pod(always, "web"), []string{"sandbox s0 running host", "s0 web running"}, nil, "kill-pod, sandbox 1, start web 1"},
		{"never-and-sandbox-lost", pod(never, "web"), []string{"sandbox s0 exited", "s0 web exited 1"}, nil, "kill-pod"},
		{"never-and-lost-before-any", pod(never, "web"), []string{"sandbox s0 exited"}, nil, "kill-pod, sandbox 1, start web 0"},
		{"never-and-lost-before-the-second", pod(never, "web", "db"), []string{"sandbox s0 exited", "s0 web exited 1"}, nil, "kill-pod, sandbox 1, start db 0"},
		{"never-and-lost-in-init", pod(never, "init:a", "web"), []string{"sandbox s0 exited", "s0 a exited 1"}, nil, "kill-pod"},
		{"on-failure-and-lost", pod(onFailure, "web", "job"), []string{"sandbox s0 exited", "s0 web exited 1", "s0 job exited 0"}, nil,
			"kill-pod, sandbox 1, start web 1"},
		{"on-failure-all-done-and-lost", pod(onFailure, "job"), []string{"sandbox s0 exited", "s0 job exited 0"}, nil, "kill-pod"},

		{"exited-always", pod(always, "web"), []string{"sandbox s0 running", "s0 web exited 0"}, nil, "start web 1"},
		{"exited-on-failure", pod(onFailure, "web"), []string{"sandbox s0 running", "s0 web exited 1"}, nil, "start web 1"},
		{"succeeded-on-failure", pod(onFailure, "web"), []string{"sandbox s0 running", "s0 web exited 0"}, nil, "kill-pod"},
		{"exited-never", pod(never, "web"), []string{"sandbox s0 running", "s0 web exited 1"}, nil, "kill-pod"},
		{"one-of-two-exited-never", pod(never, "web", "db"), []string{"sandbox s0 running", "s0 web exited 1", "s0 db running"}, nil, ""},
		{"unknown-is-killed-first", pod(always, "web"), []string{"sandbox s0 running", "s0 web unknown"}, nil, "kill web0 unknown, start web 1"},
		{"made-but-not-started", pod(always, "web"), []string{"sandbox s0 running", "s0 web created"}, nil, "kill web0 unknown, start web 1"},
		{"changed", pod(never, "web"), []string{"sandbox s0 running", "s0 web running old"}, nil, "kill web0 changed, start web 1"},
		{"liveness", pod(always, "web"), []string{"sandbox s0 running", "s0 web running"}, fails, "kill web0 liveness, start web 1"},
		{"liveness-never", pod(never, "web"), []string{"sandbox s0 running", "s0 web running"}, fails, "kill-pod"},
		{"startup", pod(always, "web"), []string{"sandbox s0 running", "s0 web running"}, map[string]Probe{"web0": {Startup: container.ProbeFailure}},
			"kill web0 startup, start web 1"},
		{"readiness-kills-nothing", pod(always, "web"), []string{"sandbox s0 running", "s0 web running"},
			map[string]Probe{"web0": {Readiness: container.ProbeFailure}}, ""},
		{"of-an-earlier-sandbox", pod(always, "web"), []string{"sandbox s1 running", "sandbox s0 exited", "s0 web running"}, nil,
			"kill web0 leftover, start web 1"},
		{"gone-from-the-spec", pod(always, "web"), []string{"sandbox s0 running", "s0 web running", "s0 db running"}, nil, "kill db0 leftover"},
		{"runs-twice", pod(always, "web"), []string{"sandbox s0 running", "s0 web running", "s0 web running"}, nil, "kill web0 leftover"},

		{"init-runs", pod(always, "init:a", "web"), []string{"sandbox s0 running", "s0 a running"}, nil, ""},
		{"init-next", pod(always, "init:a", "init:b", "web"), []string{"sandbox s0 running", "s0 a exited 0"}, nil, "start b 0"},
		{"init-done", pod(always, "init:a", "init:b", "web"), []string{"sandbox s0 running", "s0 b exited 0", "s0 a exited 0"}, nil, "start web 0"},
		{"init-done-records-gone", pod(always, "init:a", "web"), []string{"sandbox s0 running", "s0 web running"}, nil, ""},
		{"init-failed", pod(onFailure, "init:a", "web"), []string{"sandbox s0 running", "s0 a exited 1"}, nil, "start a 1"},
		{"init-failed-never", pod(never, "init:a", "web"), []string{"sandbox s0 running", "s0 a exited 1"}, nil, "kill-pod"},
		{"init-unknown", pod(always, "init:a", "web"), []string{"sandbox s0 running", "s0 a unknown"}, nil, "kill a0 unknown, start a 1"},
		{"sidecar-first", pod(always, "sidecar:log", "init:a", "web"), []string{"sandbox s0 running", "s0 log running"}, nil, "start a 0"},
		{"sidecar-last", pod(always, "init:a", "sidecar:log", "web"), []string{"sandbox s0 running", "s0 log running", "s0 a exited 0"}, nil, "start web 0"},
		{"sidecar-ended-before-init-is-done", pod(never, "sidecar:log", "init:a", "web"), []string{"sandbox s0 running", "s0 a running", "s0 log exited 1"}, nil,
			"start log 1"},
		{"sidecar-ended-beside-web", pod(never, "sidecar:log", "web"), []string{"sandbox s0 running", "s0 web running", "s0 log exited 0"}, nil, "start log 1"},
		{"sidecar-failed-at-its-turn", pod(never, "sidecar:log", "web"), []string{"sandbox s0 running", "s0 log exited 1"}, nil, "start log 1"},
		{"sidecar-liveness", pod(never, "sidecar:log", "web"), []string{"sandbox s0 running", "s0 web running", "s0 log running"},
			map[string]Probe{"log0": {Liveness: container.ProbeFailure}}, "kill log0 liveness, start log 1"},
		{"sidecar-does-not-keep-the-pod", pod(never, "sidecar:log", "web"), []string{"sandbox s0 running", "s0 web exited 0", "s0 log exited 1"}, nil, "kill-pod"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := ComputePodActions(Input{Pod: tt.pod, Status: status(tt.pod, tt.status...), Probes: tt.probes})
			if diff := cmp.Diff(tt.want, text(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if got.Empty() != (tt.want == "") {
				t.Errorf("empty: %v", got.Empty())
			}
		})
	}
}

func TestSidecarWithStartupProbeHoldsBackTheNext(t *testing.T) {
	p := pod(v1.RestartPolicyAlways, "sidecar:log", "web")
	p.Spec.InitContainers[0].StartupProbe = &v1.Probe{}
	for result, want := range map[container.ProbeResult]string{
		container.ProbeUnknown: "", container.ProbeSuccess: "start web 0", container.ProbeFailure: "kill log0 startup, start log 1",
	} {
		in := Input{Pod: p, Status: status(p, "sandbox s0 running", "s0 log running"), Probes: map[string]Probe{"log0": {Startup: result}}}
		if got := text(ComputePodActions(in)); got != want {
			t.Errorf("result %d: %q, want %q", result, got, want)
		}
	}
}

func TestDeletedPodStartsNothing(t *testing.T) {
	p := pod(v1.RestartPolicyAlways, "web")
	p.DeletionTimestamp = &metav1.Time{}
	if ShouldRestart(p, nil) {
		t.Error("a pod that is being deleted would start a container")
	}
}

func TestBackoff(t *testing.T) {
	var b Backoff
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	now := start
	var waits []time.Duration
	for range 8 { // a container that ends as soon as it is started
		finished := now
		until, ok := b.Allow("c", finished, now)
		if !ok {
			if early, ok := b.Allow("c", finished, until.Add(-time.Second)); ok || !early.Equal(until) {
				t.Fatalf("a second before %v: allowed %v, until %v", until, ok, early)
			}
			waits = append(waits, until.Sub(finished))
			now = until
			if _, ok := b.Allow("c", finished, now); !ok {
				t.Fatalf("not allowed at %v", now)
			}
		}
	}
	want := []time.Duration{10, 20, 40, 80, 160, 300, 300}
	for i := range want {
		want[i] *= time.Second
	}
	if diff := cmp.Diff(want, waits); diff != "" {
		t.Errorf("waits (-want +got):\n%s", diff)
	}
	now = now.Add(2*BackoffMax + time.Second)
	if _, ok := b.Allow("c", now, now); !ok {
		t.Error("one that ran for a long time has to wait")
	}
	if until, ok := b.Allow("c", now.Add(time.Second), now.Add(time.Second)); ok || until.Sub(now) != BackoffInitial+time.Second {
		t.Errorf("after a long run: until %v, allowed %v", until.Sub(now), ok)
	}
}

func TestBackoffBearsAClockThatWasSetBack(t *testing.T) {
	var b Backoff
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	b.Allow("c", now, now)
	future := now.Add(24 * time.Hour) // it ended before the clock was set back
	until, ok := b.Allow("c", future, now)
	if ok || until.Sub(now) != BackoffInitial {
		t.Errorf("wait %v, allowed %v", until.Sub(now), ok)
	}
	if _, ok := b.Allow("c", future, now.Add(BackoffInitial)); !ok {
		t.Error("still has to wait")
	}
}

func TestBackoffCollect(t *testing.T) {
	var b Backoff
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	b.Allow("old", now, now)
	b.Allow("new", now, now.Add(2*BackoffMax))
	b.Collect(now.Add(2*BackoffMax + time.Minute))
	if _, ok := b.entries["old"]; ok || len(b.entries) != 1 {
		t.Errorf("left: %v", b.entries)
	}
}

package agenttest

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"

	"github.com/cleat-cni/cleat/internal/agent/container"
)

func TestRuntimeKeepsTheContract(t *testing.T) {
	r := New()
	Contract(t, r)
	if v := r.Violations(); len(v) > 0 {
		t.Errorf("violations: %v", v)
	}
}

func TestViolationsAreSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		pod := contractPod("v", sh("web", "sleep 3600"))
		tests := []struct {
			name string
			do   func(r *Runtime, sandbox string)
			want string
		}{
			{"two-sandboxes", func(r *Runtime, _ string) { r.CreateSandbox(ctx, pod, 1) }, "two living sandboxes"},
			{"not-detached", func(r *Runtime, sandbox string) { r.KillSandbox(sandbox); r.CreateSandbox(ctx, pod, 1) }, "before sandbox-1 was detached"},
			{"removed-and-attached", func(r *Runtime, sandbox string) { r.RemoveSandbox(ctx, sandbox) }, "was not detached"},
			{"pod-removed-too-early", func(r *Runtime, _ string) { r.RemovePod(ctx, pod) }, "has a sandbox"},
			{"two-containers", func(r *Runtime, sandbox string) {
				start := container.Start{Pod: pod, SandboxID: sandbox, Container: &pod.Spec.Containers[0], Command: pod.Spec.Containers[0].Command}
				r.StartContainer(ctx, start)
				r.StartContainer(ctx, start)
			}, "two running containers"},
			{"running-container-removed", func(r *Runtime, sandbox string) {
				id, _ := r.StartContainer(ctx, container.Start{Pod: pod, SandboxID: sandbox, Container: &v1.Container{Name: "x"}})
				r.RemoveContainer(ctx, id)
			}, "while it runs"},
		}
		for _, tt := range tests {
			r := New()
			sandbox, err := r.CreateSandbox(ctx, pod, 0)
			if err != nil {
				t.Fatal(err)
			}
			tt.do(r, sandbox)
			if got := strings.Join(r.Violations(), ", "); !strings.Contains(got, tt.want) {
				t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
			}
		}
	})
}

func TestFaults(t *testing.T) {
	errBroken := errors.New("broken")
	ctx := t.Context()
	pod := contractPod("f", sh("web", "sleep 3600"))
	for late, left := range map[bool]int{false: 0, true: 1} {
		r := New()
		r.SetFaults(func(op string) Fault {
			if op == "CreateSandbox" {
				return Fault{Err: errBroken, Late: late}
			}
			return Fault{}
		})
		if _, err := r.CreateSandbox(ctx, pod, 0); !errors.Is(err, errBroken) {
			t.Errorf("late %v: %v", late, err)
		}
		if got := r.Attached(); len(got) != left {
			t.Errorf("late %v: attached %v, want %d", late, got, left)
		}
		status, err := r.PodStatus(ctx, pod.UID)
		if err != nil || len(status.Sandboxes) != left || left > 0 && status.Sandboxes[0].State != container.StateExited {
			t.Errorf("late %v: %+v, %v", late, status, err)
		}
	}
}

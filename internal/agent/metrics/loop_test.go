package metrics

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/cleat-cni/cleat/internal/agent/agenttest"
	"github.com/cleat-cni/cleat/internal/agent/config"
	"github.com/cleat-cni/cleat/internal/agent/status"
	"github.com/cleat-cni/cleat/internal/agent/syncloop"
)

// oneSource has reported.
type oneSource struct{ updates chan config.PodUpdate }

func (s oneSource) Updates() <-chan config.PodUpdate { return s.updates }
func (oneSource) AddSource(string)                   {}
func (oneSource) AllReady() bool                     { return true }

// TestLoopIsCounted has a pod come and go in the loop, after an attempt that failed.
func TestLoopIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, quiet, inner := New(), slog.New(slog.DiscardHandler), agenttest.New()
		broken := errors.New("broken")
		inner.SetFaults(func(op string) agenttest.Fault {
			if op != "CreateSandbox" {
				return agenttest.Fault{}
			}
			err := broken
			broken = nil
			return agenttest.Fault{Err: err}
		})
		sources := oneSource{make(chan config.PodUpdate, 2)}
		m.Node("n1")
		loop := syncloop.New(syncloop.Config{Sources: sources, Runtime: m.Runtime(inner), Recorder: status.NewRecorder(quiet), Meter: m, Log: quiet})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); loop.Run(ctx) }()
		pod := testPod()
		pod.Spec.Containers[0].ReadinessProbe = &v1.Probe{ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"/bin/echo", "hello"}}},
			TimeoutSeconds: 1, PeriodSeconds: 10, SuccessThreshold: 1, FailureThreshold: 1}
		sources.updates <- config.PodUpdate{Op: config.ADD, Source: "file", Pods: []*v1.Pod{pod}}
		time.Sleep(time.Minute)
		sources.updates <- config.PodUpdate{Op: config.REMOVE, Source: "file", Pods: []*v1.Pod{pod}}
		time.Sleep(time.Minute)
		cancel()
		<-done
		text := scrape(m)
		for _, line := range []string{
			"kubelet_started_pods_total 2\n", `kubelet_started_pods_errors_total{code="CreatePodSandboxError"} 1` + "\n",
			`kubelet_run_podsandbox_duration_seconds_count{runtime_handler="native"} 2` + "\n", `kubelet_started_containers_total{container_type="container"} 2` + "\n",
			`kubelet_pod_worker_duration_seconds_count{operation_type="terminated"} 1` + "\n", `prober_probe_total{probe_type="Readiness",result="successful"}`,
			`kubelet_node_name{node="n1"} 1` + "\n", "kubelet_pleg_relist_interval_seconds_count 1", "kubelet_pleg_discard_events 0\n",
		} {
			if !strings.Contains(text, line) {
				t.Errorf("no %s in\n%s", line, text)
			}
		}
	})
}

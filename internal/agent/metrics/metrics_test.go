package metrics

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/agent/agenttest"
	"github.com/cleat-cni/cleat/internal/agent/config"
	"github.com/cleat-cni/cleat/internal/agent/container"
	"github.com/cleat-cni/cleat/libcni"
	"github.com/cleat-cni/cleat/planned"
)

func testPod() *v1.Pod {
	seen := time.Now().Add(-time.Minute).Format(time.RFC3339Nano)
	c := func(name string) v1.Container {
		return v1.Container{Name: name, Command: []string{"/bin/sleep", "864000"}}
	}
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: "u", Name: "web", Namespace: "default", Annotations: map[string]string{config.FirstSeenAnnotation: seen}},
		Spec:       v1.PodSpec{Containers: []v1.Container{c("a"), c("b")}, RestartPolicy: v1.RestartPolicyAlways},
	}
}

func TestRuntimeIsTimed(t *testing.T) {
	m, ctx, pod := New(), t.Context(), testPod()
	inner := agenttest.New()
	r := m.Runtime(inner)
	id, err := r.CreateSandbox(ctx, pod, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		start := container.Start{Pod: pod, SandboxID: id, Container: c, Command: c.Command}
		if _, err := r.StartContainer(ctx, start); err != nil {
			t.Fatal(err)
		}
	}
	_, _, changed := m.Timings(0)
	again := m.Runtime(inner) // as after a new start: the sandbox is of an earlier agent
	if err := again.StopSandbox(ctx, id); err != nil {
		t.Fatal(err)
	}
	select {
	case <-changed:
	default:
		t.Error("nobody is told of a new timing")
	}
	inner.SetFaults(func(string) agenttest.Fault { return agenttest.Fault{Err: errors.New("broken")} })
	if err := again.RemoveSandbox(ctx, id); err == nil {
		t.Error("the runtime's error is lost")
	}
	list, next, _ := m.Timings(0)
	want := []Timing{
		{Operation: "run_podsandbox", Pod: "default/web"}, {Operation: "start_container", Pod: "default/web"},
		{Operation: "start_container", Pod: "default/web"}, {Operation: OperationStart, Pod: "default/web"},
		{Operation: "stop_podsandbox", Pod: "default/web"}, {Operation: "remove_podsandbox", Pod: "default/web", Failed: true},
	}
	if diff := cmp.Diff(want, list, cmpopts.IgnoreFields(Timing{}, "Began", "Seconds")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if list[3].Seconds < 60 {
		t.Errorf("the start took %v s: it begins when the pod was seen", list[3].Seconds)
	}
	if list, _, _ := m.Timings(next); len(list) != 0 {
		t.Errorf("told twice: %v", list)
	}
	text := scrape(m)
	for _, line := range []string{
		`kubelet_runtime_operations_total{operation_type="start_container"} 2`, `kubelet_runtime_operations_errors_total{operation_type="remove_podsandbox"} 1`,
		`kubelet_pod_start_duration_seconds_count 1`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no %s in\n%s", line, text)
		}
	}
}

func scrape(m *Metrics) string {
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	return w.Body.String()
}

func TestTimingsAreBounded(t *testing.T) {
	m := New()
	for i := range maxTimings + 10 {
		m.timings.add(Timing{Seconds: float64(i)})
	}
	list, next, _ := m.Timings(0)
	if len(list) != maxTimings || next != maxTimings+10 || list[0].Seconds != 10 || list[maxTimings-1].Seconds != maxTimings+9 {
		t.Errorf("%d timings from %v to %v, next %d", len(list), list[0].Seconds, list[len(list)-1].Seconds, next)
	}
}

// fakeRunner applies all calls at once and fails with the second, if it is told to.
type fakeRunner struct {
	libcni.Runner
	err error
}

func (f fakeRunner) Run(ctx context.Context, calls []libcni.Call) ([][]byte, error) {
	types := make([]string, len(calls))
	for i, c := range calls {
		types[i] = c.Type
	}
	apply := planned.Action{Verb: calls[0].Verb, Plugin: strings.Join(types, "+"), Step: planned.StepApply}
	return make([][]byte, len(calls)), apply.Do(ctx, func(context.Context) error { return f.err })
}

func TestRunnerIsTimed(t *testing.T) {
	m := New()
	args := cni.Args{{"K8S_POD_NAMESPACE", "default"}, {"K8S_POD_NAME", "web"}}
	calls := []libcni.Call{{Verb: cni.VerbAdd, Type: "bridge", Args: args}, {Verb: cni.VerbAdd, Type: "portmap", Args: args}}
	if _, err := m.Runner(fakeRunner{}).Run(t.Context(), calls); err != nil {
		t.Fatal(err)
	}
	failed := cni.Errorf(cni.CodeTryAgain, "no more")
	failed.Plugin = "portmap"
	if _, err := m.Runner(fakeRunner{err: failed}).Run(t.Context(), calls); err == nil {
		t.Error("the error is lost")
	}
	if _, err := m.Runner(fakeRunner{}).Run(t.Context(), []libcni.Call{{Verb: cni.VerbStatus, Type: "bridge"}}); err != nil {
		t.Fatal(err)
	}
	del := []libcni.Call{{Verb: cni.VerbDel, Type: "portmap"}, {Verb: cni.VerbDel, Type: "bridge"}}
	if _, err := m.Runner(fakeRunner{}).Run(t.Context(), del); err != nil {
		t.Fatal(err)
	}
	list, _, _ := m.Timings(0)
	want := []Timing{{Operation: "cni_add", Plugin: "bridge+portmap", Pod: "default/web"}, {Operation: "cni_add", Plugin: "bridge+portmap", Pod: "default/web", Failed: true}}
	if diff := cmp.Diff(want, list, cmpopts.IgnoreFields(Timing{}, "Began", "Seconds")); diff != "" {
		t.Errorf("a STATUS is no pod's (-want +got):\n%s", diff)
	}
	for _, line := range []string{`cleat_cni_errors_total{plugin="portmap",verb="ADD"} 1`, `cleat_cni_duration_seconds_count{plugin="bridge",verb="STATUS"} 1`,
		`cleat_cni_duration_seconds_count{plugin="bridge+portmap",verb="DEL"} 1`, `cleat_cni_step_duration_seconds_count{plugin="bridge+portmap",step="apply",verb="ADD"} 2`} {
		if text := scrape(m); !strings.Contains(text, line+"\n") {
			t.Errorf("no %s in\n%s", line, text)
		}
	}
}

package daemon

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cleat-cni/cleat/internal/agent/metrics"
)

func TestPercentiles(t *testing.T) {
	var hundred []float64
	for i := range 100 {
		hundred = append(hundred, float64(100-i)/1000)
	}
	for _, tt := range []struct {
		name string
		in   []float64
		want pXX
	}{
		{"none", nil, pXX{}},
		{"one", []float64{0.5}, pXX{500, 500, 500}},
		{"two", []float64{2, 1}, pXX{1000, 2000, 2000}},
		{"hundred", hundred, pXX{50, 95, 99}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, percentiles(tt.in)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestSplit(t *testing.T) {
	l := newTimingLog("cleat-bench/b-")
	for _, one := range []metrics.Timing{
		{Operation: "run_podsandbox", Pod: "cleat-bench/b-1", Seconds: 9, Failed: true},
		{Operation: "cni_add", Plugin: "loopback", Pod: "cleat-bench/b-1", Seconds: 0.25},
		{Operation: "cni_add", Plugin: "bridge+portmap", Pod: "cleat-bench/b-1", Seconds: 0.5},
		{Operation: "run_podsandbox", Pod: "cleat-bench/b-1", Seconds: 1},
		{Operation: "start_container", Pod: "cleat-bench/b-1", Seconds: 0.125},
		{Operation: "pod_start", Pod: "cleat-bench/b-1", Seconds: 2},
		{Operation: "pod_start", Pod: "default/other", Seconds: 7},
		{Operation: "pod_start", Pod: "cleat-bench/a-1", Seconds: 7}, // of an earlier run
	} {
		l.add(one)
	}
	same := func(ms float64) pXX { return pXX{ms, ms, ms} }
	want := map[string]pXX{"total": same(2000), "sandbox": same(250), "cni": same(750), "container": same(125)}
	if diff := cmp.Diff(want, l.split()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if n, _ := l.count("pod_start"); n != 1 {
		t.Errorf("%d pods", n)
	}
}

// TestBenchThatFails has pods that never run: it says why, and leaves no manifest.
func TestBenchThatFails(t *testing.T) {
	s := newStage(t)
	s.events.Event(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: benchNamespace, Name: "bench-0001-n1"}}, v1.EventTypeWarning, "FailedCreatePodSandBox", "no addresses")
	s.expect(1, "", "cleat: bench: 0 of 2 pods run after 50ms; bench-0001-n1: FailedCreatePodSandBox: no addresses\n", "pods", "bench", "-n", "2", "--timeout", "50ms")
	dir := t.TempDir()
	s.expect(1, "", "cleat: bench: 0 of 2 pods run after 50ms; bench-0001-n1: FailedCreatePodSandBox: no addresses\n",
		"pods", "bench", "-n", "2", "--timeout", "50ms", "--manifests", dir)
	for _, dir := range []string{dir, filepath.Join(s.root, "manifests")} {
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("left in %s: %v, %v", dir, left, err)
		}
	}
	s.expect(2, "", "cleat: -n 0 is no number of pods\n", "pods", "bench", "-n", "0")
}

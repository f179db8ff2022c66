// Package metrics is what the agent tells of itself in numbers, under the kubelet's names where it has the like
// (k8s.io/kubernetes/pkg/kubelet/metrics), and under cleat_ where it has none.
package metrics

import (
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cleat-cni/cleat/internal/agent/container"
	"github.com/cleat-cni/cleat/internal/agent/syncloop"
)

// Metrics are the numbers. Make them with New.
type Metrics struct {
	registry   *prometheus.Registry
	operations *prometheus.CounterVec
	errors     *prometheus.CounterVec
	duration   *prometheus.HistogramVec
	cni        *prometheus.HistogramVec
	cniErrors  *prometheus.CounterVec
}

// buckets of durations, in seconds: from what a link takes to what a hook may.
func buckets() []float64 { return prometheus.ExponentialBuckets(0.001, 2, 18) }

// New returns metrics with nothing in them yet.
func New() *Metrics {
	operation, call := []string{"operation_type"}, []string{"verb", "plugin"}
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		operations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kubelet_runtime_operations_total", Help: "Operations of the runtime, by their kind."}, operation),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kubelet_runtime_operations_errors_total", Help: "Operations of the runtime that failed, by their kind."}, operation),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "kubelet_runtime_operations_duration_seconds", Help: "How long operations of the runtime took, by their kind.", Buckets: buckets()}, operation),
		cni: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "cleat_cni_duration_seconds", Help: "How long plugins took, by verb and type; those that run as one are named together.", Buckets: buckets()}, call),
		cniErrors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "cleat_cni_errors_total", Help: "Calls of plugins that failed, by verb and the type that did."}, call),
	}
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		m.operations, m.errors, m.duration, m.cni, m.cniErrors)
	return m
}

// Handler serves them.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// Watch adds what is counted whenever somebody asks, while ctx lasts: desired are the pods of the sources, running those of the runtime.
func (m *Metrics) Watch(ctx context.Context, desired func() []*v1.Pod, running func(context.Context) ([]container.Pod, error)) {
	gauge := func(name, help string, f func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, f)
	}
	count := func(of func(container.Pod) int) func() float64 {
		return func() float64 {
			pods, err := running(ctx)
			if err != nil {
				return 0
			}
			n := 0
			for _, p := range pods {
				n += of(p)
			}
			return float64(n)
		}
	}
	m.registry.MustRegister(
		gauge("kubelet_desired_pods", "Pods that the sources have.", func() float64 { return float64(len(desired())) }),
		gauge("kubelet_running_pods", "Pods with a sandbox that runs.", count(func(p container.Pod) int { return min(1, countRunning(p.Sandboxes)) })),
		gauge("kubelet_running_containers", "Containers that run.", count(func(p container.Pod) int { return countRunning(p.Containers) })),
	)
}

func countRunning(list []container.Item) int {
	n := 0
	for _, i := range list {
		if i.State == container.StateRunning {
			n++
		}
	}
	return n
}

// observe counts an operation that began at a time.
func (m *Metrics) observe(operation string, began time.Time, err error) {
	m.operations.WithLabelValues(operation).Inc()
	m.duration.WithLabelValues(operation).Observe(time.Since(began).Seconds())
	if err != nil {
		m.errors.WithLabelValues(operation).Inc()
	}
}

// Runtime returns a runtime whose operations are counted.
func (m *Metrics) Runtime(r syncloop.Runtime) syncloop.Runtime { return &meteredRuntime{r, m} }

type meteredRuntime struct {
	syncloop.Runtime

	m *Metrics
}

func (r *meteredRuntime) Pods(ctx context.Context) ([]container.Pod, error) {
	began := time.Now()
	list, err := r.Runtime.Pods(ctx)
	r.m.observe("list_podsandbox", began, err)
	return list, err
}

func (r *meteredRuntime) PodStatus(ctx context.Context, uid types.UID) (*container.PodStatus, error) {
	began := time.Now()
	st, err := r.Runtime.PodStatus(ctx, uid)
	r.m.observe("podsandbox_status", began, err)
	return st, err
}

func (r *meteredRuntime) CreateSandbox(ctx context.Context, pod *v1.Pod, attempt int) (string, error) {
	began := time.Now()
	id, err := r.Runtime.CreateSandbox(ctx, pod, attempt)
	r.m.observe("run_podsandbox", began, err)
	return id, err
}

func (r *meteredRuntime) StopSandbox(ctx context.Context, id string) error {
	began := time.Now()
	err := r.Runtime.StopSandbox(ctx, id)
	r.m.observe("stop_podsandbox", began, err)
	return err
}

func (r *meteredRuntime) RemoveSandbox(ctx context.Context, id string) error {
	began := time.Now()
	err := r.Runtime.RemoveSandbox(ctx, id)
	r.m.observe("remove_podsandbox", began, err)
	return err
}

func (r *meteredRuntime) StartContainer(ctx context.Context, start container.Start) (string, error) {
	began := time.Now()
	id, err := r.Runtime.StartContainer(ctx, start)
	r.m.observe("start_container", began, err)
	return id, err
}

func (r *meteredRuntime) StopContainer(ctx context.Context, id string, grace time.Duration) error {
	began := time.Now()
	err := r.Runtime.StopContainer(ctx, id, grace)
	r.m.observe("stop_container", began, err)
	return err
}

func (r *meteredRuntime) Exec(ctx context.Context, id string, command []string) ([]byte, int, error) {
	began := time.Now()
	out, code, err := r.Runtime.Exec(ctx, id, command)
	r.m.observe("exec_sync", began, err)
	return out, code, err
}

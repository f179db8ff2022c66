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

	"github.com/cleat-cni/cleat/internal/agent/container"
)

// Metrics are the numbers. Make them with New.
type Metrics struct {
	registry   *prometheus.Registry
	operations *prometheus.CounterVec
	errors     *prometheus.CounterVec
	duration   *prometheus.HistogramVec
	starts     prometheus.Histogram
	cni        *prometheus.HistogramVec
	cniErrors  *prometheus.CounterVec
	steps      *prometheus.HistogramVec
	loop       loopMetrics
	runs       runMetrics
	timings    timings
}

// buckets of durations, in seconds: from what a link takes to what a hook may.
func buckets() []float64 { return prometheus.ExponentialBuckets(0.001, 2, 18) }

// stepBuckets are those of steps of plugins, the shortest of which only compute.
func stepBuckets() []float64 { return prometheus.ExponentialBuckets(0.00001, 4, 12) }

// New returns metrics with nothing in them yet.
func New() *Metrics {
	kind, call := []string{"operation_type"}, []string{"verb", "plugin"}
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		operations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kubelet_runtime_operations_total", Help: "Operations of the runtime, by their kind."}, kind),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kubelet_runtime_operations_errors_total", Help: "Operations of the runtime that failed, by their kind."}, kind),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "kubelet_runtime_operations_duration_seconds", Help: "How long operations of the runtime took, by their kind.", Buckets: buckets()}, kind),
		starts: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "kubelet_pod_start_duration_seconds", Help: "From when a pod was seen to when its last container was started.", Buckets: buckets()}),
		cni: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "cleat_cni_duration_seconds", Help: "How long plugins took, by verb and type; those that run as one are named together.", Buckets: buckets()}, call),
		cniErrors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "cleat_cni_errors_total", Help: "Calls of plugins that failed, by verb and the type that did."}, call),
		steps: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "cleat_cni_step_duration_seconds", Help: "How long steps of plugins took, by verb, type and step; types that a step is done for at once are named together.",
			Buckets: stepBuckets()}, append(call, "step")),
	}
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		m.operations, m.errors, m.duration, m.starts, m.cni, m.cniErrors, m.steps)
	m.loop, m.runs = newLoopMetrics(m.registry), newRunMetrics(m.registry)
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

// operation is something that was done, and to which pod, namespace/name, if that is known.
type operation struct{ kind, pod string }

// observe counts and keeps an operation that began at a time.
func (m *Metrics) observe(o operation, began time.Time, err error) {
	m.timings.add(Timing{Operation: o.kind, Pod: o.pod, Began: began, Seconds: time.Since(began).Seconds(), Failed: err != nil})
	if o.kind == OperationStart {
		m.starts.Observe(time.Since(began).Seconds())
		return
	}
	m.count(o.kind, began, err)
}

// count counts an operation of the runtime that began at a time.
func (m *Metrics) count(kind string, began time.Time, err error) {
	m.operations.WithLabelValues(kind).Inc()
	m.duration.WithLabelValues(kind).Observe(time.Since(began).Seconds())
	if err != nil {
		m.errors.WithLabelValues(kind).Inc()
	}
}

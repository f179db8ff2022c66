package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cleat-cni/cleat/internal/agent/container"
)

// handler is what the kubelet calls the way in which sandboxes are made.
const handler = "native"

// runMetrics are the numbers of what is started.
type runMetrics struct {
	pods            prometheus.Counter
	podErrors       *prometheus.CounterVec
	containers      *prometheus.CounterVec
	containerErrors *prometheus.CounterVec
	sandboxes       *prometheus.HistogramVec
	sandboxErrors   *prometheus.CounterVec
}

func newRunMetrics(registry *prometheus.Registry) runMetrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	r := runMetrics{
		pods:            prometheus.NewCounter(prometheus.CounterOpts{Name: "kubelet_started_pods_total", Help: "Sandboxes that were to be started."}),
		podErrors:       counter("kubelet_started_pods_errors_total", "Sandboxes that could not be started.", "code"),
		containers:      counter("kubelet_started_containers_total", "Containers that were to be started, by their kind.", "container_type"),
		containerErrors: counter("kubelet_started_containers_errors_total", "Containers that could not be started, by their kind and the reason.", "container_type", "code"),
		sandboxes: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "kubelet_run_podsandbox_duration_seconds", Help: "How long it took to make a sandbox, with its networks.", Buckets: buckets()}, []string{"runtime_handler"}),
		sandboxErrors: counter("kubelet_run_podsandbox_errors_total", "Sandboxes that could not be made.", "runtime_handler"),
	}
	registry.MustRegister(r.pods, r.podErrors, r.containers, r.containerErrors, r.sandboxes, r.sandboxErrors)
	return r
}

func (r runMetrics) sandbox(began time.Time, err error) {
	r.pods.Inc()
	r.sandboxes.WithLabelValues(handler).Observe(time.Since(began).Seconds())
	if err != nil {
		r.podErrors.WithLabelValues("CreatePodSandboxError").Inc()
		r.sandboxErrors.WithLabelValues(handler).Inc()
	}
}

func (r runMetrics) container(start container.Start, err error) {
	kind := "container"
	if start.Init {
		kind = "init_container"
	}
	r.containers.WithLabelValues(kind).Inc()
	if err != nil {
		r.containerErrors.WithLabelValues(kind, container.Reason(err)).Inc()
	}
}

// Node tells the node's name.
func (m *Metrics) Node(name string) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "kubelet_node_name", Help: "The node's name; the number is 1.",
		ConstLabels: prometheus.Labels{"node": name}}, func() float64 { return 1 }))
}

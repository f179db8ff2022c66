package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cleat-cni/cleat/internal/agent/syncloop"
)

// loopMetrics are the numbers of the agent's loop.
type loopMetrics struct {
	relist, interval prometheus.Histogram
	lastSeen         prometheus.Gauge
	discarded        prometheus.Counter
	worker           *prometheus.HistogramVec
	probes           *prometheus.CounterVec
}

func newLoopMetrics(registry *prometheus.Registry) loopMetrics {
	histogram := func(name, help string) prometheus.HistogramOpts {
		return prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets()}
	}
	l := loopMetrics{
		relist:   prometheus.NewHistogram(histogram("kubelet_pleg_relist_duration_seconds", "How long it took to list what runs.")),
		interval: prometheus.NewHistogram(histogram("kubelet_pleg_relist_interval_seconds", "From one list of what runs to the next.")),
		lastSeen: prometheus.NewGauge(prometheus.GaugeOpts{Name: "kubelet_pleg_last_seen_seconds", Help: "When what runs was listed last, in seconds since 1970."}),
		discarded: prometheus.NewCounter(prometheus.CounterOpts{Name: "kubelet_pleg_discard_events",
			Help: "Events that nobody took; the pods are looked at all the same, later."}),
		worker: prometheus.NewHistogramVec(histogram("kubelet_pod_worker_duration_seconds", "How long the worker of a pod took for one step, by what it did."), []string{"operation_type"}),
		probes: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "prober_probe_total", Help: "Probes, by their kind and result."}, []string{"probe_type", "result"}),
	}
	registry.MustRegister(l.relist, l.interval, l.lastSeen, l.discarded, l.worker, l.probes)
	return l
}

var _ syncloop.Meter = (*Metrics)(nil)

// Relisted counts a list of what runs. since is the time since the one before, 0 for the first.
func (m *Metrics) Relisted(took, since time.Duration) {
	m.loop.relist.Observe(took.Seconds())
	if since > 0 {
		m.loop.interval.Observe(since.Seconds())
	}
	m.loop.lastSeen.SetToCurrentTime()
}

// Discarded counts an event that nobody took.
func (m *Metrics) Discarded() { m.loop.discarded.Inc() }

// Worked counts a step of a pod's worker: sync, terminating or terminated.
func (m *Metrics) Worked(what string, took time.Duration) {
	m.loop.worker.WithLabelValues(what).Observe(took.Seconds())
}

// Probed counts a probe: of which kind, Liveness, Readiness or Startup, and whether it was successful, failed or unknown.
func (m *Metrics) Probed(kind, result string) { m.loop.probes.WithLabelValues(kind, result).Inc() }

package daemon

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cleat-cni/cleat/internal/agent/metrics"
	"github.com/cleat-cni/cleat/internal/output"
)

// benchResult is what a bench measured.
type benchResult struct {
	Pods    int            `json:"pods"`
	Command string         `json:"command"`
	Up      benchRate      `json:"up"`
	Start   map[string]pXX `json:"start"` // total, sandbox, cni and container
	Down    benchRate      `json:"down"`
	Agent   agentUse       `json:"agent"`
}

type benchRate struct {
	Seconds float64 `json:"seconds"`
	PerS    float64 `json:"per_s"`
}

func rate(n int, took time.Duration) benchRate {
	return benchRate{took.Seconds(), float64(n) / took.Seconds()}
}

// pXX are percentiles, in milliseconds.
type pXX struct {
	P50 float64 `json:"p50_ms"`
	P95 float64 `json:"p95_ms"`
	P99 float64 `json:"p99_ms"`
}

// agentUse is what the agent itself used, without the processes of the pods.
type agentUse struct {
	Memory           float64 `json:"memory_bytes"` // resident, with all pods up
	Descriptors      float64 `json:"descriptors"`
	DescriptorsAfter float64 `json:"descriptors_after"` // when all were gone again
	Goroutines       float64 `json:"goroutines"`
	CPU              float64 `json:"cpu_s"` // over the whole run
}

// timingLog is what the agent told of the pods of a bench.
type timingLog struct {
	prefix string // of its pods: namespace/name

	mu      sync.Mutex
	pods    map[string]map[string]float64 // seconds by operation and pod
	changed chan struct{}
}

func newTimingLog(prefix string) *timingLog {
	return &timingLog{prefix: prefix, pods: map[string]map[string]float64{}, changed: make(chan struct{})}
}

// add takes an operation; several of a kind, as ADD of several networks, are one together. What failed is done again.
func (l *timingLog) add(t metrics.Timing) {
	if t.Failed || !strings.HasPrefix(t.Pod, l.prefix) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pods[t.Operation] == nil {
		l.pods[t.Operation] = map[string]float64{}
	}
	l.pods[t.Operation][t.Pod] += t.Seconds
	close(l.changed)
	l.changed = make(chan struct{})
}

// count returns with how many pods an operation was done, and a channel that is closed when another one was.
func (l *timingLog) count(operation string) (int, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.pods[operation]), l.changed
}

// split says how long starts took, and what took how long of that.
func (l *timingLog) split() map[string]pXX {
	l.mu.Lock()
	defer l.mu.Unlock()
	cni := l.pods[metrics.OperationCNI+"add"]
	var sandbox []float64
	for pod, seconds := range l.pods["run_podsandbox"] {
		sandbox = append(sandbox, seconds-cni[pod])
	}
	return map[string]pXX{
		"total": percentiles(values(l.pods[metrics.OperationStart])), "sandbox": percentiles(sandbox),
		"cni": percentiles(values(cni)), "container": percentiles(values(l.pods["start_container"])),
	}
}

func values(m map[string]float64) []float64 {
	list := make([]float64, 0, len(m))
	for _, v := range m {
		list = append(list, v)
	}
	return list
}

// percentiles takes seconds, of which it changes the order. A percentile is the smallest value that so many are not above.
func percentiles(seconds []float64) pXX {
	if len(seconds) == 0 {
		return pXX{}
	}
	slices.Sort(seconds)
	at := func(percent int) float64 { return 1000 * seconds[(len(seconds)*percent+99)/100-1] }
	return pXX{at(50), at(95), at(99)}
}

func (a *app) printBench(r *benchResult) error {
	if a.output.Structured() {
		return a.print(r, nil)
	}
	w := &fieldWriter{}
	w.field(0, "Pods", fmt.Sprintf("%d, each running %s", r.Pods, r.Command))
	w.field(0, "Up", fmt.Sprintf("%.1f s, %.1f pods/s", r.Up.Seconds, r.Up.PerS))
	w.field(0, "Down", fmt.Sprintf("%.1f s, %.1f pods/s", r.Down.Seconds, r.Down.PerS))
	w.field(0, "Agent", fmt.Sprintf("%.0f MB, %.0f descriptors (%.0f after), %.0f goroutines, %.1f s of CPU",
		r.Agent.Memory/1e6, r.Agent.Descriptors, r.Agent.DescriptorsAfter, r.Agent.Goroutines, r.Agent.CPU))
	w.b.WriteString("\n")
	t := output.Table{Head: []string{"START", "P50", "P95", "P99"}}
	for _, part := range []string{"total", "sandbox", "cni", "container"} {
		p := r.Start[part]
		t.Add([]string{part, ms(p.P50), ms(p.P95), ms(p.P99)})
	}
	if _, err := fmt.Fprint(a.cfg.Stdout, w.b.String()); err != nil {
		return err
	}
	return t.Write(a.cfg.Stdout, false)
}

func ms(v float64) string { return fmt.Sprintf("%.1f ms", v) }

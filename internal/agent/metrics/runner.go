package metrics

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/libcni"
	"github.com/cleat-cni/cleat/planned"
)

// Runner returns a runner of plugins whose calls are counted.
func (m *Metrics) Runner(r libcni.Runner) libcni.Runner { return &meteredRunner{r, m} }

type meteredRunner struct {
	libcni.Runner

	m *Metrics
}

// Run runs calls as the runner does. Plugins that it runs as one are named together, as in bridge+portmap.
func (r *meteredRunner) Run(ctx context.Context, calls []libcni.Call) ([][]byte, error) {
	began := time.Now()
	outs, err := r.Runner.Run(planned.WithObserver(ctx, stepTimer{r.m}), calls)
	n := len(outs)
	if err != nil {
		n = len(calls)
		plugin := calls[0].Type
		if e := cni.AsError(err); e.Plugin != "" {
			plugin = e.Plugin
		}
		r.m.cniErrors.WithLabelValues(string(calls[0].Verb), plugin).Inc()
	}
	types := make([]string, 0, n)
	for _, c := range calls[:n] {
		types = append(types, c.Type)
	}
	if calls[0].Verb == cni.VerbDel {
		slices.Reverse(types) // in the order of the list, as everywhere
	}
	took, verb, plugins := time.Since(began).Seconds(), string(calls[0].Verb), strings.Join(types, "+")
	r.m.cni.WithLabelValues(verb, plugins).Observe(took)
	namespace, _ := calls[0].Args.Get("K8S_POD_NAMESPACE")
	if name, ok := calls[0].Args.Get("K8S_POD_NAME"); ok {
		r.m.timings.add(Timing{Operation: OperationCNI + strings.ToLower(verb), Plugin: plugins, Pod: namespace + "/" + name,
			Began: began, Seconds: took, Failed: err != nil})
	}
	return outs, err
}

// stepTimer is an observer that times steps.
type stepTimer struct{ m *Metrics }

var _ planned.Observer = stepTimer{}

type begunKey struct{}

func (stepTimer) Begin(ctx context.Context, _ planned.Action) context.Context {
	return context.WithValue(ctx, begunKey{}, time.Now())
}

func (s stepTimer) End(ctx context.Context, a planned.Action, _ error) {
	if began, ok := ctx.Value(begunKey{}).(time.Time); ok {
		s.m.steps.WithLabelValues(string(a.Verb), a.Plugin, a.Step).Observe(time.Since(began).Seconds())
	}
}

package prober

import (
	"context"
	"sync"

	"github.com/cleat-cni/cleat/internal/agent/container"
)

// updateCapacity is how many updates of a kind may wait for the loop.
const updateCapacity = 20

// results is what the probes of a kind concluded, by container.
type results struct {
	updates chan container.ProbeUpdate

	mu sync.Mutex
	of map[string]container.ProbeResult
}

func newResults() *results {
	return &results{updates: make(chan container.ProbeUpdate, updateCapacity), of: map[string]container.ProbeResult{}}
}

func (r *results) get(id string) container.ProbeResult {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.of[id]
}

// note notes a result, and reports whether it is another one than before.
func (r *results) note(id string, result container.ProbeResult) (changed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	old, ok := r.of[id]
	r.of[id] = result
	return !ok || old != result
}

// send tells of a change. It waits for the loop if that is behind, until ctx ends.
func (r *results) send(ctx context.Context, u container.ProbeUpdate) {
	select {
	case r.updates <- u:
	case <-ctx.Done():
	}
}

func (r *results) remove(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.of, id)
}

package metrics

import (
	"sync"
	"time"
)

// Timing is how long one operation took.
type Timing struct {
	Operation string    `json:"operation"`        // of the runtime, as the metrics call it; or one of those below
	Plugin    string    `json:"plugin,omitempty"` // with OperationCNI: its type, or those that ran as one
	Pod       string    `json:"pod"`              // namespace/name; "" if that is not known
	Began     time.Time `json:"began"`
	Seconds   float64   `json:"seconds"`
	Failed    bool      `json:"failed,omitempty"`
}

// Operations that are none of the runtime's. A CNI verb follows [OperationCNI].
const (
	OperationStart = "pod_start" // from when the agent saw a pod to when its last container was started, for the first time
	OperationCNI   = "cni_"
)

// maxTimings is how many are kept: those of some thousand pods.
const maxTimings = 1 << 14

// timings are the last ones. The zero value has none.
type timings struct {
	mu      sync.Mutex
	ring    []Timing
	next    uint64 // how many there have been
	changed chan struct{}
}

func (t *timings) add(one Timing) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.ring) < maxTimings {
		t.ring = append(t.ring, one)
	} else {
		t.ring[t.next%maxTimings] = one
	}
	t.next++
	if t.changed != nil {
		close(t.changed)
		t.changed = nil
	}
}

// Timings returns the timings since an earlier call of it, which returned how many there had been by then, and a channel that is closed
// when there is another one. Who asks too late misses some: the last 16,384 are kept.
func (m *Metrics) Timings(since uint64) (list []Timing, next uint64, changed <-chan struct{}) {
	t := &m.timings
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.changed == nil {
		t.changed = make(chan struct{})
	}
	if oldest := t.next - uint64(len(t.ring)); since < oldest {
		since = oldest
	}
	for ; since < t.next; since++ {
		list = append(list, t.ring[since%maxTimings])
	}
	return list, t.next, t.changed
}

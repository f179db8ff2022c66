package decide

import (
	"maps"
	"sync"
	"time"
)

// The waits of containers that crash again and again.
const (
	BackoffInitial = 10 * time.Second
	BackoffMax     = 5 * time.Minute
)

// Backoff is how long containers have to wait before they are started again: after the first end not at all, then
// [BackoffInitial], twice as long each time, up to [BackoffMax], counted from the end of the last run. A container that ran longer than
// twice the maximum begins anew. The zero value is ready. It may be used by several goroutines.
type Backoff struct {
	mu      sync.Mutex
	entries map[string]backoffEntry
}

type backoffEntry struct {
	delay    time.Duration
	updated  time.Time // when it was last allowed
	finished time.Time // the end of the run that was last asked about
	seen     time.Time // when that end was first heard of
}

// Allow reports whether a container that ended at a time may be started again, and if not, from when on. To allow it counts: the
// next wait is longer. A clock that was set back does not make a wait longer, since what has passed on the agent's
// own clock since it heard of the end counts too.
func (b *Backoff) Allow(key string, finished, now time.Time) (until time.Time, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.entries == nil {
		b.entries = map[string]backoffEntry{}
	}
	e, known := b.entries[key]
	if !e.finished.Equal(finished) {
		e.finished, e.seen = finished, now
	}
	passed := max(now.Sub(finished), now.Sub(e.seen))
	switch {
	case !known, e.seen.Sub(e.updated) > 2*BackoffMax:
		e.delay = BackoffInitial
	case passed < e.delay:
		b.entries[key] = e
		return now.Add(e.delay - passed), false
	default:
		e.delay = min(2*e.delay, BackoffMax)
	}
	e.updated = now
	b.entries[key] = e
	return time.Time{}, true
}

// Collect forgets those that were not allowed for so long that they would begin anew.
func (b *Backoff) Collect(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.DeleteFunc(b.entries, func(_ string, e backoffEntry) bool {
		return now.Sub(e.updated) > 2*BackoffMax+e.delay
	})
}

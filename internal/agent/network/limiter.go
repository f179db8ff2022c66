package network

import (
	"context"
	"sync"
	"time"
)

// limiter bounds how many operations run at once, and looks for the bound at which most get done: link changes wait for one lock of
// the kernel, and more of them at once than it takes to keep it busy only wait longer. It climbs a hill: after each window it
// goes on in its direction if more was done in the time than before, and turns round if less was.
type limiter struct {
	mu       sync.Mutex
	most     int
	limit    int
	step     int // +1 or -1
	running  int
	waiting  []chan struct{}
	now      func() time.Time
	since    time.Time // the beginning of the window
	finished int       // in the window
	full     bool      // the bound was reached in the window, so that it says something of it
	rate     float64   // of the window before, in operations a second
}

// window is how many operations it takes to judge a bound.
const window = 32

func newLimiter(most int) *limiter {
	return &limiter{most: most, limit: min(4, most), step: 1, now: time.Now}
}

// begin waits for its turn, and returns what ends the operation. An error is the context's.
func (l *limiter) begin(ctx context.Context) (done func(), err error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	l.mu.Lock()
	if l.finished == 0 && l.running == 0 {
		l.since = l.now()
	}
	if l.running < l.limit {
		l.running++
		l.mu.Unlock()
		return l.end, nil
	}
	l.full = true
	turn := make(chan struct{})
	l.waiting = append(l.waiting, turn)
	l.mu.Unlock()
	select {
	case <-turn:
		return l.end, nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, w := range l.waiting {
		if w == turn {
			l.waiting = append(l.waiting[:i], l.waiting[i+1:]...)
			return nil, context.Cause(ctx)
		}
	}
	// The turn came at the same time: pass it on.
	l.running--
	l.admit()
	return nil, context.Cause(ctx)
}

func (l *limiter) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running--
	l.finished++
	if l.finished >= window {
		l.judge()
	}
	l.admit()
}

// admit lets those in for whom there is room.
func (l *limiter) admit() {
	for l.running < l.limit && len(l.waiting) > 0 {
		close(l.waiting[0])
		l.waiting = l.waiting[1:]
		l.running++
	}
}

// judge ends a window and moves the bound.
func (l *limiter) judge() {
	took := l.now().Sub(l.since).Seconds()
	full := l.full
	rate := float64(l.finished) / max(took, 1e-9)
	l.since, l.finished, l.full = l.now(), 0, false
	if !full {
		return // nobody waited: the bound was not what limited it
	}
	if rate < l.rate {
		l.step = -l.step
	}
	l.rate = rate
	l.limit = min(max(l.limit+l.step, 1), l.most)
}

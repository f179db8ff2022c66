package pleg

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/cleat-cni/cleat/internal/agent/container"
)

// Cache holds the last known status of every pod. [Generic] alone writes it. What it returns is shared: nobody may change it.
type Cache struct {
	mu       sync.Mutex
	pods     map[types.UID]entry
	observed map[types.UID]time.Time // of pods alone, later than all
	all      time.Time               // everything is at least as new as this
	waiters  map[types.UID][]*waiter
}

type entry struct {
	status   *container.PodStatus
	err      error
	modified time.Time
}

type waiter struct{ done chan struct{} }

func newCache() *Cache {
	return &Cache{pods: map[types.UID]entry{}, observed: map[types.UID]time.Time{}, waiters: map[types.UID][]*waiter{}}
}

// Get returns what is known of a pod, or why it is not known. A pod that the runtime does not know has an empty status. It never waits.
func (c *Cache) Get(uid types.UID) (*container.PodStatus, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.get(uid)
}

func (c *Cache) get(uid types.UID) (*container.PodStatus, error) {
	e, ok := c.pods[uid]
	if !ok {
		return &container.PodStatus{UID: uid}, nil
	}
	return e.status, e.err
}

// GetNewerThan waits until something is known of a pod that was observed when a time had come, and returns it as Get does. A worker that asks
// for what is newer than the end of its last action never acts twice on one observation.
func (c *Cache) GetNewerThan(ctx context.Context, uid types.UID, than time.Time) (*container.PodStatus, error) {
	for {
		c.mu.Lock()
		if newer(c.all, than) || newer(c.observed[uid], than) || newer(c.pods[uid].modified, than) {
			defer c.mu.Unlock()
			return c.get(uid)
		}
		w := &waiter{make(chan struct{})}
		c.waiters[uid] = append(c.waiters[uid], w)
		c.mu.Unlock()
		select {
		case <-w.done:
		case <-ctx.Done():
			c.abandon(uid, w)
			return nil, ctx.Err()
		}
	}
}

// newer reports whether an observation that began at a time saw all that was done until another.
func newer(began, done time.Time) bool { return !began.IsZero() && !began.Before(done) }

func (c *Cache) abandon(uid types.UID, w *waiter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiters[uid] = slices.DeleteFunc(c.waiters[uid], func(other *waiter) bool { return other == w })
	if len(c.waiters[uid]) == 0 {
		delete(c.waiters, uid)
	}
}

// set keeps what was observed of a pod at a time.
func (c *Cache) set(uid types.UID, e entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pods[uid] = e
	c.wake(uid)
}

// forget keeps that the runtime did not know a pod at a time.
func (c *Cache) forget(uid types.UID, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pods, uid)
	c.observed[uid] = at
	c.wake(uid)
}

// updateTime says that all that changed up to a time has been set.
func (c *Cache) updateTime(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = at
	for uid, t := range c.observed {
		if !t.After(at) {
			delete(c.observed, uid)
		}
	}
	for uid := range c.waiters {
		c.wake(uid)
	}
}

func (c *Cache) wake(uid types.UID) {
	for _, w := range c.waiters[uid] {
		close(w.done)
	}
	delete(c.waiters, uid)
}

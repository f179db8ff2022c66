// Package pleg is the pod lifecycle event generator: it finds out what changed in the runtime by asking it, once a second for
// everything and on demand for a pod, and says so as events. It fills the [Cache] of what the runtime knows of each pod, and nobody
// else does.
//
// A relist compares the states of sandboxes and containers with those of the one before and asks for the whole status only of
// pods where one differs, or where the last question was answered by an error. Events are hints: one that finds the channel full is
// dropped, and the regular sync of every pod makes up for it. What counts is the cache. A container must not come, end and be removed
// between two relists; the records of those that ended stay long enough for that.
package pleg

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/cleat-cni/cleat/internal/agent/container"
)

// EventType says what happened to a container or sandbox.
type EventType string

// The types of events.
const (
	ContainerStarted EventType = "ContainerStarted"
	ContainerDied    EventType = "ContainerDied"
	ContainerRemoved EventType = "ContainerRemoved"
	PodSync          EventType = "PodSync" // the pod can be looked at again, after an error

	containerChanged EventType = "ContainerChanged" // it is in an unclear state: worth a look at the pod, but told to nobody
)

// Event is one thing that happened.
type Event struct {
	ID   types.UID // of the pod
	Type EventType
	Data string // the ID of the container or sandbox; "" for a PodSync
}

type runtime interface {
	Pods(ctx context.Context) ([]container.Pod, error)
	PodStatus(ctx context.Context, uid types.UID) (*container.PodStatus, error)
}

const (
	eventCapacity   = 1000
	requestCapacity = 200
)

// Config configures a [Generic].
type Config struct {
	Runtime   runtime                         // required
	Relisted  func(took, since time.Duration) // told of each relist of all that went well; default nobody
	Discarded func()                          // told of each event that is dropped; default nobody
	Log       *slog.Logger                    // default slog.Default()
	Period    time.Duration                   // between the end of a relist and the next; default 1 s
	Threshold time.Duration                   // of the last relist's age, over which it is unhealthy; default 3 min
}

// Generic is a PLEG over any runtime. Make one with [New] and Run it.
type Generic struct {
	config   Config
	cache    *Cache
	events   chan *Event
	requests chan request

	// Only Run uses these.
	records   map[types.UID]record
	reinspect map[types.UID]bool
	observed  map[types.UID]time.Time // when a pod was last relisted alone, since the last relist of all

	mu       sync.Mutex
	relisted time.Time // when the last relist that went well began
}

// request asks for a pod to be looked at, since something happened before a time.
type request struct {
	uid types.UID
	at  time.Time
}

// record is the states of a pod's sandboxes and containers by ID, as far as events tell them apart.
type record map[string]container.State

// New makes a PLEG.
func New(c Config) *Generic {
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Relisted == nil {
		c.Relisted = func(_, _ time.Duration) {}
	}
	if c.Discarded == nil {
		c.Discarded = func() {}
	}
	if c.Period == 0 {
		c.Period = time.Second
	}
	if c.Threshold == 0 {
		c.Threshold = 3 * time.Minute
	}
	return &Generic{
		config: c, cache: newCache(), events: make(chan *Event, eventCapacity), requests: make(chan request, requestCapacity),
		records: map[types.UID]record{}, reinspect: map[types.UID]bool{}, observed: map[types.UID]time.Time{},
	}
}

// Cache returns the cache that it fills.
func (g *Generic) Cache() *Cache { return g.cache }

// Events returns the channel of what happened.
func (g *Generic) Events() <-chan *Event { return g.events }

// RequestRelist asks for one pod to be looked at soon, because something was done to it. If too many ask it is left to the next relist of
// all.
func (g *Generic) RequestRelist(uid types.UID) {
	select {
	case g.requests <- request{uid, time.Now()}:
	default:
	}
}

// Healthy returns an error if the runtime has not been listed for too long.
func (g *Generic) Healthy() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.relisted.IsZero() {
		return fmt.Errorf("pleg has yet to list the runtime's pods")
	}
	if age := time.Since(g.relisted); age > g.config.Threshold {
		return fmt.Errorf("pleg was last seen active %v ago; threshold is %v", age, g.config.Threshold)
	}
	return nil
}

// Run relists until the context ends. A relist of all that is due goes before those that were asked for.
func (g *Generic) Run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		select {
		case <-timer.C:
			g.relist(ctx)
			timer.Reset(g.config.Period)
			continue
		default:
		}
		select {
		case <-ctx.Done():
		case <-timer.C:
			g.relist(ctx)
			timer.Reset(g.config.Period)
		case r := <-g.requests:
			g.relistPod(ctx, r)
		}
	}
}

func (g *Generic) relist(ctx context.Context) {
	began := time.Now()
	pods, err := g.config.Runtime.Pods(ctx)
	if err != nil {
		g.config.Log.Error("list pods", "error", err)
		return
	}
	g.mu.Lock()
	since := time.Duration(0)
	if !g.relisted.IsZero() {
		since = began.Sub(g.relisted)
	}
	g.relisted = began
	g.mu.Unlock()
	defer func() { g.config.Relisted(time.Since(began), since) }()
	clear(g.observed)

	current := make(map[types.UID]record, len(pods))
	for _, p := range pods {
		current[p.UID] = recordOf(p)
	}
	for _, uid := range union(g.records, current) {
		events := diff(uid, g.records[uid], current[uid])
		if len(current[uid]) == 0 { // at most files are left of it
			g.cache.forget(uid, began)
			g.keep(uid, nil, events)
			continue
		}
		if len(events) == 0 && !g.reinspect[uid] {
			continue
		}
		status, err := g.status(ctx, uid)
		if err != nil {
			g.config.Log.Error("get status of pod", "uid", uid, "error", err)
			old, _ := g.cache.Get(uid) // its addresses are still wanted
			g.cache.set(uid, entry{old, err, began})
			g.reinspect[uid] = true
			continue
		}
		g.cache.set(uid, entry{status, nil, began})
		g.keep(uid, current[uid], events)
	}
	maps.DeleteFunc(g.reinspect, func(uid types.UID, _ bool) bool { return len(current[uid]) == 0 })
	g.cache.updateTime(began)
}

// relistPod looks at one pod, unless that has been done since it was asked for.
func (g *Generic) relistPod(ctx context.Context, r request) {
	if g.relisted.After(r.at) || g.observed[r.uid].After(r.at) {
		return
	}
	began := time.Now()
	status, err := g.status(ctx, r.uid)
	if err != nil {
		// The next relist of all asks again. What the cache holds is old, but nobody is told that it is new.
		g.config.Log.Error("get status of pod", "uid", r.uid, "error", err)
		g.reinspect[r.uid] = true
		return
	}
	g.observed[r.uid] = began
	current := recordOfStatus(status)
	events := diff(r.uid, g.records[r.uid], current)
	if len(current) == 0 {
		g.cache.forget(r.uid, began)
		g.keep(r.uid, nil, events)
		return
	}
	g.cache.set(r.uid, entry{status, nil, began})
	g.keep(r.uid, current, events)
}

// status asks for a pod's status. A pod that has no running sandbox keeps the addresses that it had, so that
// a pod that ended can still be told by its address when CNI DEL has taken it away.
func (g *Generic) status(ctx context.Context, uid types.UID) (*container.PodStatus, error) {
	status, err := g.config.Runtime.PodStatus(ctx, uid)
	if err != nil {
		return nil, fmt.Errorf("get status of pod %s: %w", uid, err)
	}
	running := slices.ContainsFunc(status.Sandboxes, func(s container.SandboxStatus) bool { return s.State == container.StateRunning })
	if len(status.IPs) == 0 && !running {
		if old, _ := g.cache.Get(uid); len(old.IPs) > 0 { // also if the last question was answered by an error
			kept := *status
			kept.IPs = old.IPs
			return &kept, nil
		}
	}
	return status, nil
}

// keep takes over what is known of a pod now, nil for nothing, and tells what happened to it.
func (g *Generic) keep(uid types.UID, r record, events []*Event) {
	if r == nil {
		delete(g.records, uid)
	} else {
		g.records[uid] = r
	}
	if g.reinspect[uid] && len(events) == 0 && r != nil {
		events = []*Event{{ID: uid, Type: PodSync}}
	}
	delete(g.reinspect, uid)
	for _, e := range events {
		if e.Type == containerChanged {
			continue
		}
		select {
		case g.events <- e:
		default:
			g.config.Discarded()
			g.config.Log.Warn("drop event: nobody takes them", "uid", e.ID, "type", e.Type)
		}
	}
}

func recordOf(p container.Pod) record {
	r := record{}
	for _, list := range [][]container.Item{p.Sandboxes, p.Containers} {
		for _, i := range list {
			r[i.ID] = coarse(i.State)
		}
	}
	return r
}

func recordOfStatus(s *container.PodStatus) record {
	r := record{}
	for _, sandbox := range s.Sandboxes {
		r[sandbox.ID] = coarse(sandbox.State)
	}
	for _, c := range s.Containers {
		r[c.ID] = coarse(c.State)
	}
	return r
}

// coarse is a state as far as it makes an event: one that was made and not started is as unclear as one that nobody knows.
func coarse(s container.State) container.State {
	if s == container.StateRunning || s == container.StateExited {
		return s
	}
	return container.StateUnknown
}

// diff says what happened to a pod between two records, in the order of the IDs.
func diff(uid types.UID, old, current record) []*Event {
	var events []*Event
	add := func(kind EventType, id string) { events = append(events, &Event{uid, kind, id}) }
	for _, id := range union(old, current) {
		before, after := old[id], current[id]
		switch {
		case before == after:
		case after == container.StateRunning:
			add(ContainerStarted, id)
		case after == container.StateExited:
			add(ContainerDied, id)
		case after == container.StateUnknown:
			add(containerChanged, id)
		case before == container.StateExited:
			add(ContainerRemoved, id)
		default:
			add(ContainerDied, id)
			add(ContainerRemoved, id)
		}
	}
	return events
}

// union returns the keys of both, in order.
func union[K ~string, V any](a, b map[K]V) []K {
	keys := maps.Clone(a)
	if keys == nil {
		keys = map[K]V{}
	}
	maps.Copy(keys, b)
	return slices.Sorted(maps.Keys(keys))
}

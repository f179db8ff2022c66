// Package podworkers holds how far each pod has come in its life. One goroutine a UID works on a pod, in three phases that are never
// gone back: Sync makes it run, Terminating stops it, Terminated tidies up. Who wants something of a pod says so with
// [Workers.UpdatePod], which returns at once; of several updates that wait for a worker the last one counts.
//
// [Workers] decides when what is done to which pod, and [Syncer] does it, on top of package decide and a [Runtime]. A worker acts on what
// the PLEG's cache observed after its last action, so it never acts twice on one observation. A pod of the same full name, but
// of another UID, waits until the one before has ended: that is how a changed manifest is replaced.
//
// What runs is asked of the workers, what should run of the sync loop's pod manager.
package podworkers

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cleat-cni/cleat/internal/agent/container"
)

// UpdateType says why a pod is to be worked on.
type UpdateType int

// The types.
const (
	Create UpdateType = iota // it is new in its source
	Change                   // the source changed it
	Sync                     // something happened, or it is time to look
	Kill                     // it has to end
)

// Update is what [Workers.UpdatePod] is told: of a pod of a source, or of one that the runtime alone knows.
type Update struct {
	Type    UpdateType
	Pod     *v1.Pod        // nil if nobody has a spec of it
	Running *container.Pod // used if Pod is nil, with Kill
	Grace   *int64         // of a Kill, in seconds: shortens the pod's own
	Again   bool           // of a Create: the UID had a life before, and what was observed of that one counts no more
}

// Outcome is what came of a sync.
type Outcome struct {
	Ended bool // the pod has succeeded or failed: it is to be terminated
	Acted bool // something was done in the runtime, so it is worth looking at the pod at once
}

type syncer interface {
	SyncPod(ctx context.Context, pod *v1.Pod, status *container.PodStatus) (Outcome, error)
	SyncTerminatingPod(ctx context.Context, pod *v1.Pod, status *container.PodStatus, grace time.Duration) error
	SyncTerminatingRuntimePod(ctx context.Context, running *container.Pod) error
	SyncTerminatedPod(ctx context.Context, pod *v1.Pod, status *container.PodStatus) error
}

type cache interface {
	Get(uid types.UID) (*container.PodStatus, error)
	GetNewerThan(ctx context.Context, uid types.UID, than time.Time) (*container.PodStatus, error)
}

// Config configures [Workers].
type Config struct {
	Syncer syncer                                // required, for instance a [Syncer]
	Cache  cache                                 // required: the PLEG's
	Relist func(uid types.UID)                   // required: asks the PLEG to look at a pod
	Again  func()                                // told that a pod has ended that is to come again under its UID; must not wait; default nobody
	Worked func(what string, took time.Duration) // told of each step of a worker: sync, terminating, terminated; default nobody
	Log    *slog.Logger                          // default slog.Default()
	Resync time.Duration                         // how often a pod is looked at without a reason; default 1 min
	Jitter func(time.Duration) time.Duration     // spreads waits; default up to half as long again
}

// The waits after a sync that went wrong, before jitter.
const (
	backOff          = 10 * time.Second
	transientBackOff = time.Second // the network is not ready
)

// Workers are the workers of all pods. Make them with [New]. They may be used by several goroutines.
type Workers struct {
	config Config
	queue  queue
	wg     sync.WaitGroup

	mu     sync.Mutex
	synced bool // SyncKnownPods was called: what is not known here has no business to run
	states map[types.UID]*state

	// One UID of a full name may be started, and those that wait for it come in this order.
	started map[string]types.UID
	waiting map[string][]types.UID
}

// New makes workers without a pod.
func New(c Config) *Workers {
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Again == nil {
		c.Again = func() {}
	}
	if c.Worked == nil {
		c.Worked = func(string, time.Duration) {}
	}
	if c.Resync == 0 {
		c.Resync = time.Minute
	}
	if c.Jitter == nil {
		c.Jitter = func(d time.Duration) time.Duration { return d + rand.N(d/2+1) }
	}
	return &Workers{
		config: c, states: map[types.UID]*state{}, started: map[string]types.UID{}, waiting: map[string][]types.UID{},
	}
}

// Wait waits until every worker is done, which is some time after the context that they were started with has ended.
func (w *Workers) Wait() { w.wg.Wait() }

// Due takes the pods whose time to be looked at has come.
func (w *Workers) Due() []types.UID { return w.queue.due(time.Now()) }

// NetworkReady makes the pods due that wait for the network.
func (w *Workers) NetworkReady() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for uid, s := range w.states {
		if s.waitsForNetwork {
			w.queue.enqueue(uid, time.Now())
		}
	}
}

// UpdatePod tells the pod's worker what is wanted. A Create starts one if there is none, and so does a Kill of a pod that the runtime alone
// knows; it works as long as the context lasts. What comes for a pod that has ended is ignored, except that a Create is kept for when its traces
// are gone.
func (w *Workers) UpdatePod(ctx context.Context, u Update) {
	w.mu.Lock()
	defer w.mu.Unlock()
	uid, orphan := u.uid()
	s, known := w.states[uid]
	switch {
	case uid == "", orphan && u.Type != Kill:
		w.config.Log.Error("ignore update of a pod that nobody can act on", "uid", uid, "type", u.Type)
		return
	case orphan && known:
		return // its worker drives it
	case !known && !orphan && u.Type != Create:
		return // it ended and may come again, which begins with a Create; if it runs all the same, it is an orphan
	case known && s.terminating() && u.Type == Create:
		s.restartRequested = true
		if s.finished {
			w.config.Again()
		}
		return
	case known && s.finished:
		return
	case !known:
		s = w.newState(u, orphan)
		w.states[uid] = s
	}
	cancel := false
	if !s.terminating() && (u.Type == Kill || u.Pod.DeletionTimestamp != nil || ended(u.Pod)) {
		s.terminatingAt = time.Now()
		s.deleted = s.deleted || orphan || u.Pod.DeletionTimestamp != nil
		cancel = true
	}
	if s.terminating() {
		u.Type = Kill
		cancel = s.shorten(u.Pod, u.Grace) || cancel
	}
	w.launch(ctx, uid, s)
	s.pending = &u
	s.poke()
	if cancel && s.cancel != nil {
		s.cancel()
	}
}

// uid returns whose update it is, and whether the runtime alone knows that pod.
func (u Update) uid() (uid types.UID, orphan bool) {
	switch {
	case u.Pod != nil:
		return u.Pod.UID, false
	case u.Running != nil:
		return u.Running.UID, true
	}
	return "", false
}

func ended(pod *v1.Pod) bool {
	return pod.Status.Phase == v1.PodFailed || pod.Status.Phase == v1.PodSucceeded
}

// newState begins the life of a pod. One that its source calls ended, and that does not run, has nothing left but to be tidied up.
func (w *Workers) newState(u Update, orphan bool) *state {
	s := &state{wake: make(chan struct{}, 1), orphan: orphan}
	if u.Again {
		s.since = time.Now()
		w.config.Relist(u.Pod.UID)
	}
	if orphan {
		return s
	}
	s.fullName = u.Pod.Namespace + "/" + u.Pod.Name
	if ended(u.Pod) {
		status, err := w.config.Cache.Get(u.Pod.UID)
		if err == nil && !runs(status) {
			s.terminatingAt, s.terminatedAt = time.Now(), time.Now()
		}
	}
	return s
}

func runs(status *container.PodStatus) bool {
	for _, sandbox := range status.Sandboxes {
		if sandbox.State == container.StateRunning {
			return true
		}
	}
	for _, c := range status.Containers {
		if c.State == container.StateRunning {
			return true
		}
	}
	return false
}

// launch starts the pod's worker if it has none.
func (w *Workers) launch(ctx context.Context, uid types.UID, s *state) {
	if s.launched {
		return
	}
	s.launched = true
	if !s.orphan {
		w.waiting[s.fullName] = append(w.waiting[s.fullName], uid)
	}
	w.wg.Go(func() { w.work(ctx, uid, s) })
}

package podworkers

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Phase is what a worker does for its pod.
type Phase int

// The phases, in the order of a pod's life.
const (
	SyncPodWork Phase = iota
	TerminatingPodWork
	TerminatedPodWork
)

// String is the phase in a word.
func (p Phase) String() string { return [...]string{"sync", "terminating", "terminated"}[p] }

// state is how far a pod has come. The workers' lock guards it.
type state struct {
	wake     chan struct{} // capacity 1; closed once the pod is forgotten
	launched bool
	orphan   bool // the runtime alone knows the pod
	fullName string
	since    time.Time // what was observed before is of another life

	pending *Update // what the worker has not taken yet: the latest wins
	active  *Update // what it took last
	cancel  context.CancelFunc

	terminatingAt, terminatedAt time.Time
	grace                       int64 // in seconds, once it is terminating

	started          bool // its worker has taken an update
	deleted          bool // it is gone from its source
	finished         bool // nothing is left to do
	restartRequested bool // a pod of the same UID is to come after this one
	waitsForNetwork  bool
}

func (s *state) terminating() bool { return !s.terminatingAt.IsZero() }
func (s *state) terminated() bool  { return !s.terminatedAt.IsZero() }

func (s *state) phase() Phase {
	switch {
	case s.terminated():
		return TerminatedPodWork
	case s.terminating():
		return TerminatingPodWork
	}
	return SyncPodWork
}

// poke wakes the worker, which finds what is pending.
func (s *state) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// repeat makes the worker go on with what it was told last, unless something new waits.
func (s *state) repeat() {
	if s.pending == nil && s.active != nil {
		again := *s.active
		s.pending = &again
	}
	if s.pending != nil {
		s.poke()
	}
}

// latest is the last update that there was.
func (s *state) latest() *Update {
	if s.pending != nil {
		return s.pending
	}
	return s.active
}

// orphanGrace is how long a container of a pod that nobody has a spec of gets, in seconds.
const orphanGrace = 1

// shorten sets the grace period: the shortest that anybody asked for, which never grows, else the pod's own; at least a second. It
// reports whether it was set before and is shorter now.
func (s *state) shorten(pod *v1.Pod, override *int64) bool {
	before := s.grace
	var asked []int64
	switch {
	case pod == nil:
		asked = append(asked, orphanGrace)
	case pod.DeletionGracePeriodSeconds != nil:
		asked = append(asked, *pod.DeletionGracePeriodSeconds)
	}
	if override != nil {
		asked = append(asked, *override)
	}
	if before == 0 && len(asked) == 0 && pod.Spec.TerminationGracePeriodSeconds != nil {
		asked = append(asked, *pod.Spec.TerminationGracePeriodSeconds)
	}
	for _, seconds := range asked {
		if s.grace == 0 || seconds < s.grace {
			s.grace = max(seconds, 1)
		}
	}
	s.grace = max(s.grace, 1)
	return before != 0 && s.grace < before
}

// question answers one about a pod: by its state, or by what holds of a pod that is not known.
func (w *Workers) question(uid types.UID, known func(*state) bool, unknown func() bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s, ok := w.states[uid]; ok {
		return known(s)
	}
	return unknown()
}

func (w *Workers) isSynced() bool { return w.synced }

// IsPodTerminationRequested reports whether the pod has been told to end. One that is not known has not.
func (w *Workers) IsPodTerminationRequested(uid types.UID) bool {
	return w.question(uid, (*state).terminating, func() bool { return false })
}

// TerminatingSince returns when the pod was told to end, and false if it was not, or nothing is left to do for it.
func (w *Workers) TerminatingSince(uid types.UID) (since time.Time, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.states[uid]
	if s == nil || !s.terminating() || s.finished {
		return time.Time{}, false
	}
	return s.terminatingAt, true
}

// ShouldPodContainersBeTerminating reports whether the pod's containers have no business to be started: it was told to end, or is not
// known although all pods are.
func (w *Workers) ShouldPodContainersBeTerminating(uid types.UID) bool {
	return w.question(uid, (*state).terminating, w.isSynced)
}

// CouldHaveRunningContainers reports whether containers of the pod may run: until they have been stopped, and of one that is not known
// until all pods are.
func (w *Workers) CouldHaveRunningContainers(uid types.UID) bool {
	return w.question(uid, func(s *state) bool { return !s.terminated() }, func() bool { return !w.synced })
}

// ShouldPodBeFinished reports whether nothing is left to do for the pod.
func (w *Workers) ShouldPodBeFinished(uid types.UID) bool {
	return w.question(uid, func(s *state) bool { return s.finished }, w.isSynced)
}

// ShouldPodRuntimeBeRemoved reports whether what the runtime has of the pod may go: its containers were stopped.
func (w *Workers) ShouldPodRuntimeBeRemoved(uid types.UID) bool {
	return w.question(uid, (*state).terminated, w.isSynced)
}

// ShouldPodContentBeRemoved reports whether all traces of the pod may go: it was stopped and is gone from its source.
func (w *Workers) ShouldPodContentBeRemoved(uid types.UID) bool {
	return w.question(uid, func(s *state) bool { return s.deleted && s.terminated() }, w.isSynced)
}

// Worker is how the worker of a pod stands.
type Worker struct {
	Phase  Phase
	Orphan bool // no source has the pod
}

// SyncKnownPods compares the workers with the pods that the sources have, and returns those that are left. A pod that no source has is
// terminated, and forgotten once that is done; so is one that ended and is to come again under the same UID.
func (w *Workers) SyncKnownPods(desired []*v1.Pod) map[types.UID]Worker {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.synced = true
	known := make(map[types.UID]bool, len(desired))
	for _, pod := range desired {
		known[pod.UID] = true
	}
	left := map[types.UID]Worker{}
	for uid, s := range w.states {
		orphan := !known[uid]
		if (orphan || s.restartRequested) && w.forget(uid, s, orphan) {
			continue
		}
		left[uid] = Worker{Phase: s.phase(), Orphan: orphan}
	}
	return left
}

// forget drops a worker that is done with a pod, and reports whether it did. One that no source has any more is driven to its end.
func (w *Workers) forget(uid types.UID, s *state, orphan bool) bool {
	if !s.finished {
		if !orphan {
			return false
		}
		s.deleted = true
		if !s.terminating() {
			s.terminatingAt = time.Now()
			s.shorten(s.latest().Pod, nil)
			if s.cancel != nil {
				s.cancel()
			}
		}
		s.repeat()
		return false
	}
	delete(w.states, uid)
	close(s.wake)
	w.release(uid, s)
	return true
}

// release lets the next pod of the full name start.
func (w *Workers) release(uid types.UID, s *state) {
	if w.started[s.fullName] == uid {
		delete(w.started, s.fullName)
	}
	for _, next := range w.waiting[s.fullName] {
		if other := w.states[next]; other != nil && other.pending != nil {
			other.poke()
		}
	}
}

// mayStart reports whether a pod is the one of its full name that may start now: no other was started, and none was there before it.
func (w *Workers) mayStart(uid types.UID, s *state) bool {
	if first, ok := w.started[s.fullName]; ok {
		return first == uid
	}
	line := w.waiting[s.fullName]
	for len(line) > 0 && line[0] != uid {
		if other := w.states[line[0]]; other != nil && !other.terminating() {
			w.waiting[s.fullName] = line
			return false
		}
		line = line[1:] // it will never start
	}
	if len(line) > 1 {
		w.waiting[s.fullName] = line[1:]
	} else {
		delete(w.waiting, s.fullName)
	}
	w.started[s.fullName] = uid
	return true
}

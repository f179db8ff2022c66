package podworkers

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/cleat-cni/cleat/internal/agent/container"
)

// job is one turn of a worker.
type job struct {
	ctx    context.Context
	phase  Phase
	update Update
	grace  time.Duration
	began  time.Time
}

// work is the goroutine of a pod, until the pod has finished or is forgotten, or the context ends.
func (w *Workers) work(ctx context.Context, uid types.UID, s *state) {
	last := s.since // when the last sync ended
	for {
		select {
		case <-ctx.Done():
			return
		case _, open := <-s.wake:
			if !open {
				return
			}
		}
		j, ready := w.take(ctx, uid, s)
		if !ready {
			continue
		}
		outcome, err := w.do(uid, j, last)
		last = time.Now()
		w.config.Worked(j.phase.String(), last.Sub(j.began))
		done := w.complete(uid, s, j, result{outcome, err})
		if outcome.Acted {
			w.config.Relist(uid)
		}
		if done {
			return
		}
	}
}

// take takes the pending update, if there is one and the pod may be worked on. A pod that has to wait for another of its name keeps it.
func (w *Workers) take(ctx context.Context, uid types.UID, s *state) (job, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s.pending == nil || w.states[uid] != s {
		return job{}, false
	}
	if !s.started {
		// One that is to end need not wait for its turn. Whether an earlier agent started it is for the runtime to say.
		if !s.terminating() && !w.mayStart(uid, s) {
			return job{}, false
		}
		s.started = true
	}
	s.active, s.pending = s.pending, nil
	var j job
	j.phase, j.update, j.grace, j.began = s.phase(), *s.active, time.Duration(s.grace)*time.Second, time.Now()
	j.ctx, s.cancel = context.WithCancel(ctx)
	return j, true
}

// do does what the phase asks for.
func (w *Workers) do(uid types.UID, j job, last time.Time) (Outcome, error) {
	if j.update.Pod == nil { // there is no spec that a status could be compared with
		return Outcome{Acted: true}, w.config.Syncer.SyncTerminatingRuntimePod(j.ctx, j.update.Running)
	}
	if j.phase == TerminatingPodWork {
		w.config.Relist(uid) // its address is wanted back now, not at the next relist
	}
	status, err := w.config.Cache.GetNewerThan(j.ctx, uid, last)
	if err != nil {
		return Outcome{}, err
	}
	pod := j.update.Pod
	switch j.phase {
	case TerminatedPodWork:
		return Outcome{}, w.config.Syncer.SyncTerminatedPod(j.ctx, pod, status)
	case TerminatingPodWork:
		return Outcome{Acted: true}, w.config.Syncer.SyncTerminatingPod(j.ctx, pod, status, j.grace)
	}
	return w.config.Syncer.SyncPod(j.ctx, pod, status)
}

type result struct {
	outcome Outcome
	err     error
}

// complete takes the pod on after a sync, says when it is due again, and reports whether the worker is done with it.
func (w *Workers) complete(uid types.UID, s *state, j job, r result) (done bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer s.endSync()
	s.waitsForNetwork = errors.Is(r.err, container.ErrNetworkNotReady)
	now := time.Now()
	switch {
	case r.err != nil && j.ctx.Err() != nil:
		// What cancelled it is pending, or the agent stops.
	case r.err != nil:
		level := slog.LevelError
		if s.waitsForNetwork {
			level = slog.LevelDebug // each second, of each pod; the event has been logged
		}
		w.config.Log.Log(j.ctx, level, "sync pod, skipping", "uid", uid, "error", r.err)
		w.queue.enqueue(uid, now.Add(w.config.Jitter(w.delay(r.err, now))))
	case j.phase == TerminatedPodWork:
		s.finished = true
		w.release(uid, s)
		if s.restartRequested {
			w.config.Again()
		}
		return true
	case j.phase == TerminatingPodWork && s.orphan:
		delete(w.states, uid)
		return true
	case j.phase == TerminatingPodWork:
		s.terminatedAt = now
		s.repeat()
	case r.outcome.Ended && !s.terminating():
		s.terminatingAt = now
		s.shorten(j.update.Pod, nil)
		s.repeat()
	default:
		w.queue.enqueue(uid, now.Add(w.config.Jitter(w.config.Resync)))
	}
	if s.pending != nil {
		s.poke()
	}
	return false
}

// endSync ends the context of the last sync.
func (s *state) endSync() {
	s.cancel()
	s.cancel = nil
}

// delay is how long a pod has to wait after an error: until the first container of it may be started again, if that is all
// that it waits for.
func (w *Workers) delay(err error, now time.Time) time.Duration {
	if errors.Is(err, container.ErrNetworkNotReady) {
		return transientBackOff
	}
	delay := backOff
	if b, ok := errors.AsType[*BackoffError](err); ok {
		delay = b.Until.Sub(now)
	}
	return min(max(delay, 0), w.config.Resync)
}

// BackoffError says that nothing is wrong with a pod but that containers have to wait before they are started again.
type BackoffError struct {
	Until time.Time // the first of them
	Err   error
}

func (e *BackoffError) Error() string { return e.Err.Error() }

func (e *BackoffError) Unwrap() error { return e.Err }

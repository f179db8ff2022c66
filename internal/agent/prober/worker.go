package prober

import (
	"context"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/cleat-cni/cleat/internal/agent/container"
)

// tries is how often a probe is made that can't be made.
const tries = 3

// worker makes one probe of one container, whichever container of that name it is at the time.
type worker struct {
	m         *Manager
	key       key
	container *v1.Container
	probe     *v1.Probe
	pokes     chan struct{}
	stop      chan struct{}

	mu      sync.Mutex
	pod     *v1.Pod
	id      string // of the container whose results are kept
	stopped bool
	forget  bool // the results are not wanted any more

	// The rest is the worker's own.
	onHold bool
	seen   time.Time             // when it first saw this container run
	last   container.ProbeResult // of the last probes,
	inARow int                   // how many there were
}

func newWorker(m *Manager, id key, pod *v1.Pod, c *v1.Container) *worker {
	return &worker{m: m, key: id, container: c, probe: id.kind.probe(c), pod: pod, pokes: make(chan struct{}, 1), stop: make(chan struct{})}
}

// poke hands over the pod as it is now, and has the worker look at it.
func (w *worker) poke(pod *v1.Pod) {
	w.mu.Lock()
	w.pod = pod
	w.mu.Unlock()
	select {
	case w.pokes <- struct{}{}:
	default:
	}
}

// end ends the worker. It may be called again.
func (w *worker) end(forget bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.stopped {
		close(w.stop)
	}
	w.stopped = true
	if w.forget = w.forget || forget; w.forget {
		w.results().remove(w.id)
	}
}

func (w *worker) results() *results { return w.m.results[w.key.kind] }

// set notes a result and says so if it changed, unless nobody wants it any more.
func (w *worker) set(ctx context.Context, result container.ProbeResult) {
	w.mu.Lock()
	changed := !w.forget && w.results().note(w.id, result)
	update := container.ProbeUpdate{UID: w.key.uid, ContainerID: w.id, Result: result}
	w.mu.Unlock()
	if changed {
		w.results().send(ctx, update)
	}
}

// renew begins with another container: what is known is of the one before.
func (w *worker) renew(ctx context.Context, id string) {
	w.mu.Lock()
	w.results().remove(w.id)
	w.id = id
	w.mu.Unlock()
	w.onHold, w.inARow = false, 0
	w.set(ctx, w.key.kind.initial())
}

// run probes until the worker is stopped or there is nothing more to probe.
func (w *worker) run(ctx context.Context) {
	select {
	case <-w.stop: // before it began
		return
	default:
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-w.stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	period := time.Duration(w.probe.PeriodSeconds) * time.Second
	if time.Since(w.m.started) < period {
		first := time.NewTimer(w.m.cfg.Spread(period))
		defer first.Stop()
		select {
		case <-ctx.Done():
			return
		case <-first.C:
		}
	}
	tick := time.NewTicker(period)
	defer tick.Stop()
	for w.step(ctx) && w.await(ctx, tick, period) {
	}
}

// await waits until a probe is due; false is the end.
func (w *worker) await(ctx context.Context, tick *time.Ticker, period time.Duration) bool {
	for {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
			return true
		case <-w.pokes:
			if w.eager() {
				tick.Reset(period)
				return true
			}
		}
	}
}

// eager reports whether to probe out of turn: a container that isn't ready may be so now, and a new one has not been probed. Not a probe
// whose failures count against the container: it has its number of tries over so many periods.
func (w *worker) eager() bool {
	if w.key.kind == readiness && w.results().get(w.id) != container.ProbeSuccess {
		return true
	}
	status, ok := w.m.cfg.Status.GetPodStatus(w.key.uid)
	if !ok {
		return false
	}
	c := find(status, w.key.name)
	return c != nil && c.ContainerID != w.id
}

func find(status v1.PodStatus, name string) *v1.ContainerStatus {
	for _, list := range [][]v1.ContainerStatus{status.ContainerStatuses, status.InitContainerStatuses} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}

// step looks at the container and probes it if it is time for that. It reports whether to go on.
func (w *worker) step(ctx context.Context) bool {
	w.mu.Lock()
	pod := w.pod
	w.mu.Unlock()
	status, ok := w.m.cfg.Status.GetPodStatus(w.key.uid)
	if !ok {
		return true
	}
	if status.Phase == v1.PodFailed || status.Phase == v1.PodSucceeded {
		return false
	}
	c := find(status, w.key.name)
	if c == nil || c.ContainerID == "" {
		return true
	}
	if c.ContainerID != w.id {
		w.renew(ctx, c.ContainerID)
		w.seen = time.Time{}
	}
	if w.seen.IsZero() && c.State.Running != nil {
		w.seen = time.Now()
	}
	if w.onHold {
		return true
	}
	if c.State.Running == nil {
		w.set(ctx, container.ProbeFailure)
		return c.State.Terminated == nil || w.restarts(pod)
	}
	if pod.DeletionTimestamp != nil && w.key.kind != readiness {
		w.set(ctx, container.ProbeSuccess) // it is being stopped, and must not be killed for how it is meanwhile
		return false
	}
	// A clock that was set back makes no delay longer.
	if max(time.Since(c.State.Running.StartedAt.Time), time.Since(w.seen)) < time.Duration(w.probe.InitialDelaySeconds)*time.Second {
		return true
	}
	if started := c.Started != nil && *c.Started; started == (w.key.kind == startup) {
		return true
	}
	result, ok := w.ask(ctx, pod, status)
	if ctx.Err() != nil {
		return false
	}
	if ok {
		w.conclude(ctx, result)
	}
	return true
}

// restarts reports whether there is another container after this one.
func (w *worker) restarts(pod *v1.Pod) bool {
	return pod.Spec.RestartPolicy != v1.RestartPolicyNever || w.container.RestartPolicy != nil
}

// conclude counts a result, and publishes it once it came often enough in a row.
func (w *worker) conclude(ctx context.Context, result container.ProbeResult) {
	if result != w.last {
		w.last, w.inARow = result, 0
	}
	w.inARow++
	need := w.probe.SuccessThreshold
	if result == container.ProbeFailure {
		need = w.probe.FailureThreshold
	}
	if w.inARow < int(need) {
		return
	}
	w.set(ctx, result)
	// The container is killed, or its startup is over: more of the same would tell of a container that is on its way out.
	if w.key.kind == startup || w.key.kind == liveness && result == container.ProbeFailure {
		w.onHold, w.inARow = true, 0
	}
}

// ask makes the probe, again if it could not be made, and reports whether it came to a result. It records a failure as an event.
func (w *worker) ask(ctx context.Context, pod *v1.Pod, status v1.PodStatus) (container.ProbeResult, bool) {
	timeout := time.Duration(w.probe.TimeoutSeconds) * time.Second
	var a answer
	var err error
	for range tries {
		attempt, cancel := context.WithTimeout(ctx, timeout)
		a, err = w.m.attempt(attempt, target{probe: w.probe, container: w.container, id: w.id, ip: status.PodIP})
		if cancel(); err == nil || ctx.Err() != nil {
			break
		}
	}
	if ctx.Err() != nil {
		return container.ProbeUnknown, false
	}
	name, kind := fmt.Sprintf("%s probe of container %s", w.key.kind, w.key.name), w.key.kind.String()
	switch {
	case err != nil:
		w.m.cfg.Probed(kind, "unknown")
		w.m.cfg.Recorder.Event(pod, v1.EventTypeWarning, "ProbeError", fmt.Sprintf("%s could not be made: %v", name, err))
		return container.ProbeUnknown, false
	case !a.ok:
		w.m.cfg.Probed(kind, "failed")
		w.m.cfg.Recorder.Event(pod, v1.EventTypeWarning, "Unhealthy", fmt.Sprintf("%s failed: %s", name, a.text))
		return container.ProbeFailure, true
	case a.warning:
		w.m.cfg.Recorder.Event(pod, v1.EventTypeWarning, "ProbeWarning", fmt.Sprintf("%s: %s", name, a.text))
	}
	w.m.cfg.Probed(kind, "successful")
	return container.ProbeSuccess, true
}

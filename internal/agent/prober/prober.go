// Package prober asks containers how they are: one worker for each liveness, readiness and startup probe of a container, by a command
// in the container, an HTTP request, a TCP connection or gRPC's health protocol, the last three from the network of the host to the pod's
// address. What the probes of a kind conclude is a [container.ProbeUpdate] on a channel when it changes, and [Manager.Probes] at any time.
//
// As with the kubelet, a new container is not ready, is alive, and is not known to have started; until it has, only its startup
// probe runs. After a liveness probe failed or a startup probe came to a conclusion the worker rests until there is another container. A probe
// that could not be made (and not one that failed) says nothing.
package prober

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cleat-cni/cleat/internal/agent/container"
	"github.com/cleat-cni/cleat/internal/agent/decide"
)

type statusManager interface {
	GetPodStatus(uid types.UID) (v1.PodStatus, bool)
}

type runtime interface {
	Exec(ctx context.Context, id string, command []string) (output []byte, exit int, err error)
}

type recorder interface {
	Event(pod *v1.Pod, eventType, reason, message string)
}

// Config configures a [Manager].
type Config struct {
	Status   statusManager             // required
	Runtime  runtime                   // required
	Recorder recorder                  // required
	Probed   func(kind, result string) // told of each probe: successful, failed or unknown; default nobody
	Log      *slog.Logger              // default slog.Default()
	// Spread returns how long the first probe of a worker waits while the agent has only just started and makes them all at once;
	// default a random part of a second, or of the probe's period if that is less.
	Spread func(atMost time.Duration) time.Duration
}

// kind is the kind of a probe.
type kind int

const (
	liveness kind = iota
	readiness
	startup
)

// String returns the kind as events name it.
func (k kind) String() string { return [...]string{"Liveness", "Readiness", "Startup"}[k] }

func (k kind) probe(c *v1.Container) *v1.Probe {
	return [...]*v1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe}[k]
}

// initial is what is taken for true of a new container.
func (k kind) initial() container.ProbeResult {
	return [...]container.ProbeResult{container.ProbeSuccess, container.ProbeFailure, container.ProbeUnknown}[k]
}

// key names a worker.
type key struct {
	uid  types.UID
	name string // of the container
	kind kind
}

// Manager has the workers. Its methods may be called at the same time; workers run while [Manager.Run] does.
type Manager struct {
	cfg     Config
	clients clients
	started time.Time
	results [3]*results // by kind

	mu      sync.Mutex
	workers map[key]*worker // those that have ended by themselves too, so that they are not begun again
	fresh   []*worker       // to be started
	wake    chan struct{}
}

// New returns a manager without workers.
func New(cfg Config) *Manager {
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	if cfg.Probed == nil {
		cfg.Probed = func(_, _ string) {}
	}
	if cfg.Spread == nil {
		cfg.Spread = func(atMost time.Duration) time.Duration { return rand.N(min(atMost, time.Second)) }
	}
	return &Manager{cfg: cfg, clients: newClients(), started: time.Now(), results: [3]*results{newResults(), newResults(), newResults()},
		workers: map[key]*worker{}, wake: make(chan struct{}, 1)}
}

// Run runs the workers until ctx ends, and returns when all of them have ended.
func (m *Manager) Run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.wake:
		}
		m.mu.Lock()
		fresh := m.fresh
		m.fresh = nil
		m.mu.Unlock()
		for _, w := range fresh {
			wg.Go(func() { w.run(ctx) })
		}
	}
}

// Liveness returns the changes of what liveness probes conclude. All three channels must be read: a worker waits for that.
func (m *Manager) Liveness() <-chan container.ProbeUpdate { return m.results[liveness].updates }

// Readiness returns the changes of what readiness probes conclude.
func (m *Manager) Readiness() <-chan container.ProbeUpdate { return m.results[readiness].updates }

// Startup returns the changes of what startup probes conclude.
func (m *Manager) Startup() <-chan container.ProbeUpdate { return m.results[startup].updates }

// Probes returns what the probes of a container concluded.
func (m *Manager) Probes(containerID string) decide.Probe {
	return decide.Probe{Liveness: m.results[liveness].get(containerID), Readiness: m.results[readiness].get(containerID),
		Startup: m.results[startup].get(containerID)}
}

// AddPod sees to it that each probe of a pod has a worker, and one that the pod now has otherwise a new one. It is called whenever a pod is
// looked at: containers that are not ready, and those that are new, are then probed at once.
func (m *Manager) AddPod(pod *v1.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	wanted := map[key]bool{}
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			for k := liveness; k <= startup; k++ {
				if k.probe(&list[i]) == nil {
					continue
				}
				id := key{pod.UID, list[i].Name, k}
				wanted[id] = true
				m.ensure(id, pod, &list[i])
			}
		}
	}
	for id := range m.workers {
		if id.uid == pod.UID && !wanted[id] {
			m.remove(id)
		}
	}
}

// ensure makes a worker, or tells the one that is there of the pod.
func (m *Manager) ensure(id key, pod *v1.Pod, c *v1.Container) {
	if w := m.workers[id]; w != nil {
		if equality.Semantic.DeepEqual(id.kind.probe(w.container), id.kind.probe(c)) {
			w.poke(pod)
			return
		}
		m.remove(id)
	}
	w := newWorker(m, id, pod, c)
	m.workers[id] = w
	m.fresh = append(m.fresh, w)
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// remove ends a worker and forgets what it concluded.
func (m *Manager) remove(id key) {
	m.workers[id].end(true)
	delete(m.workers, id)
}

// StopLivenessAndStartup ends these probes of a pod that is being stopped, and keeps what they concluded. It may be ready still, and is probed
// for that.
func (m *Manager) StopLivenessAndStartup(pod *v1.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, w := range m.workers {
		if id.uid == pod.UID && id.kind != readiness {
			w.end(false)
		}
	}
}

// RemovePod ends all probes of a pod and forgets what they concluded.
func (m *Manager) RemovePod(pod *v1.Pod) {
	m.removeIf(func(uid types.UID) bool { return uid == pod.UID })
}

// CleanupPods does so for all pods but those of a set.
func (m *Manager) CleanupPods(desired map[types.UID]bool) {
	m.removeIf(func(uid types.UID) bool { return !desired[uid] })
}

func (m *Manager) removeIf(gone func(types.UID) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id := range m.workers {
		if gone(id.uid) {
			m.remove(id)
		}
	}
}

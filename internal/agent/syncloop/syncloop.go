// Package syncloop is the loop of the node agent: it brings what the sources want, what the runtime says, what probes conclude and what
// the clock says to the workers of the pods. The loop itself works on no pod, and takes one event a turn.
//
// Names and order are those of the kubelet's syncLoop, syncLoopIteration and HandlePod… in pkg/kubelet/kubelet.go, so that who knows those
// finds the way. [Config] takes what is different from node to node, the sources and the runtime; [New] puts the other parts together.
//
// While the runtime does not answer, or has not been listed for too long, the loop stands still. A network that is not ready does not stop
// it: pods that need a sandbox with a network wait, and nothing else. Until every source has reported, no pod is deleted and nothing is
// cleaned up.
package syncloop

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cleat-cni/cleat/internal/agent/config"
	"github.com/cleat-cni/cleat/internal/agent/container"
	"github.com/cleat-cni/cleat/internal/agent/gc"
	"github.com/cleat-cni/cleat/internal/agent/pleg"
	"github.com/cleat-cni/cleat/internal/agent/podworkers"
	"github.com/cleat-cni/cleat/internal/agent/prober"
	"github.com/cleat-cni/cleat/internal/agent/status"
)

// Runtime is all that the agent needs of a runtime.
type Runtime interface {
	podworkers.Runtime
	gc.Runtime
}

type sources interface {
	Updates() <-chan config.PodUpdate
	AddSource(source string)
	AllReady() bool
}

// Meter counts what the loop's parts do. It is called by several goroutines.
type Meter interface {
	Relisted(took, since time.Duration)     // what runs was listed
	Discarded()                             // an event of the PLEG was dropped
	Worked(what string, took time.Duration) // a worker made a step
	Probed(kind, result string)             // a probe was made
}

// nobody counts nothing.
type nobody struct{}

func (nobody) Relisted(_, _ time.Duration)  {}
func (nobody) Discarded()                   {}
func (nobody) Worked(string, time.Duration) {}
func (nobody) Probed(_, _ string)           {}

// Config configures a [Loop].
type Config struct {
	Sources     sources          // required, for instance a [config.Mux]
	Runtime     Runtime          // required
	Recorder    *status.Recorder // required
	HostIPs     []netip.Addr     // of the node, the first is the one that pods are told; default none
	Allocatable v1.ResourceList  // of the node: what a container without a limit is told; default none
	Meter       Meter            // default nobody
	Log         *slog.Logger     // default slog.Default()
}

// The beats of the loop, the kubelet's.
const (
	syncPeriod         = time.Second
	housekeepingPeriod = 2 * time.Second
	housekeepingWarn   = time.Second
	baseWait           = 100 * time.Millisecond // while there are runtime errors, doubled each time
	maxWait            = 5 * time.Second
	loopThreshold      = 5 * time.Minute // of the age of the last turn
)

// Loop is the agent's loop with all its parts. Make one with [New] and Run it.
type Loop struct {
	config    Config
	log       *slog.Logger
	state     runtimeState
	pods      podManager
	pleg      *pleg.Generic
	workers   *podworkers.Workers
	prober    *prober.Manager
	status    *status.Manager
	collector *gc.Collector

	leaving map[types.UID]bool // pods of the runtime that no worker knew at the last housekeeping; the loop's own

	kick    chan struct{} // something is due before the next beat
	tidy    chan struct{} // housekeeping has something to do before the next beat
	poll    chan struct{} // the runtime's condition may have changed
	monitor atomic.Pointer[time.Time]
}

// New puts the parts together.
func New(c Config) *Loop {
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Meter == nil {
		c.Meter = nobody{}
	}
	l := &Loop{config: c, log: c.Log, kick: make(chan struct{}, 1), tidy: make(chan struct{}, 1), poll: make(chan struct{}, 1)}
	l.pleg = pleg.New(pleg.Config{Runtime: c.Runtime, Relisted: c.Meter.Relisted, Discarded: c.Meter.Discarded, Log: c.Log})
	l.status = status.NewManager(c.Log)
	l.prober = prober.New(prober.Config{Status: l.status, Runtime: c.Runtime, Recorder: c.Recorder, Probed: c.Meter.Probed, Log: c.Log})
	l.workers = podworkers.New(podworkers.Config{
		Cache: l.pleg.Cache(), Relist: l.pleg.RequestRelist, Again: func() { notify(l.tidy) }, Worked: c.Meter.Worked, Log: c.Log,
		Syncer: podworkers.NewSyncer(podworkers.SyncerConfig{
			Runtime: c.Runtime, Status: l.status, Recorder: c.Recorder, Prober: l.prober, Probes: l.prober.Probes, Network: l.state.networkErrors,
			HostIPs: c.HostIPs, Allocatable: c.Allocatable, Log: c.Log,
		}),
	})
	l.collector = gc.New(gc.Config{Runtime: c.Runtime, Removed: l.workers.ShouldPodContentBeRemoved, Forgotten: func() { notify(l.tidy) }, Log: c.Log})
	return l
}

// Run runs the agent until the context ends or the sources do. What runs in the runtime goes on without it. It returns when nothing of
// the agent works any more.
func (l *Loop) Run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	var parts sync.WaitGroup
	for _, run := range []func(context.Context){l.pleg.Run, l.prober.Run, l.collector.Run, l.watchRuntime} {
		parts.Go(func() { run(ctx) })
	}
	l.syncLoop(ctx)
	cancel()
	l.workers.Wait()
	parts.Wait()
}

// channels are what an iteration takes its event from.
type channels struct {
	config       <-chan config.PodUpdate
	pleg         <-chan *pleg.Event
	sync         <-chan time.Time
	housekeeping <-chan time.Time
}

func (l *Loop) syncLoop(ctx context.Context) {
	syncTicker, housekeepingTicker := time.NewTicker(syncPeriod), time.NewTicker(housekeepingPeriod)
	defer syncTicker.Stop()
	defer housekeepingTicker.Stop()
	c := channels{l.config.Sources.Updates(), l.pleg.Events(), syncTicker.C, housekeepingTicker.C}
	wait := baseWait
	for ctx.Err() == nil {
		if err := l.runtimeErrors(); err != nil {
			l.log.Warn("skip pod synchronization", "error", err)
			l.stand(ctx, wait)
			wait = min(2*wait, maxWait)
			continue
		}
		wait = baseWait
		l.turned()
		if !l.syncLoopIteration(ctx, c) {
			return
		}
		l.turned()
	}
}

// stand waits, or until there is news of the runtime.
func (l *Loop) stand(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.kick:
	case <-ctx.Done():
	}
}

func (l *Loop) turned() {
	now := time.Now()
	l.monitor.Store(&now)
}

// syncLoopIteration takes one event and hands it on. It returns false when there will be no more.
func (l *Loop) syncLoopIteration(ctx context.Context, c channels) bool {
	select {
	case <-ctx.Done():
		return false
	case u, open := <-c.config:
		if !open {
			return false
		}
		l.handleUpdate(ctx, u)
	case e := <-c.pleg:
		if e.Type != pleg.ContainerRemoved {
			l.syncPod(ctx, e.ID)
		}
		if e.Type == pleg.ContainerDied {
			l.collector.ContainerDied(e.ID)
		}
	case <-c.sync:
		l.syncDue(ctx)
	case <-l.kick:
		l.syncDue(ctx)
	case u := <-l.prober.Liveness():
		if u.Result == container.ProbeFailure {
			l.syncPod(ctx, u.UID)
		}
	case u := <-l.prober.Readiness():
		l.status.SetContainerReadiness(u.UID, u.ContainerID, u.Result == container.ProbeSuccess)
		l.syncPod(ctx, u.UID)
	case u := <-l.prober.Startup():
		l.status.SetContainerStartup(u.UID, u.ContainerID, u.Result == container.ProbeSuccess)
		l.syncPod(ctx, u.UID)
	case <-c.housekeeping:
		l.housekeeping(ctx)
	case <-l.tidy:
		l.housekeeping(ctx)
	}
	return true
}

func (l *Loop) handleUpdate(ctx context.Context, u config.PodUpdate) {
	for _, pod := range u.Pods {
		l.log.Info("SyncLoop", "op", u.Op, "source", u.Source, "pod", fullName(pod), "uid", pod.UID)
	}
	switch u.Op {
	case config.ADD:
		l.HandlePodAdditions(ctx, u.Pods)
	case config.UPDATE, config.DELETE: // a deletion is told by the pod's timestamp
		l.HandlePodUpdates(ctx, u.Pods)
	case config.REMOVE:
		l.HandlePodRemoves(ctx, u.Pods)
	case config.RECONCILE:
		l.HandlePodReconcile(ctx, u.Pods)
	default:
		l.log.Error("ignore update of a kind that the loop does not take", "op", u.Op, "source", u.Source)
	}
	l.config.Sources.AddSource(u.Source)
}

// syncPod has a pod looked at that a source has.
func (l *Loop) syncPod(ctx context.Context, uid types.UID) {
	if pod, ok := l.pods.GetPodByUID(uid); ok {
		l.HandlePodSyncs(ctx, []*v1.Pod{pod})
	}
}

// syncDue has the pods looked at whose time has come.
func (l *Loop) syncDue(ctx context.Context) {
	for _, uid := range l.workers.Due() {
		l.syncPod(ctx, uid)
	}
}

func (l *Loop) housekeeping(ctx context.Context) {
	if !l.config.Sources.AllReady() {
		l.log.Debug("skip housekeeping: not every source has reported")
		return
	}
	began := time.Now()
	if err := l.HandlePodCleanups(ctx); err != nil {
		l.log.Error("clean up pods", "error", err)
	}
	if took := time.Since(began); took > housekeepingWarn {
		l.log.Warn("housekeeping took too long", "took", took, "expected", housekeepingWarn)
	}
	l.collector.SourcesReady()
}

// PodChanged tells that something of a pod has changed in the runtime. It is a hint, and does not wait.
func (l *Loop) PodChanged(uid types.UID) { l.pleg.RequestRelist(uid) }

// RuntimeChanged tells that the runtime or the network may have become ready, or not so. It is a hint, and does not wait.
func (l *Loop) RuntimeChanged() { notify(l.poll) }

func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Healthy returns an error if the loop stands still or the runtime cannot be listed: a new start may help.
func (l *Loop) Healthy() error {
	var stands error
	if last := l.monitor.Load(); last != nil {
		if age := time.Since(*last); age > loopThreshold {
			stands = fmt.Errorf("the sync loop has taken no turn for %v; threshold is %v", age, loopThreshold)
		}
	}
	return errors.Join(stands, l.pleg.Healthy())
}

// Ready returns why new pods would not be started, or nil.
func (l *Loop) Ready() error {
	var waiting error
	if !l.config.Sources.AllReady() {
		waiting = errors.New("not every source of pods has reported")
	}
	return errors.Join(l.runtimeErrors(), l.state.networkErrors(), waiting)
}

// Status returns the manager of the pods' statuses.
func (l *Loop) Status() *status.Manager { return l.status }

// Pods returns the pods that the sources have, with their statuses, by namespace and name. They are the caller's own.
func (l *Loop) Pods() []*v1.Pod {
	list := l.pods.GetPods()
	for i, pod := range list {
		list[i] = l.withStatus(pod)
	}
	return list
}

// Leaving returns the pods that no source has any more and that have not ended yet, with their statuses, by namespace and name. When they were
// told to end is the time of their deletion. They are the caller's own.
func (l *Loop) Leaving() []*v1.Pod {
	var list []*v1.Pod
	for _, pod := range l.status.Pods() {
		since, ok := l.workers.TerminatingSince(pod.UID)
		if _, wanted := l.pods.GetPodByUID(pod.UID); wanted || !ok {
			continue
		}
		pod = l.withStatus(pod)
		pod.DeletionTimestamp = &metav1.Time{Time: since}
		list = append(list, pod)
	}
	slices.SortFunc(list, compareNames)
	return list
}

// withStatus returns a copy of a pod that has its status.
func (l *Loop) withStatus(pod *v1.Pod) *v1.Pod {
	pod = pod.DeepCopy()
	if s, ok := l.status.GetPodStatus(pod.UID); ok {
		s.DeepCopyInto(&pod.Status)
	}
	return pod
}

package podworkers

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cleat-cni/cleat/internal/agent/container"
	"github.com/cleat-cni/cleat/internal/agent/decide"
	"github.com/cleat-cni/cleat/internal/agent/podhttp"
)

type statusManager interface {
	GetPodStatus(uid types.UID) (v1.PodStatus, bool)
	SetPodStatus(pod *v1.Pod, status v1.PodStatus)
	TerminatePod(pod *v1.Pod)
}

type recorder interface {
	Event(pod *v1.Pod, eventType, reason, message string)
}

type prober interface {
	AddPod(pod *v1.Pod)
	StopLivenessAndStartup(pod *v1.Pod)
	RemovePod(pod *v1.Pod)
}

// SyncerConfig configures a [Syncer].
type SyncerConfig struct {
	Runtime     Runtime                        // required
	Status      statusManager                  // required
	Recorder    recorder                       // required
	Prober      prober                         // required
	Probes      func(containerID string) Probe // required: what the probes of a container concluded
	Network     func() error                   // required: why the network is not ready, a [container.ErrNetworkNotReady], or nil
	HostIPs     []netip.Addr                   // of the node, the first is the one that pods are told; default none
	Allocatable v1.ResourceList                // of the node; default none
	Log         *slog.Logger                   // default slog.Default()
}

// Probe is what the probes of a container concluded.
type Probe = decide.Probe

// The deadlines of calls to the runtime, like the kubelet's. That of a sandbox leaves a runtime the time to undo an ADD that hangs.
const (
	createTimeout  = 4 * time.Minute
	requestTimeout = 2 * time.Minute
)

// Syncer does what [Workers] ask for. Make one with [NewSyncer].
type Syncer struct {
	config  SyncerConfig
	backoff decide.Backoff
	http    *http.Client // for hooks

	mu        sync.Mutex
	waiting   map[types.UID]map[string]v1.ContainerStateWaiting // why containers do not run: the last attempt's reason
	noSandbox map[types.UID]v1.ContainerStateWaiting            // why there is none
}

// NewSyncer makes a syncer.
func NewSyncer(c SyncerConfig) *Syncer {
	if c.Log == nil {
		c.Log = slog.Default()
	}
	return &Syncer{
		config:  c,
		waiting: map[types.UID]map[string]v1.ContainerStateWaiting{}, noSandbox: map[types.UID]v1.ContainerStateWaiting{},
		http: podhttp.NewClient(),
	}
}

// SyncPod takes a pod that is to run one step further. A network that is not ready holds back a pod that needs a sandbox with one, after
// the old sandbox was stopped; containers in a sandbox that is attached are restarted without it.
func (s *Syncer) SyncPod(ctx context.Context, pod *v1.Pod, status *container.PodStatus) (Outcome, error) {
	api := s.apiStatus(pod, status, false)
	s.config.Status.SetPodStatus(pod, api)
	if ended(&v1.Pod{Status: api}) {
		return Outcome{Ended: true}, nil
	}
	s.config.Prober.AddPod(pod)
	actions := decide.ComputePodActions(s.input(pod, status))
	if actions.Empty() {
		s.keepWaiting(pod.UID, nil)
		return Outcome{}, nil
	}
	err := s.act(ctx, pod, status, actions)
	if err != nil && ctx.Err() == nil {
		s.showWhy(ctx, pod)
	}
	return Outcome{Acted: true}, err
}

// showWhy sets the status anew after something went wrong: the pod may not be looked at again for minutes, and says until then why it waits.
func (s *Syncer) showWhy(ctx context.Context, pod *v1.Pod) {
	status, err := s.config.Runtime.PodStatus(ctx, pod.UID)
	if err != nil {
		s.config.Log.Warn("get status of pod, to show why it waits", "uid", pod.UID, "error", err)
		return
	}
	s.config.Status.SetPodStatus(pod, s.apiStatus(pod, status, false))
}

func (s *Syncer) input(pod *v1.Pod, status *container.PodStatus) decide.Input {
	in := decide.Input{Pod: pod, Status: status, Probes: map[string]decide.Probe{}}
	for _, c := range status.Containers {
		in.Probes[c.ID] = s.config.Probes(c.ID)
	}
	return in
}

// apiStatus makes the status that the API shows, as of now.
func (s *Syncer) apiStatus(pod *v1.Pod, status *container.PodStatus, ended bool) v1.PodStatus {
	last, _ := s.config.Status.GetPodStatus(pod.UID)
	s.mu.Lock()
	waiting, noSandbox := s.waiting[pod.UID], s.noSandbox[pod.UID]
	s.mu.Unlock()
	return decide.APIStatus(decide.StatusInput{
		Input: s.input(pod, status), Waiting: waiting, NoSandbox: noSandbox, Last: last, HostIPs: s.config.HostIPs, Ended: ended, Now: time.Now(),
	})
}

// keepWaiting keeps why containers of a pod do not run, nil for no reason.
func (s *Syncer) keepWaiting(uid types.UID, waiting map[string]v1.ContainerStateWaiting) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(waiting) == 0 {
		delete(s.waiting, uid)
		return
	}
	s.waiting[uid] = waiting
}

// keepNoSandbox keeps why a pod has no sandbox; an empty reason is that it has one.
func (s *Syncer) keepNoSandbox(uid types.UID, reason string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if reason == "" {
		delete(s.noSandbox, uid)
		return
	}
	s.noSandbox[uid] = v1.ContainerStateWaiting{Reason: reason, Message: err.Error()}
}

// SyncTerminatingPod stops a pod: its containers, with the grace period, and then its sandboxes. It succeeds once the runtime says that
// nothing of it runs.
func (s *Syncer) SyncTerminatingPod(ctx context.Context, pod *v1.Pod, status *container.PodStatus, grace time.Duration) error {
	s.config.Status.SetPodStatus(pod, s.apiStatus(pod, status, false))
	s.config.Prober.StopLivenessAndStartup(pod)
	if err := s.killPod(ctx, pod, status, &grace); err != nil {
		return err
	}
	s.config.Prober.RemovePod(pod)
	after, err := s.stopped(ctx, pod.UID)
	if err != nil {
		return err
	}
	if len(after.IPs) == 0 {
		after.IPs = status.IPs
	}
	s.config.Status.SetPodStatus(pod, s.apiStatus(pod, after, true))
	return nil
}

// SyncTerminatingRuntimePod stops a pod of which the runtime alone knows, and whose hooks therefore nobody knows.
func (s *Syncer) SyncTerminatingRuntimePod(ctx context.Context, running *container.Pod) error {
	s.config.Log.Info("stop pod that no source has", "uid", running.UID, "namespace", running.Namespace, "name", running.Name)
	status, err := s.config.Runtime.PodStatus(ctx, running.UID)
	if err != nil {
		return fmt.Errorf("get status of pod %s: %w", running.UID, err)
	}
	grace := orphanGrace * time.Second
	if err := s.killPod(ctx, nil, status, &grace); err != nil {
		return err
	}
	_, err = s.stopped(ctx, running.UID)
	return err
}

// stopped asks the runtime for a pod that was stopped, and returns an error if it runs all the same.
func (s *Syncer) stopped(ctx context.Context, uid types.UID) (*container.PodStatus, error) {
	status, err := s.config.Runtime.PodStatus(ctx, uid)
	if err != nil {
		return nil, fmt.Errorf("get status of pod %s after it was stopped: %w", uid, err)
	}
	var left []string
	for _, c := range status.Containers {
		if c.State == container.StateRunning {
			left = append(left, "container "+c.Name)
		}
	}
	for _, sandbox := range status.Sandboxes {
		if sandbox.State == container.StateRunning {
			left = append(left, "sandbox "+sandbox.ID)
		}
	}
	if len(left) > 0 {
		return nil, fmt.Errorf("stop pod %s: the runtime says that it was stopped, and that it runs: %s", uid, strings.Join(left, ", "))
	}
	return status, nil
}

// SyncTerminatedPod gives a pod that was stopped its last status.
func (s *Syncer) SyncTerminatedPod(_ context.Context, pod *v1.Pod, status *container.PodStatus) error {
	s.config.Status.SetPodStatus(pod, s.apiStatus(pod, status, true))
	s.config.Status.TerminatePod(pod)
	s.keepWaiting(pod.UID, nil)
	s.keepNoSandbox(pod.UID, "", nil)
	s.backoff.Collect(time.Now())
	return nil
}

// Package status holds how each pod stands, as the API shows it, and what happened to it.
//
// The [Manager] is where the parts of the agent read a pod's status and write it: a status only moves forward, whoever writes it. The phase
// does not leave Succeeded or Failed, and a container that ended does not run again unless the restart policy says so. The [Recorder] keeps
// the last events. Both are memory only: after a start the statuses are made anew from the runtime.
package status

import (
	"fmt"
	"log/slog"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cleat-cni/cleat/internal/agent/container"
	"github.com/cleat-cni/cleat/internal/agent/decide"
)

// Manager holds the statuses. Its methods may be called at the same time.
type Manager struct {
	log *slog.Logger

	mu      sync.Mutex
	pods    map[types.UID]*entry
	version uint64
	changed chan struct{} // closed at the next change
}

// entry is the status of a pod. The status is never written to once it is here: readers have it.
type entry struct {
	pod     *v1.Pod
	status  v1.PodStatus
	version uint64 // of the manager when it changed last
}

// NewManager returns a manager without pods. Without a logger it uses slog.Default().
func NewManager(log *slog.Logger) *Manager {
	if log == nil {
		log = slog.Default()
	}
	return &Manager{log: log, pods: map[types.UID]*entry{}, changed: make(chan struct{})}
}

// GetPodStatus returns the status of a pod, if there is one. It must not be changed.
func (m *Manager) GetPodStatus(uid types.UID) (v1.PodStatus, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.pods[uid]
	if !ok {
		return v1.PodStatus{}, false
	}
	return e.status, true
}

// Pods returns the pods of which there is a status. They must not be changed.
func (m *Manager) Pods() []*v1.Pod {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := make([]*v1.Pod, 0, len(m.pods))
	for _, e := range m.pods {
		list = append(list, e.pod)
	}
	return list
}

// Changes returns how often a status has changed, and a channel that is closed when one changes again.
func (m *Manager) Changes() (version uint64, changed <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.version, m.changed
}

// Version returns what [Manager.Changes] said when the status of a pod changed last; 0 if there is none.
func (m *Manager) Version(uid types.UID) uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e, ok := m.pods[uid]; ok {
		return e.version
	}
	return 0
}

// SetPodStatus replaces the status of a pod. One that would take a container back from its end is left out, and logged, since it was
// made from what is no longer true.
func (m *Manager) SetPodStatus(pod *v1.Pod, status v1.PodStatus) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.set(pod, *status.DeepCopy())
}

// set stores a status that is the manager's own.
func (m *Manager) set(pod *v1.Pod, status v1.PodStatus) {
	e, ok := m.pods[pod.UID]
	if !ok {
		e = &entry{}
		m.pods[pod.UID] = e
	}
	if ok {
		if err := regress(pod, e.status, status); err != nil {
			m.log.Error("a status is left out", "pod", pod.Namespace+"/"+pod.Name, "uid", pod.UID, "error", err)
			return
		}
		if ended(e.status.Phase) && status.Phase != e.status.Phase {
			m.log.Warn("a pod that ended keeps its phase", "pod", pod.Namespace+"/"+pod.Name, "uid", pod.UID, "phase", e.status.Phase, "not", status.Phase)
			status.Phase = e.status.Phase
		}
	}
	e.pod = pod
	if ok && equality.Semantic.DeepEqual(e.status, status) {
		return
	}
	e.status = status
	m.bump(e)
}

// bump notes a change; e is nil if an entry is gone.
func (m *Manager) bump(e *entry) {
	m.version++
	if e != nil {
		e.version = m.version
	}
	close(m.changed)
	m.changed = make(chan struct{})
}

func ended(p v1.PodPhase) bool { return p == v1.PodSucceeded || p == v1.PodFailed }

// regress says what container would run again after its end, although it must not. Init containers may: a new sandbox runs all of them
// again, whatever they did in the one before.
func regress(pod *v1.Pod, old, status v1.PodStatus) error {
	if pod.Spec.RestartPolicy == v1.RestartPolicyAlways {
		return nil
	}
	for _, was := range old.ContainerStatuses {
		end := was.State.Terminated
		if end == nil || pod.Spec.RestartPolicy == v1.RestartPolicyOnFailure && end.ExitCode != 0 {
			continue
		}
		if now := find(status.ContainerStatuses, was.Name); now != nil && now.State.Terminated == nil {
			return fmt.Errorf("container %s ended with code %d and the restart policy is %s: it can't run again", was.Name, end.ExitCode, pod.Spec.RestartPolicy)
		}
	}
	return nil
}

func find(list []v1.ContainerStatus, name string) *v1.ContainerStatus {
	for i := range list {
		if list[i].Name == name {
			return &list[i]
		}
	}
	return nil
}

// SetContainerReadiness notes what the readiness probe of a container says, and what that means for the pod.
func (m *Manager) SetContainerReadiness(uid types.UID, containerID string, ready bool) {
	m.container(uid, containerID, func(s *v1.ContainerStatus) { s.Ready = ready })
}

// SetContainerStartup notes what the startup probe of a container says.
func (m *Manager) SetContainerStartup(uid types.UID, containerID string, started bool) {
	m.container(uid, containerID, func(s *v1.ContainerStatus) { s.Started = &started })
}

// container changes the status of a container. One that isn't there, or no longer, is nothing: the probe was of another one.
func (m *Manager) container(uid types.UID, id string, change func(*v1.ContainerStatus)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.pods[uid]
	if !ok {
		return
	}
	status := *e.status.DeepCopy()
	for _, list := range [][]v1.ContainerStatus{status.ContainerStatuses, status.InitContainerStatuses} {
		for i := range list {
			if list[i].ContainerID == id && id != "" {
				change(&list[i])
				decide.SetReadiness(e.pod, &status, time.Now())
				m.set(e.pod, status)
				return
			}
		}
	}
}

// TerminatePod makes the status of a pod its last, once nothing of it runs. A container that was started, or must have been, and of whose end
// nothing is known, counts as killed; a pod that hasn't ended otherwise has failed.
func (m *Manager) TerminatePod(pod *v1.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var status v1.PodStatus
	if e, ok := m.pods[pod.UID]; ok {
		status = *e.status.DeepCopy()
	}
	reached := started(status.ContainerStatuses)
	if reached > 0 || initialized(status) {
		reached = len(status.ContainerStatuses)
		end(status.InitContainerStatuses)
	} else {
		end(status.InitContainerStatuses[:started(status.InitContainerStatuses)])
	}
	end(status.ContainerStatuses[:reached])
	if !ended(status.Phase) {
		status.Phase = v1.PodFailed
	}
	decide.SetReadiness(pod, &status, time.Now())
	m.set(pod, status)
}

func initialized(status v1.PodStatus) bool {
	for _, c := range status.Conditions {
		if c.Type == v1.PodInitialized {
			return c.Status == v1.ConditionTrue
		}
	}
	return false
}

// started returns how many containers there are up to the last that was ever started.
func started(list []v1.ContainerStatus) int {
	for i := len(list) - 1; i >= 0; i-- {
		s := &list[i]
		if s.State.Running != nil || s.State.Terminated != nil || s.LastTerminationState.Terminated != nil || s.RestartCount > 0 {
			return i + 1
		}
	}
	return 0
}

// end ends the containers that have not ended.
func end(list []v1.ContainerStatus) {
	for i := range list {
		s := &list[i]
		if s.State.Terminated != nil {
			continue
		}
		s.State = v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: 137, Reason: container.ReasonStatusUnknown,
			Message: "the container was not found when the pod was terminated; how it ended is not known", ContainerID: s.ContainerID}}
		s.Ready, s.Started = false, new(false)
	}
}

// RemovePodStatus forgets a pod. One whose UID comes again, as that of a manifest with a UID may, begins anew.
func (m *Manager) RemovePodStatus(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.remove(uid)
}

func (m *Manager) remove(uid types.UID) {
	if _, ok := m.pods[uid]; ok {
		delete(m.pods, uid)
		m.bump(nil)
	}
}

// RemoveOrphanedStatuses forgets all pods but those of a set.
func (m *Manager) RemoveOrphanedStatuses(desired map[types.UID]bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for uid := range m.pods {
		if !desired[uid] {
			m.remove(uid)
		}
	}
}

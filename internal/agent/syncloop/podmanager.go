package syncloop

import (
	"maps"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// podManager is what the sources want: their pods by UID. Who wants to know what runs asks the workers. The zero value has no pods. What it
// holds is shared: nobody may change it.
type podManager struct {
	mu   sync.Mutex
	pods map[types.UID]*v1.Pod
}

// AddPod takes a pod.
func (m *podManager) AddPod(pod *v1.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.pods == nil {
		m.pods = map[types.UID]*v1.Pod{}
	}
	m.pods[pod.UID] = pod
}

// UpdatePod takes a pod in place of the one of its UID.
func (m *podManager) UpdatePod(pod *v1.Pod) { m.AddPod(pod) }

// RemovePod forgets a pod.
func (m *podManager) RemovePod(pod *v1.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.pods, pod.UID)
}

// GetPodByUID returns a pod, if a source has it.
func (m *podManager) GetPodByUID(uid types.UID) (*v1.Pod, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	pod, ok := m.pods[uid]
	return pod, ok
}

// GetPods returns all pods, by namespace and name.
func (m *podManager) GetPods() []*v1.Pod {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.SortedFunc(maps.Values(m.pods), compareNames)
}

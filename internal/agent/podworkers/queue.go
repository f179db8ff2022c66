package podworkers

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// queue is when which pod is due. The zero value is empty. A pod that is enqueued again is due at the new time.
type queue struct {
	mu    sync.Mutex
	times map[types.UID]time.Time
}

func (q *queue) enqueue(uid types.UID, at time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.times == nil {
		q.times = map[types.UID]time.Time{}
	}
	q.times[uid] = at
}

// due takes the pods whose time has come, in the order of their UIDs.
func (q *queue) due(now time.Time) []types.UID {
	q.mu.Lock()
	defer q.mu.Unlock()
	var list []types.UID
	for uid, at := range q.times {
		if !at.After(now) {
			list = append(list, uid)
			delete(q.times, uid)
		}
	}
	slices.Sort(list)
	return list
}

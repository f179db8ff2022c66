package status

import (
	"container/list"
	"log/slog"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// maxEvents is how many events are kept.
	maxEvents = 1000
	// maxAlike is how many of them a pod may have with one reason: a message that differs each time must not push out all others.
	maxAlike = 10
)

// Event is something that happened to a pod, once or again and again.
type Event struct {
	UID       types.UID `json:"uid"`
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	Type      string    `json:"type"`   // Normal or Warning
	Reason    string    `json:"reason"` // one word
	Message   string    `json:"message"`
	Count     int       `json:"count"`
	First     time.Time `json:"firstTimestamp"`
	Last      time.Time `json:"lastTimestamp"`
}

// Recorder keeps the last 1,000 events. Its methods may be called at the same time.
type Recorder struct {
	log *slog.Logger

	mu    sync.Mutex
	order *list.List // of *Event, the one that happened last at the end
	known map[eventKey]*list.Element
	alike map[alikeKey]int
	news  chan struct{} // closed when there is another event
}

// alikeKey is what events of a pod with the same reason have in common.
type alikeKey struct {
	uid               types.UID
	name              string // for pods that have no UID in common
	eventType, reason string
}

type eventKey struct {
	alikeKey
	message string
}

// NewRecorder returns a recorder without events, which logs each event when it happens for the first time. Without a logger it uses
// slog.Default().
func NewRecorder(log *slog.Logger) *Recorder {
	if log == nil {
		log = slog.Default()
	}
	return &Recorder{log: log, order: list.New(), known: map[eventKey]*list.Element{}, alike: map[alikeKey]int{}, news: make(chan struct{})}
}

// Event records that something happened to a pod. The type is v1.EventTypeNormal or v1.EventTypeWarning.
func (r *Recorder) Event(pod *v1.Pod, eventType, reason, message string) {
	if first := r.record(pod, eventType, reason, message); !first {
		return
	}
	log := r.log.Info
	if eventType == v1.EventTypeWarning {
		log = r.log.Warn
	}
	log(message, "event", reason, "pod", pod.Namespace+"/"+pod.Name, "uid", pod.UID)
}

// record reports whether the event is a new one.
func (r *Recorder) record(pod *v1.Pod, eventType, reason, message string) bool {
	now := time.Now()
	alike := alikeKey{pod.UID, pod.Namespace + "/" + pod.Name, eventType, reason}
	key := eventKey{alike, message}
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.tell()
	if e, ok := r.known[key]; ok {
		event := e.Value.(*Event)
		event.Count++
		event.Last = now
		r.order.MoveToBack(e)
		return false
	}
	r.add(key, &Event{UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name, Type: eventType, Reason: reason,
		Message: message, Count: 1, First: now, Last: now})
	return true
}

// add adds an event that is a new one, in the place of an older one if there are too many.
func (r *Recorder) add(key eventKey, event *Event) {
	alike := key.alikeKey
	if r.alike[alike] >= maxAlike {
		for e := r.order.Front(); e != nil; e = e.Next() {
			if keyOf(e).alikeKey == alike {
				r.drop(e)
				break
			}
		}
	}
	if r.order.Len() >= maxEvents {
		r.drop(r.order.Front())
	}
	r.known[key] = r.order.PushBack(event)
	r.alike[alike]++
}

// tell wakes who waits for another event.
func (r *Recorder) tell() {
	close(r.news)
	r.news = make(chan struct{})
}

// News returns a channel that is closed when there is another event, or one happens again.
func (r *Recorder) News() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.news
}

// Restore adds events that another Recorder had, before anything else happens.
func (r *Recorder) Restore(events []Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range events {
		key := eventKey{alikeKey{e.UID, e.Namespace + "/" + e.Name, e.Type, e.Reason}, e.Message}
		if _, ok := r.known[key]; !ok {
			r.add(key, &e)
		}
	}
}

func keyOf(e *list.Element) eventKey {
	v := e.Value.(*Event)
	return eventKey{alikeKey{v.UID, v.Namespace + "/" + v.Name, v.Type, v.Reason}, v.Message}
}

func (r *Recorder) drop(e *list.Element) {
	key := keyOf(e)
	delete(r.known, key)
	if r.alike[key.alikeKey]--; r.alike[key.alikeKey] == 0 {
		delete(r.alike, key.alikeKey)
	}
	r.order.Remove(e)
}

// Events returns the events of a pod, or of all pods if uid is "", the one that happened last at the end.
func (r *Recorder) Events(uid types.UID) []Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	var events []Event
	for e := r.order.Front(); e != nil; e = e.Next() {
		if v := e.Value.(*Event); uid == "" || v.UID == uid {
			events = append(events, *v)
		}
	}
	return events
}

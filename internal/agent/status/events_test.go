package status

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func named(name string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name)}}
}

func TestEventsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		r := NewRecorder(slog.New(slog.NewTextHandler(&log, nil)))
		start := time.Now()
		r.Event(named("a"), v1.EventTypeWarning, "BackOff", "waits")
		time.Sleep(time.Second)
		r.Event(named("a"), v1.EventTypeNormal, "Started", "started")
		r.Event(named("b"), v1.EventTypeWarning, "BackOff", "waits")
		time.Sleep(time.Second)
		r.Event(named("a"), v1.EventTypeWarning, "BackOff", "waits")
		want := []Event{
			{"uid-a", "default", "a", "Normal", "Started", "started", 1, start.Add(time.Second), start.Add(time.Second)},
			{"uid-a", "default", "a", "Warning", "BackOff", "waits", 2, start, start.Add(2 * time.Second)},
		}
		if diff := cmp.Diff(want, r.Events("uid-a")); diff != "" {
			t.Errorf("events of a (-want +got):\n%s", diff)
		}
		if all := r.Events(""); len(all) != 3 || all[1].Name != "b" {
			t.Errorf("all: %v", all)
		}
		if n := strings.Count(log.String(), "\n"); n != 3 {
			t.Errorf("%d lines are logged, want one for each event that is new:\n%s", n, log.String())
		}
	})
}

func TestEventsAreBounded(t *testing.T) {
	r := NewRecorder(slog.New(slog.DiscardHandler))
	r.Event(named("first"), v1.EventTypeNormal, "Started", "started")
	for i := range 3 * maxEvents {
		r.Event(named("loud"), v1.EventTypeWarning, "Failed", fmt.Sprint("message ", i))
	}
	if got := r.Events(""); len(got) != 1+maxAlike || got[0].Name != "first" || got[maxAlike].Message != fmt.Sprint("message ", 3*maxEvents-1) {
		t.Errorf("%d events, the first is of %s, the last says %s", len(got), got[0].Name, got[len(got)-1].Message)
	}
	for i := range 2 * maxEvents {
		r.Event(named(fmt.Sprint(i)), v1.EventTypeNormal, "Started", "started")
	}
	got := r.Events("")
	if len(got) != maxEvents || got[0].Name != fmt.Sprint(maxEvents) {
		t.Errorf("%d events, the first is of %s", len(got), got[0].Name)
	}
	if len(r.known) != maxEvents || len(r.alike) != maxEvents {
		t.Errorf("%d and %d keys for %d events", len(r.known), len(r.alike), maxEvents)
	}
}

// TestEventsAreRestored: what another agent noted goes on to be counted.
func TestEventsAreRestored(t *testing.T) {
	old := NewRecorder(slog.New(slog.DiscardHandler))
	old.Event(named("a"), v1.EventTypeWarning, "BackOff", "waits")
	old.Event(named("b"), v1.EventTypeNormal, "Started", "started")
	r := NewRecorder(slog.New(slog.DiscardHandler))
	r.Restore(old.Events(""))
	r.Restore(old.Events("")) // twice is once
	news := r.News()
	r.Event(named("a"), v1.EventTypeWarning, "BackOff", "waits")
	select {
	case <-news:
	default:
		t.Error("nobody is told")
	}
	if got := r.Events(""); len(got) != 2 || got[0].Name != "b" || got[1].Count != 2 {
		t.Errorf("events %+v", got)
	}
}

package agent

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cleat-cni/cleat/internal/agent/status"
)

// TestEventsOutliveTheAgent: also one that was killed some seconds after them.
func TestEventsOutliveTheAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path, quiet := filepath.Join(t.TempDir(), "events.json"), slog.New(slog.DiscardHandler)
		start := func() *eventLog {
			e := &eventLog{path, status.NewRecorder(quiet), quiet}
			e.load()
			return e
		}
		wants := func(when string, want int) {
			t.Helper()
			if got := start().recorder.Events(""); len(got) != want {
				t.Errorf("%s: %d events are known, want %d", when, len(got), want)
			}
		}
		wants("at first", 0)
		e := start()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); e.run(ctx) }()
		synctest.Wait()
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u"}}
		e.recorder.Event(pod, v1.EventTypeNormal, "Started", "one")
		time.Sleep(eventDelay + time.Millisecond)
		synctest.Wait()
		wants("while it runs", 1)
		e.recorder.Event(pod, v1.EventTypeNormal, "Started", "two")
		cancel()
		<-done
		wants("after its end", 2)
		if err := os.WriteFile(path, []byte("[{"), 0o600); err != nil {
			t.Fatal(err)
		}
		wants("of a file that is spoilt", 0)
	})
}

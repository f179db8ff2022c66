package gc

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cleat-cni/cleat/internal/agent/agenttest"
	"github.com/cleat-cni/cleat/internal/agent/container"
)

// yard is a runtime with pods, and a collector of it.
type yard struct {
	*Collector
	t       *testing.T
	runtime *agenttest.Runtime
	removed map[types.UID]bool
}

func run(t *testing.T, test func(y *yard)) {
	synctest.Test(t, func(t *testing.T) {
		y := &yard{t: t, runtime: agenttest.New(), removed: map[types.UID]bool{}}
		y.Collector = New(Config{
			Runtime: y.runtime, Removed: func(uid types.UID) bool { return y.removed[uid] }, Log: slog.New(slog.DiscardHandler),
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); y.Run(ctx) }()
		test(y)
		cancel()
		<-done
		if v := y.runtime.Violations(); len(v) > 0 {
			t.Errorf("violations: %v", v)
		}
	})
}

// sandbox makes a sandbox and in it, one after the other, containers that end at once; "+" is one that runs.
func (y *yard) sandbox(uid string, attempt int, containers ...string) string {
	y.t.Helper()
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), Name: uid}}
	id, err := y.runtime.CreateSandbox(y.t.Context(), pod, attempt)
	if err != nil {
		y.t.Fatal(err)
	}
	for i, name := range containers {
		name, runs := strings.CutSuffix(name, "+")
		command := []string{"/bin/sh", "-c", "exit 0"}
		if runs {
			command = []string{"/bin/sleep", "86400"}
		}
		if _, err := y.runtime.StartContainer(y.t.Context(), container.Start{
			Pod: pod, SandboxID: id, Container: &v1.Container{Name: name}, Command: command, RestartCount: i,
		}); err != nil {
			y.t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
	return id
}

func (y *yard) stop(id string) {
	y.t.Helper()
	if err := y.runtime.StopSandbox(y.t.Context(), id); err != nil {
		y.t.Fatal(err)
	}
}

func (y *yard) expect(want ...string) {
	y.t.Helper()
	time.Sleep(100 * time.Millisecond)
	synctest.Wait()
	var got []string
	for _, call := range y.runtime.Calls() {
		if strings.HasPrefix(call, "remove") || strings.HasPrefix(call, "stop sandbox") {
			got = append(got, call)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		y.t.Errorf("calls (-want +got):\n%s", diff)
	}
}

func TestNothingGoesBeforeTheSourcesAreReady(t *testing.T) {
	run(t, func(y *yard) {
		y.stop(y.sandbox("a", 0, "web", "web"))
		y.removed["a"] = true
		y.runtime.Calls()
		y.ContainerDied("a")
		time.Sleep(time.Hour)
		y.expect()
		y.SourcesReady()
		y.expect("remove web 1 of a", "remove web 0 of a", "remove sandbox 0 of a", "remove pod a")
	})
}

func TestPodThatGoesOn(t *testing.T) {
	run(t, func(y *yard) {
		first := y.sandbox("a", 0, "web", "web")
		y.stop(first)
		second := y.sandbox("a", 1, "web", "db+", "web+")
		y.runtime.Calls()
		y.SourcesReady()
		y.expect("remove web 1 of a", "remove web 0 of a", "remove sandbox 0 of a")
		status, err := y.runtime.PodStatus(y.t.Context(), "a")
		if err != nil || len(status.Sandboxes) != 1 || status.Sandboxes[0].ID != second || len(status.Containers) != 3 {
			t.Errorf("left: %+v, %v", status, err)
		}
		y.stop(second)
		y.runtime.Calls()
		time.Sleep(time.Minute)
		y.expect("remove web 0 of a") // the newest of a name and the newest sandbox stay
	})
}

func TestDeadContainerTakesItsElderAlong(t *testing.T) {
	run(t, func(y *yard) {
		y.SourcesReady()
		y.sandbox("a", 0, "web", "web", "db+")
		y.runtime.Calls()
		y.ContainerDied("a")
		y.expect("remove web 0 of a")
	})
}

func TestSandboxThatCannotBeStoppedIsKept(t *testing.T) {
	run(t, func(y *yard) {
		id := y.sandbox("a", 0)
		y.runtime.KillSandbox(id) // and CNI DEL was never called
		y.removed["a"] = true
		y.runtime.SetFaults(func(op string) agenttest.Fault {
			if op == "StopSandbox" {
				return agenttest.Fault{Err: errors.New("broken")}
			}
			return agenttest.Fault{}
		})
		y.runtime.Calls()
		y.SourcesReady()
		y.expect()
		y.runtime.SetFaults(nil)
		time.Sleep(time.Minute)
		y.expect("stop sandbox 0 of a", "remove sandbox 0 of a", "remove pod a")
	})
}

func TestRunningOrphanIsLeftToHousekeeping(t *testing.T) {
	run(t, func(y *yard) {
		y.sandbox("a", 0, "web+")
		y.removed["a"] = true
		y.runtime.Calls()
		y.SourcesReady()
		y.expect()
	})
}

func TestNetworksAreCollectedEveryFiveMinutes(t *testing.T) {
	run(t, func(y *yard) {
		y.SourcesReady()
		time.Sleep(16 * time.Minute)
		synctest.Wait()
		n := 0
		for _, call := range y.runtime.Calls() {
			if call == "collect" {
				n++
			}
		}
		if n != 4 {
			t.Errorf("%d collections, want one at the start and three", n)
		}
	})
}

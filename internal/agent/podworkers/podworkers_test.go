package podworkers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cleat-cni/cleat/internal/agent/container"
)

var errBroken = errors.New("broken")

// fakeSyncer writes down what is done. A call takes as long as took says, or until its context ends, and returns what answer says.
type fakeSyncer struct {
	mu     sync.Mutex
	calls  []string
	took   time.Duration
	answer func(call string) (Outcome, error)
}

func (f *fakeSyncer) call(ctx context.Context, format string, args ...any) (Outcome, error) {
	text := fmt.Sprintf(format, args...)
	f.mu.Lock()
	f.calls = append(f.calls, text)
	took, answer := f.took, f.answer
	f.mu.Unlock()
	if took > 0 {
		select {
		case <-time.After(took):
		case <-ctx.Done():
			return Outcome{}, ctx.Err()
		}
	}
	if answer == nil {
		return Outcome{}, nil
	}
	return answer(text)
}

func (f *fakeSyncer) SyncPod(ctx context.Context, pod *v1.Pod, _ *container.PodStatus) (Outcome, error) {
	return f.call(ctx, "sync %s %s", pod.UID, pod.ResourceVersion)
}

func (f *fakeSyncer) SyncTerminatingPod(ctx context.Context, pod *v1.Pod, _ *container.PodStatus, grace time.Duration) error {
	_, err := f.call(ctx, "terminate %s in %v", pod.UID, grace)
	return err
}

func (f *fakeSyncer) SyncTerminatingRuntimePod(ctx context.Context, running *container.Pod) error {
	_, err := f.call(ctx, "terminate orphan %s", running.UID)
	return err
}

func (f *fakeSyncer) SyncTerminatedPod(ctx context.Context, pod *v1.Pod, _ *container.PodStatus) error {
	_, err := f.call(ctx, "terminated %s", pod.UID)
	return err
}

// fakeCache knows everything at once, and when it was asked for something newer than what.
type fakeCache struct {
	mu      sync.Mutex
	running bool
	asked   []time.Time
}

func (f *fakeCache) Get(uid types.UID) (*container.PodStatus, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	status := &container.PodStatus{UID: uid}
	if f.running {
		status.Containers = []container.Status{{State: container.StateRunning}}
	}
	return status, nil
}

func (f *fakeCache) GetNewerThan(ctx context.Context, uid types.UID, than time.Time) (*container.PodStatus, error) {
	f.mu.Lock()
	f.asked = append(f.asked, than)
	f.mu.Unlock()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return f.Get(uid)
}

// bench is workers over fakes.
type bench struct {
	*Workers
	t      *testing.T
	ctx    context.Context
	syncer *fakeSyncer
	cache  *fakeCache
}

// run runs a test in a bubble of time.
func run(t *testing.T, test func(b *bench)) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		b := &bench{t: t, ctx: ctx, syncer: &fakeSyncer{}, cache: &fakeCache{}}
		b.Workers = New(Config{
			Syncer: b.syncer, Cache: b.cache, Relist: func(types.UID) {}, Log: slog.New(slog.DiscardHandler),
			Jitter: func(d time.Duration) time.Duration { return d },
		})
		test(b)
		cancel()
		b.Wait()
	})
}

func newPod(uid string) *v1.Pod {
	grace := int64(30)
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), Name: "web", Namespace: "default", ResourceVersion: "1"},
		Spec: v1.PodSpec{TerminationGracePeriodSeconds: &grace}}
}

func (b *bench) update(kind UpdateType, pod *v1.Pod) {
	b.UpdatePod(b.ctx, Update{Type: kind, Pod: pod})
}

// expect waits until nothing goes on and compares what was done since it was last asked.
func (b *bench) expect(want ...string) {
	b.t.Helper()
	synctest.Wait()
	b.syncer.mu.Lock()
	defer b.syncer.mu.Unlock()
	if diff := cmp.Diff(strings.Join(want, "\n"), strings.Join(b.syncer.calls, "\n")); diff != "" {
		b.t.Errorf("calls (-want +got):\n%s", diff)
	}
	b.syncer.calls = nil
}

func (b *bench) set(took time.Duration, answer func(string) (Outcome, error)) {
	b.syncer.mu.Lock()
	defer b.syncer.mu.Unlock()
	b.syncer.took, b.syncer.answer = took, answer
}

func TestLife(t *testing.T) {
	run(t, func(b *bench) {
		pod := newPod("a")
		b.update(Create, pod)
		b.expect("sync a 1")
		b.update(Sync, pod)
		b.expect("sync a 1")
		b.update(Kill, pod)
		b.expect("terminate a in 30s", "terminated a")
		b.update(Sync, pod)
		b.update(Kill, pod)
		b.expect()
		if left := b.SyncKnownPods(nil); len(left) != 0 || len(b.states) != 0 || len(b.started) != 0 || len(b.waiting) != 0 {
			t.Errorf("left: %v, %v, %v, %v", left, b.states, b.started, b.waiting)
		}
	})
}

func TestPodThatEndsByItself(t *testing.T) {
	run(t, func(b *bench) {
		b.set(0, func(call string) (Outcome, error) { return Outcome{Ended: strings.HasPrefix(call, "sync")}, nil })
		b.update(Create, newPod("a"))
		b.expect("sync a 1", "terminate a in 30s", "terminated a")
		left := b.SyncKnownPods([]*v1.Pod{newPod("a")})
		if diff := cmp.Diff(map[types.UID]Worker{"a": {Phase: TerminatedPodWork}}, left); diff != "" {
			t.Errorf("a pod that the source has is forgotten (-want +got):\n%s", diff)
		}
		if b.ShouldPodContentBeRemoved("a") {
			t.Error("its content is removed while the source has it")
		}
	})
}

func TestLatestUpdateWins(t *testing.T) {
	run(t, func(b *bench) {
		b.set(time.Second, nil)
		pod := newPod("a")
		b.update(Create, pod)
		synctest.Wait()
		for i := range 5 {
			changed := pod.DeepCopy()
			changed.ResourceVersion = fmt.Sprint(i + 2)
			b.update(Change, changed)
		}
		time.Sleep(time.Minute)
		b.expect("sync a 1", "sync a 6")
	})
}

func TestObservationIsNewerThanTheLastSync(t *testing.T) {
	run(t, func(b *bench) {
		b.set(time.Second, nil)
		began := time.Now()
		b.update(Create, newPod("a"))
		b.update(Sync, newPod("a"))
		time.Sleep(1500 * time.Millisecond)
		b.update(Sync, newPod("a"))
		time.Sleep(10 * time.Second)
		synctest.Wait()
		want := []time.Time{{}, began.Add(time.Second), began.Add(2500 * time.Millisecond)}
		if diff := cmp.Diff(want[:len(b.cache.asked)], b.cache.asked); diff != "" || len(b.cache.asked) < 2 {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestKillCancelsASync(t *testing.T) {
	run(t, func(b *bench) {
		b.set(time.Hour, nil)
		b.update(Create, newPod("a"))
		b.expect("sync a 1")
		b.update(Kill, newPod("a"))
		b.expect("terminate a in 30s")
		seconds := int64(60)
		b.UpdatePod(b.ctx, Update{Type: Kill, Pod: newPod("a"), Grace: &seconds})
		b.expect() // a grace period never grows, and what goes on is left alone
		seconds = 5
		b.UpdatePod(b.ctx, Update{Type: Kill, Pod: newPod("a"), Grace: &seconds})
		b.expect("terminate a in 5s")
		deleted := newPod("a")
		zero := int64(0)
		deleted.DeletionTimestamp, deleted.DeletionGracePeriodSeconds = &metav1.Time{}, &zero
		b.update(Change, deleted)
		b.expect("terminate a in 1s")
		if due := b.Due(); len(due) != 0 {
			t.Errorf("due although an update waited: %v", due)
		}
	})
}

func TestRequeue(t *testing.T) {
	tests := []struct {
		name string
		err  func() error
		want time.Duration
	}{
		{"success", func() error { return nil }, time.Minute},
		{"error", func() error { return errBroken }, 10 * time.Second},
		{"network", func() error { return fmt.Errorf("%w: no file", container.ErrNetworkNotReady) }, time.Second},
		{"back-off", func() error { return &BackoffError{time.Now().Add(20 * time.Second), errBroken} }, 20 * time.Second},
		{"back-off-is-over", func() error { return &BackoffError{time.Now().Add(-time.Second), errBroken} }, 0},
		{"long-back-off", func() error { return &BackoffError{time.Now().Add(time.Hour), errBroken} }, time.Minute},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			run(t, func(b *bench) {
				b.set(0, func(string) (Outcome, error) { return Outcome{}, tt.err() })
				b.update(Create, newPod("a"))
				synctest.Wait()
				if tt.want > 0 {
					time.Sleep(tt.want - time.Millisecond)
					if due := b.Due(); len(due) != 0 {
						t.Errorf("due too early: %v", due)
					}
					time.Sleep(time.Millisecond)
				}
				if due := b.Due(); len(due) != 1 {
					t.Errorf("not due: %v", due)
				}
				if due := b.Due(); len(due) != 0 {
					t.Errorf("due twice: %v", due)
				}
			})
		})
	}
}

func TestNetworkReadyMakesWhatWaitsDue(t *testing.T) {
	run(t, func(b *bench) {
		b.set(0, func(call string) (Outcome, error) {
			if strings.HasPrefix(call, "sync a") {
				return Outcome{}, container.ErrNetworkNotReady
			}
			return Outcome{}, nil
		})
		b.update(Create, newPod("a"))
		other := newPod("b")
		other.Name = "other"
		b.update(Create, other)
		synctest.Wait()
		b.NetworkReady()
		if diff := cmp.Diff([]types.UID{"a"}, b.Due()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestTerminationIsRetried(t *testing.T) {
	run(t, func(b *bench) {
		b.set(0, func(call string) (Outcome, error) {
			if strings.HasPrefix(call, "terminat") {
				return Outcome{}, errBroken
			}
			return Outcome{}, nil
		})
		b.update(Create, newPod("a"))
		synctest.Wait()
		b.update(Kill, newPod("a"))
		b.expect("sync a 1", "terminate a in 30s")
		b.SyncKnownPods(nil) // the source has it no more, so nobody else drives it
		b.expect("terminate a in 30s")
		b.set(0, nil)
		b.SyncKnownPods(nil)
		b.expect("terminate a in 30s", "terminated a")
		if !b.ShouldPodContentBeRemoved("a") {
			t.Error("its content is kept")
		}
		b.SyncKnownPods(nil)
		if len(b.states) != 0 {
			t.Error("it is not forgotten")
		}
	})
}

func TestSameNameWaits(t *testing.T) {
	run(t, func(b *bench) {
		b.set(time.Second, nil)
		for _, uid := range []string{"a", "b", "c", "d"} {
			b.update(Create, newPod(uid))
		}
		time.Sleep(5 * time.Second)
		b.expect("sync a 1")
		b.update(Kill, newPod("b")) // an earlier agent may have started it
		time.Sleep(5 * time.Second)
		b.expect("terminate b in 30s", "terminated b")
		b.update(Kill, newPod("a"))
		time.Sleep(2500 * time.Millisecond)
		b.expect("terminate a in 30s", "terminated a", "sync c 1") // at once, not at the next retry
		b.SyncKnownPods([]*v1.Pod{newPod("d")})
		time.Sleep(10 * time.Second)
		b.SyncKnownPods([]*v1.Pod{newPod("d")})
		b.expect("terminate c in 30s", "terminated c", "sync d 1")
	})
}

func TestWaitingPodThatGoesAwayLetsTheNextStart(t *testing.T) {
	run(t, func(b *bench) {
		for _, uid := range []string{"a", "b", "c"} {
			b.update(Create, newPod(uid))
		}
		b.expect("sync a 1")
		b.SyncKnownPods([]*v1.Pod{newPod("a"), newPod("c")}) // b goes before it was started
		b.expect("terminate b in 30s", "terminated b")
		b.update(Kill, newPod("a"))
		b.expect("terminate a in 30s", "terminated a", "sync c 1")
	})
}

func TestSameUIDComesAgain(t *testing.T) {
	run(t, func(b *bench) {
		b.set(time.Second, nil)
		pod := newPod("a")
		b.update(Create, pod)
		time.Sleep(2 * time.Second)
		b.update(Kill, pod)
		b.update(Create, pod)
		b.expect("sync a 1", "terminate a in 30s")
		if left := b.SyncKnownPods([]*v1.Pod{pod}); len(left) != 1 {
			t.Error("forgotten before it has ended")
		}
		time.Sleep(5 * time.Second)
		b.expect("terminated a")
		if left := b.SyncKnownPods([]*v1.Pod{pod}); len(left) != 0 {
			t.Error("still known, so it does not come again")
		}
		b.update(Sync, pod)
		b.update(Change, pod)
		b.update(Kill, pod)
		b.expect() // it comes again when those who hold its traces have let go of them
		b.update(Create, pod)
		b.expect("sync a 1")
	})
}

func TestOrphan(t *testing.T) {
	run(t, func(b *bench) {
		orphan := Update{Type: Kill, Running: &container.Pod{UID: "a"}}
		b.set(0, func(string) (Outcome, error) { return Outcome{}, errBroken })
		b.UpdatePod(b.ctx, orphan)
		b.expect("terminate orphan a")
		b.UpdatePod(b.ctx, orphan)
		b.expect() // its worker knows
		b.set(0, nil)
		if left := b.SyncKnownPods(nil); len(left) != 1 {
			t.Errorf("left: %v", left)
		}
		b.expect("terminate orphan a")
		if len(b.states) != 0 {
			t.Errorf("not forgotten: %v", b.states)
		}
		b.UpdatePod(b.ctx, Update{Type: Sync, Running: &container.Pod{UID: "a"}})
		b.UpdatePod(b.ctx, Update{Type: Kill})
		b.expect()
		b.update(Create, newPod("a"))
		b.UpdatePod(b.ctx, orphan) // it is known now, and wanted
		b.expect("sync a 1")
	})
}

func TestPodThatEndedBeforeItWasSeen(t *testing.T) {
	for _, running := range []bool{false, true} {
		run(t, func(b *bench) {
			b.cache.running = running
			pod := newPod("a")
			pod.Status.Phase = v1.PodSucceeded
			b.update(Create, pod)
			if running {
				b.expect("terminate a in 30s", "terminated a")
				return
			}
			b.expect("terminated a")
		})
	}
}

func TestQuestions(t *testing.T) {
	run(t, func(b *bench) {
		ask := func(uid types.UID) string {
			var yes []string
			for name, question := range map[string]func(types.UID) bool{
				"1 termination requested": b.IsPodTerminationRequested, "2 terminating": b.ShouldPodContainersBeTerminating,
				"3 could run": b.CouldHaveRunningContainers, "4 runtime goes": b.ShouldPodRuntimeBeRemoved,
				"5 finished": b.ShouldPodBeFinished, "6 content goes": b.ShouldPodContentBeRemoved,
			} {
				if question(uid) {
					yes = append(yes, name[:1])
				}
			}
			slices.Sort(yes)
			return strings.Join(yes, "")
		}
		check := func(what, uid, want string) {
			t.Helper()
			synctest.Wait()
			if got := ask(types.UID(uid)); got != want {
				t.Errorf("%s: %q, want %q", what, got, want)
			}
		}
		check("unknown, before all are known", "x", "3")
		b.set(0, nil)
		b.update(Create, newPod("a"))
		check("runs", "a", "3")
		b.set(time.Hour, nil)
		b.update(Kill, newPod("a"))
		check("terminating", "a", "123")
		b.SyncKnownPods(nil)
		check("unknown, when all are known", "x", "2456")
		b.set(0, nil)
		one := int64(1)
		b.UpdatePod(b.ctx, Update{Type: Kill, Pod: newPod("a"), Grace: &one})
		check("gone from its source and finished", "a", "12456")
	})
}

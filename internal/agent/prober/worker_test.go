package prober

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
	"github.com/cleat-cni/cleat/internal/agent/decide"
)

// bench is a manager with statuses that the test sets and commands whose results it says, and a list of all that happens, with times.
type bench struct {
	*Manager
	t     *testing.T
	start time.Time

	mu     sync.Mutex
	status map[types.UID]v1.PodStatus
	result func(ctx context.Context, command string) (int, error)
	list   []string
	events []string
}

// newBench makes a bench inside a bubble. The agent is long since up unless the test says otherwise.
func newBench(t *testing.T, change ...func(*Config)) *bench {
	b := &bench{t: t, status: map[types.UID]v1.PodStatus{}, result: func(context.Context, string) (int, error) { return 0, nil }}
	cfg := Config{Status: b, Runtime: b, Recorder: b, Log: slog.New(slog.DiscardHandler)}
	for _, c := range change {
		c(&cfg)
	}
	b.Manager = New(cfg)
	if len(change) == 0 {
		time.Sleep(time.Hour)
	}
	b.start = time.Now()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { b.Run(ctx); close(done) }()
	go b.read(ctx)
	t.Cleanup(func() { cancel(); <-done })
	return b
}

func (b *bench) read(ctx context.Context) {
	for {
		select {
		case u := <-b.Liveness():
			b.update("liveness", u)
		case u := <-b.Readiness():
			b.update("readiness", u)
		case u := <-b.Startup():
			b.update("startup", u)
		case <-ctx.Done():
			return
		}
	}
}

func (b *bench) update(kind string, u container.ProbeUpdate) {
	b.note(fmt.Sprintf("%s %s %s", kind, u.ContainerID, [...]string{"unknown", "success", "failure"}[u.Result]))
}

func (b *bench) note(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.list = append(b.list, fmt.Sprint(time.Since(b.start).Seconds(), "s ", text))
}

func (b *bench) Exec(ctx context.Context, id string, command []string) ([]byte, int, error) {
	b.note("exec " + id + " " + strings.Join(command, " "))
	b.mu.Lock()
	result := b.result
	b.mu.Unlock()
	exit, err := result(ctx, strings.Join(command, " "))
	return []byte("output\n"), exit, err
}

func (b *bench) Event(_ *v1.Pod, _, reason, message string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.events = append(b.events, reason+": "+message)
}

func (b *bench) GetPodStatus(uid types.UID) (v1.PodStatus, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, ok := b.status[uid]
	return s, ok
}

// say sets what commands do.
func (b *bench) say(exit int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.result = func(context.Context, string) (int, error) { return exit, err }
}

// running sets the status: the container runs from now on.
func (b *bench) running(id string, started bool) {
	b.set(v1.ContainerStatus{Name: "web", ContainerID: id, Started: &started,
		State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: metav1.Now()}}})
}

func (b *bench) set(c v1.ContainerStatus) {
	b.mu.Lock()
	defer b.mu.Unlock()
	// The same list serves for containers and sidecars: a worker finds its container by name.
	b.status["u"] = v1.PodStatus{Phase: v1.PodRunning, PodIP: "127.0.0.1", ContainerStatuses: []v1.ContainerStatus{c}}
}

// wait lets time pass, and then wants what has happened since the last call. What happens in the same instant is in order of the text.
func (b *bench) wait(d time.Duration, want ...string) {
	b.t.Helper()
	time.Sleep(d)
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	slices.SortStableFunc(b.list, func(x, y string) int {
		a, _, _ := strings.Cut(x, " ")
		c, _, _ := strings.Cut(y, " ")
		if a == c {
			return strings.Compare(x, y)
		}
		return 0
	})
	if diff := cmp.Diff(want, b.list); diff != "" {
		b.t.Errorf("after %v (-want +got):\n%s", time.Since(b.start), diff)
	}
	b.list = nil
}

func probe(command string, change ...func(*v1.Probe)) *v1.Probe {
	p := &v1.Probe{ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{command}}},
		TimeoutSeconds: 1, PeriodSeconds: 10, SuccessThreshold: 1, FailureThreshold: 1}
	for _, c := range change {
		c(p)
	}
	return p
}

func pod(change func(*v1.Container)) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u", Name: "web", Namespace: "default"},
		Spec: v1.PodSpec{RestartPolicy: v1.RestartPolicyAlways, Containers: []v1.Container{{Name: "web"}}}}
	change(&p.Spec.Containers[0])
	return p
}

func TestReadiness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		p := pod(func(c *v1.Container) {
			c.ReadinessProbe = probe("ready", func(p *v1.Probe) { p.SuccessThreshold, p.FailureThreshold = 2, 3 })
		})
		b.AddPod(p)
		b.wait(time.Second) // there is no container
		b.running("c1", true)
		b.AddPod(p) // which probes at once
		b.wait(time.Second, "1s exec c1 ready", "1s readiness c1 failure")
		b.wait(20*time.Second, "11s exec c1 ready", "11s readiness c1 success", "21s exec c1 ready")
		b.AddPod(p) // it is ready
		b.say(1, nil)
		b.wait(30*time.Second, "31s exec c1 ready", "41s exec c1 ready", "51s exec c1 ready", "51s readiness c1 failure")
		if got := b.Probes("c1"); got != (decide.Probe{Readiness: container.ProbeFailure}) {
			t.Errorf("probes: %+v", got)
		}
		b.say(0, nil)
		b.AddPod(p)
		b.wait(time.Second, "52s exec c1 ready")
		b.running("c2", true)
		b.AddPod(p)
		b.wait(time.Second, "53s exec c2 ready", "53s readiness c2 failure")
		if got := b.Probes("c1"); got != (decide.Probe{}) {
			t.Errorf("probes of the container before: %+v", got)
		}
		want := slices.Repeat([]string{"Unhealthy: Readiness probe of container web failed: exit code 1: output"}, 3)
		if diff := cmp.Diff(want, b.events); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

func TestLivenessHoldsAfterAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		p := pod(func(c *v1.Container) {
			c.LivenessProbe = probe("alive", func(p *v1.Probe) { p.FailureThreshold, p.InitialDelaySeconds = 2, 5 })
		})
		b.running("c1", true)
		b.AddPod(p)
		b.wait(10*time.Second, "0s liveness c1 success", "10s exec c1 alive")
		b.say(1, nil)
		b.AddPod(p) // liveness is not asked out of turn: failures count
		b.wait(60*time.Second, "20s exec c1 alive", "30s exec c1 alive", "30s liveness c1 failure")
		b.running("c2", true)
		b.AddPod(p)
		b.wait(0, "70s liveness c2 success")
		b.wait(20*time.Second, "80s exec c2 alive", "90s exec c2 alive", "90s liveness c2 failure")
	})
}

// TestClockThatWasSetBack: a container that seems to have been started tomorrow is probed when its delay is over, and so is the one after it.
func TestClockThatWasSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		p := pod(func(c *v1.Container) {
			c.LivenessProbe = probe("alive", func(p *v1.Probe) { p.InitialDelaySeconds = 15 })
		})
		tomorrow := func(id string) v1.ContainerStatus {
			return v1.ContainerStatus{Name: "web", ContainerID: id, Started: new(true),
				State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: metav1.NewTime(time.Now().Add(24 * time.Hour))}}}
		}
		b.set(tomorrow("c1"))
		b.AddPod(p)
		b.wait(20*time.Second, "0s liveness c1 success", "20s exec c1 alive")
		b.set(tomorrow("c2"))
		b.AddPod(p)
		b.wait(20*time.Second, "20s liveness c2 success", "40s exec c2 alive")
	})
}

func TestStartupComesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		p := pod(func(c *v1.Container) {
			c.StartupProbe = probe("started", func(p *v1.Probe) { p.PeriodSeconds, p.FailureThreshold = 2, 3 })
			c.LivenessProbe, c.ReadinessProbe = probe("alive"), probe("ready")
		})
		b.running("c1", false)
		b.say(1, nil)
		b.AddPod(p)
		b.wait(3*time.Second, "0s exec c1 started", "0s liveness c1 success", "0s readiness c1 failure", "0s startup c1 unknown", "2s exec c1 started")
		b.say(0, nil)
		b.wait(time.Second, "4s exec c1 started", "4s startup c1 success")
		b.mu.Lock()
		*b.status["u"].ContainerStatuses[0].Started = true
		b.mu.Unlock()
		b.AddPod(p)
		b.wait(7*time.Second, "4s exec c1 ready", "4s readiness c1 success", "10s exec c1 alive")
		b.running("c2", false)
		b.say(1, nil)
		b.AddPod(p)
		b.wait(20*time.Second, "11s exec c2 started", "11s liveness c2 success", "11s readiness c2 failure", "11s startup c2 unknown", "13s exec c2 started",
			"15s exec c2 started", "15s startup c2 failure")
	})
}

// TestProbesThatCannotBeMade are tried three times, and say nothing.
func TestProbesThatCannotBeMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.running("c1", true)
		b.say(0, errors.New("no such container"))
		b.AddPod(pod(func(c *v1.Container) { c.LivenessProbe = probe("alive") }))
		b.wait(time.Second, "0s exec c1 alive", "0s exec c1 alive", "0s exec c1 alive", "0s liveness c1 success")
		want := []string{"ProbeError: Liveness probe of container web could not be made: run command: no such container"}
		if diff := cmp.Diff(want, b.events); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

func TestProbeThatNeverReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.running("c1", true)
		b.result = func(ctx context.Context, _ string) (int, error) { <-ctx.Done(); return 0, ctx.Err() }
		p := pod(func(c *v1.Container) { c.LivenessProbe = probe("alive", func(p *v1.Probe) { p.TimeoutSeconds = 3 }) })
		b.AddPod(p)
		b.wait(5*time.Second, "0s exec c1 alive", "0s liveness c1 success", "3s liveness c1 failure")
		b.running("c2", true)
		b.AddPod(p)
		b.wait(time.Second, "5s exec c2 alive", "5s liveness c2 success")
		b.RemovePod(p) // while the probe is under way: it says nothing
		b.wait(20 * time.Second)
		if want := []string{"Unhealthy: Liveness probe of container web failed: the command took longer than 3 s"}; !slices.Equal(want, b.events) {
			t.Errorf("events %v", b.events)
		}
	})
}

func TestContainerThatDoesNotRun(t *testing.T) {
	for _, tt := range []struct {
		name    string
		policy  v1.RestartPolicy
		sidecar bool
		again   []string
	}{
		{"always", v1.RestartPolicyAlways, false, []string{"9s exec c2 alive", "9s liveness c2 success"}},
		{"never", v1.RestartPolicyNever, false, nil},
		{"sidecar", v1.RestartPolicyNever, true, []string{"9s exec c2 alive", "9s liveness c2 success"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				p := pod(func(c *v1.Container) { c.LivenessProbe = probe("alive") })
				p.Spec.RestartPolicy = tt.policy
				if tt.sidecar {
					p.Spec.Containers[0].RestartPolicy = new(v1.ContainerRestartPolicyAlways)
					p.Spec.InitContainers, p.Spec.Containers = p.Spec.Containers, nil
				}
				b.set(v1.ContainerStatus{Name: "web", ContainerID: "c1", State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{}}})
				b.AddPod(p)
				b.wait(9*time.Second, "0s liveness c1 failure", "0s liveness c1 success")
				b.running("c2", true)
				b.AddPod(p)
				b.AddPod(p)
				b.wait(0, tt.again...)
			})
		})
	}
}

func TestEndedPodIsNotProbed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.running("c1", true)
		s := b.status["u"]
		s.Phase = v1.PodSucceeded
		b.status["u"] = s
		b.AddPod(pod(func(c *v1.Container) { c.ReadinessProbe = probe("ready") }))
		b.wait(time.Minute)
	})
}

func TestPodThatIsBeingDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		p := pod(func(c *v1.Container) { c.LivenessProbe, c.ReadinessProbe = probe("alive"), probe("ready") })
		b.running("c1", true)
		b.say(1, nil)
		p.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		b.AddPod(p)
		b.wait(15*time.Second, "0s exec c1 ready", "0s liveness c1 success", "0s readiness c1 failure", "10s exec c1 ready")
	})
}

func TestStopping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		p := pod(func(c *v1.Container) {
			c.LivenessProbe, c.ReadinessProbe, c.StartupProbe = probe("alive"), probe("ready"), probe("started")
		})
		b.running("c1", true)
		b.AddPod(p)
		b.wait(time.Second, "0s exec c1 alive", "0s exec c1 ready", "0s liveness c1 success", "0s readiness c1 failure", "0s readiness c1 success",
			"0s startup c1 unknown")
		b.StopLivenessAndStartup(p)
		b.StopLivenessAndStartup(p)
		b.wait(10*time.Second, "10s exec c1 ready")
		if got := b.Probes("c1"); got.Liveness != container.ProbeSuccess {
			t.Errorf("what was concluded is gone: %+v", got)
		}
		b.CleanupPods(map[types.UID]bool{"u": true})
		b.wait(10*time.Second, "20s exec c1 ready")
		b.CleanupPods(nil)
		b.wait(20 * time.Second)
		if got := b.Probes("c1"); got != (decide.Probe{}) {
			t.Errorf("what was concluded is there: %+v", got)
		}
		b.AddPod(p) // it begins anew
		b.wait(0, "41s exec c1 alive", "41s exec c1 ready", "41s liveness c1 success", "41s readiness c1 failure", "41s readiness c1 success",
			"41s startup c1 unknown")
		b.RemovePod(p)
		if len(b.workers) > 0 || len(b.results[liveness].of)+len(b.results[readiness].of)+len(b.results[startup].of) > 0 {
			t.Errorf("left: %d workers, %v", len(b.workers), b.results[liveness].of)
		}
	})
}

// TestProbeIsChanged is about a pod with a UID of its own that is edited: its probe is another one, and then there is none.
func TestProbeIsChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.running("c1", true)
		b.AddPod(pod(func(c *v1.Container) { c.LivenessProbe = probe("one") }))
		b.wait(time.Second, "0s exec c1 one", "0s liveness c1 success")
		b.AddPod(pod(func(c *v1.Container) { c.LivenessProbe = probe("two") }))
		b.wait(10*time.Second, "1s exec c1 two", "1s liveness c1 success", "11s exec c1 two")
		b.AddPod(pod(func(*v1.Container) {}))
		b.wait(time.Minute)
	})
}

// TestProbesOfAYoungAgentAreSpread has the first probe wait, while the agent is younger than the period.
func TestProbesOfAYoungAgentAreSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var most time.Duration
		b := newBench(t, func(c *Config) {
			c.Spread = func(atMost time.Duration) time.Duration { most = atMost; return 3 * time.Second }
		})
		b.running("c1", true)
		b.AddPod(pod(func(c *v1.Container) { c.LivenessProbe = probe("alive") }))
		b.wait(14*time.Second, "3s exec c1 alive", "3s liveness c1 success", "13s exec c1 alive")
		if most != 10*time.Second {
			t.Errorf("spread over %v, want the period", most)
		}
		other := pod(func(c *v1.Container) { c.LivenessProbe = probe("late") })
		other.UID = "v"
		b.mu.Lock()
		b.status["v"] = b.status["u"]
		b.mu.Unlock()
		b.AddPod(other)
		b.wait(0, "14s exec c1 late")
	})
	if got := New(Config{}).cfg.Spread(time.Hour); got < 0 || got >= time.Second {
		t.Errorf("default: %v", got)
	}
}

// TestSlowLoopHoldsWorkers has nobody read the updates: workers wait, and end all the same.
func TestSlowLoopHoldsWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{t: t, status: map[types.UID]v1.PodStatus{}, result: func(context.Context, string) (int, error) { return 0, nil }}
		b.Manager = New(Config{Status: b, Runtime: b, Recorder: b})
		time.Sleep(time.Hour)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { b.Run(ctx); close(done) }()
		var pods []*v1.Pod
		for i := range 3 * updateCapacity {
			p := pod(func(c *v1.Container) { c.LivenessProbe = probe("alive") })
			p.UID = types.UID(fmt.Sprint(i))
			b.running("c", true)
			b.mu.Lock()
			s := b.status["u"]
			s.ContainerStatuses[0].ContainerID = fmt.Sprint("c", i)
			b.status[p.UID] = s
			b.mu.Unlock()
			b.AddPod(p)
			pods = append(pods, p)
		}
		synctest.Wait()
		if n := len(b.Liveness()); n != updateCapacity {
			t.Errorf("%d updates wait", n)
		}
		for _, p := range pods {
			b.RemovePod(p)
		}
		cancel()
		<-done
	})
}

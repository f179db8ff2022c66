package syncloop

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
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

	"github.com/cleat-cni/cleat/internal/agent/agenttest"
	"github.com/cleat-cni/cleat/internal/agent/config"
	"github.com/cleat-cni/cleat/internal/agent/container"
	"github.com/cleat-cni/cleat/internal/agent/status"
)

var errBroken = errors.New("broken")

// fakeSources are what a test says that they have.
type fakeSources struct {
	updates chan config.PodUpdate
	all     []string

	mu   sync.Mutex
	seen []string
}

func (s *fakeSources) Updates() <-chan config.PodUpdate { return s.updates }

func (s *fakeSources) AddSource(source string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, source)
}

func (s *fakeSources) AllReady() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !slices.ContainsFunc(s.all, func(name string) bool { return !slices.Contains(s.seen, name) })
}

// node is a loop over a runtime in memory.
type node struct {
	*Loop
	t       *testing.T
	sources *fakeSources
	runtime *agenttest.Runtime
	events  *status.Recorder
	stop    func()
}

// boot starts a loop, over the runtime of an earlier one if there was one, with sources that have to report.
func boot(t *testing.T, runtime *agenttest.Runtime, sources ...string) *node {
	quiet := slog.New(slog.DiscardHandler)
	n := &node{
		t: t, runtime: runtime, events: status.NewRecorder(quiet),
		sources: &fakeSources{updates: make(chan config.PodUpdate, 50), all: sources},
	}
	n.Loop = New(Config{Sources: n.sources, Runtime: runtime, Recorder: n.events, HostIPs: []netip.Addr{netip.MustParseAddr("192.0.2.1")}, Log: quiet})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); n.Run(ctx) }()
	n.stop = sync.OnceFunc(func() { cancel(); <-done })
	return n
}

func run(t *testing.T, test func(n *node)) {
	synctest.Test(t, func(t *testing.T) {
		n := boot(t, agenttest.New(), "file")
		defer n.stop()
		test(n)
		if v := n.runtime.Violations(); len(v) > 0 {
			t.Errorf("violations: %v", v)
		}
	})
}

func (n *node) send(op config.Op, pods ...*v1.Pod) {
	n.sources.updates <- config.PodUpdate{Pods: pods, Op: op, Source: "file"}
}

// within waits until the runtime was asked for something, and returns how long that took.
func (n *node) within(limit time.Duration, call string) {
	n.t.Helper()
	var seen []string
	for began := time.Now(); time.Since(began) <= limit; time.Sleep(10 * time.Millisecond) {
		synctest.Wait()
		seen = append(seen, n.runtime.Calls()...)
		if slices.Contains(seen, call) {
			return
		}
	}
	n.t.Errorf("not within %v: %s; there was %q", limit, call, seen)
}

// quiet checks that nothing is asked of the runtime for a time.
func (n *node) quiet(d time.Duration) {
	n.t.Helper()
	synctest.Wait()
	n.runtime.Calls()
	time.Sleep(d)
	synctest.Wait()
	if calls := slices.DeleteFunc(n.runtime.Calls(), func(c string) bool { return c == "collect" }); len(calls) > 0 {
		n.t.Errorf("asked of the runtime: %q", calls)
	}
}

func (n *node) statusOf(uid string) v1.PodStatus {
	s, _ := n.Status().GetPodStatus(types.UID(uid))
	return s
}

func podOf(uid, name string, containers ...v1.Container) *v1.Pod {
	grace := int64(2)
	if len(containers) == 0 {
		containers = []v1.Container{sleeps("web")}
	}
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), Name: name, Namespace: "default"},
		Spec:       v1.PodSpec{Containers: containers, RestartPolicy: v1.RestartPolicyAlways, TerminationGracePeriodSeconds: &grace},
	}
}

func sleeps(name string) v1.Container {
	return v1.Container{Name: name, Command: []string{"/bin/sleep", "864000"}}
}

func TestPodFromManifestToAddress(t *testing.T) {
	run(t, func(n *node) {
		n.send(config.ADD, podOf("a", "web"))
		n.within(500*time.Millisecond, "start web 0 of a")
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		if s := n.statusOf("a"); s.Phase != v1.PodRunning || s.PodIP == "" || !ready(s) {
			t.Errorf("status %+v", s)
		}
		if err := n.Ready(); err != nil {
			t.Errorf("not ready: %v", err)
		}
		if pods := n.Pods(); len(pods) != 1 || pods[0].Status.Phase != v1.PodRunning {
			t.Errorf("pods %+v", pods)
		}
		n.quiet(10 * time.Minute)

		began := time.Now()
		n.send(config.REMOVE, podOf("a", "web"))
		n.within(200*time.Millisecond, "stop sandbox 0 of a")
		if took := time.Since(began); took > 200*time.Millisecond {
			t.Errorf("took %v", took)
		}
		n.within(70*time.Second, "remove pod a")
		if len(n.Pods()) != 0 || len(n.runtime.Attached()) != 0 {
			t.Errorf("left: %v, %v", n.Pods(), n.runtime.Attached())
		}
		if s, ok := n.Status().GetPodStatus("a"); ok {
			t.Errorf("status left: %+v", s)
		}
	})
}

func ready(s v1.PodStatus) bool {
	return slices.ContainsFunc(s.Conditions, func(c v1.PodCondition) bool { return c.Type == v1.PodReady && c.Status == v1.ConditionTrue })
}

func TestPauseThatDiedIsReplaced(t *testing.T) {
	run(t, func(n *node) {
		n.send(config.ADD, podOf("a", "web"))
		time.Sleep(5 * time.Second)
		first := n.statusOf("a").PodIP
		n.runtime.KillSandbox(n.runtime.Attached()[0])
		n.within(1500*time.Millisecond, "start web 1 of a")
		time.Sleep(200 * time.Millisecond)
		if s := n.statusOf("a"); s.PodIP == first || !ready(s) {
			t.Errorf("status %+v, the first address was %s", s, first)
		}
		n.runtime.KillSandbox(n.runtime.Attached()[0])
		n.PodChanged("a") // the runtime can say so before it is asked
		n.within(100*time.Millisecond, "create sandbox 2 of a")
	})
}

func TestChangedManifestReplacesThePod(t *testing.T) {
	run(t, func(n *node) {
		n.send(config.ADD, podOf("a", "web"))
		time.Sleep(5 * time.Second)
		n.runtime.Calls()
		n.send(config.REMOVE, podOf("a", "web"))
		n.send(config.ADD, podOf("b", "web"))
		time.Sleep(time.Second)
		synctest.Wait()
		want := []string{"stop web of a in 2s", "stop sandbox 0 of a", "create sandbox 0 of b", "start web 0 of b"}
		if diff := cmp.Diff(want, n.runtime.Calls()); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
	})
}

func TestFixedUIDComesAgain(t *testing.T) {
	run(t, func(n *node) {
		pod := podOf("a", "web", v1.Container{Name: "web", Command: []string{"/bin/sh", "-c", "sleep 5; exit 0"}})
		pod.Spec.RestartPolicy = v1.RestartPolicyNever
		n.send(config.ADD, pod)
		time.Sleep(10 * time.Second)
		if s := n.statusOf("a"); s.Phase != v1.PodSucceeded {
			t.Fatalf("phase %s", s.Phase)
		}
		if left := n.runtime.Attached(); len(left) > 0 {
			t.Errorf("a pod that has ended is attached: %v", left)
		}
		n.runtime.Calls()
		n.send(config.REMOVE, pod)
		n.send(config.ADD, pod.DeepCopy())
		time.Sleep(300 * time.Millisecond)
		synctest.Wait()
		want := []string{"remove web 0 of a", "remove sandbox 0 of a", "remove pod a", "create sandbox 0 of a", "start web 0 of a"}
		if diff := cmp.Diff(want, n.runtime.Calls()); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
		if s := n.statusOf("a"); s.Phase != v1.PodRunning {
			t.Errorf("phase %s, want that of the pod that came anew", s.Phase)
		}
		n.send(config.REMOVE, pod) // and while it runs
		n.send(config.ADD, pod.DeepCopy())
		n.within(time.Second, "start web 0 of a")
		n.send(config.REMOVE, pod) // and later
		time.Sleep(5 * time.Second)
		n.send(config.ADD, pod.DeepCopy())
		n.within(time.Second, "start web 0 of a")
	})
}

func TestNetworkHoldsBackWhatNeedsIt(t *testing.T) {
	run(t, func(n *node) {
		n.runtime.SetCondition(container.Condition{RuntimeReady: true, NetworkMessage: "no configuration in /etc/cni/net.d"})
		n.RuntimeChanged()
		time.Sleep(time.Second)
		host := podOf("h", "host")
		host.Spec.HostNetwork = true
		n.send(config.ADD, podOf("a", "web"), host)
		n.within(100*time.Millisecond, "start web 0 of h")
		n.quiet(20 * time.Second)
		if err := n.Ready(); err == nil || !strings.Contains(err.Error(), "/etc/cni/net.d") {
			t.Errorf("ready: %v", err)
		}
		if !slices.ContainsFunc(n.events.Events("a"), func(e status.Event) bool { return e.Reason == "NetworkNotReady" }) {
			t.Error("no event")
		}
		n.runtime.SetCondition(container.Condition{RuntimeReady: true, NetworkReady: true})
		n.RuntimeChanged()
		n.within(100*time.Millisecond, "start web 0 of a")
	})
}

func TestRuntimeThatIsDownStopsTheLoop(t *testing.T) {
	run(t, func(n *node) {
		n.send(config.ADD)
		time.Sleep(time.Second)
		n.runtime.SetFaults(func(op string) agenttest.Fault {
			if op == "Status" {
				return agenttest.Fault{Err: errBroken}
			}
			return agenttest.Fault{}
		})
		time.Sleep(20 * time.Second)
		if err := n.Ready(); err != nil {
			t.Errorf("a short silence: %v", err)
		}
		time.Sleep(20 * time.Second)
		if err := n.Ready(); !errors.Is(err, errBroken) {
			t.Errorf("a long silence: %v", err)
		}
		n.send(config.ADD, podOf("a", "web"))
		n.quiet(time.Minute)
		n.runtime.SetFaults(nil)
		n.within(10*time.Second, "start web 0 of a")

		n.runtime.SetCondition(container.Condition{RuntimeMessage: "runc is gone", NetworkReady: true})
		time.Sleep(6 * time.Second)
		if err := n.Ready(); err == nil || !strings.Contains(err.Error(), "runc is gone") {
			t.Errorf("ready: %v", err)
		}
	})
}

func TestHealthy(t *testing.T) {
	run(t, func(n *node) {
		n.send(config.ADD)
		time.Sleep(time.Minute)
		if err := n.Healthy(); err != nil {
			t.Errorf("unhealthy: %v", err)
		}
		n.runtime.SetFaults(func(op string) agenttest.Fault {
			if op == "Pods" {
				return agenttest.Fault{Delay: 10 * time.Minute}
			}
			return agenttest.Fault{}
		})
		time.Sleep(6 * time.Minute)
		if err := n.Healthy(); err == nil || !strings.Contains(err.Error(), "pleg") || !strings.Contains(err.Error(), "sync loop") {
			t.Errorf("healthy although the runtime does not answer: %v", err)
		}
		n.runtime.SetFaults(nil)
	})
}

func TestNothingIsDeletedBeforeAllSourcesHaveReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := boot(t, agenttest.New(), "file")
		first.send(config.ADD, podOf("a", "web"), podOf("b", "db"), podOf("c", "cache"))
		time.Sleep(10 * time.Second)
		first.stop()

		n := boot(t, first.runtime, "file", "http")
		defer n.stop()
		n.send(config.ADD, podOf("a", "web"))
		n.quiet(10 * time.Minute) // adopted, and what is of a source that is silent is left alone
		n.send(config.REMOVE, podOf("a", "web"))
		n.quiet(10 * time.Minute)
		n.sources.updates <- config.PodUpdate{Op: config.ADD, Source: "http", Pods: []*v1.Pod{podOf("c", "cache")}}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		calls := n.runtime.Calls()
		for _, uid := range []string{"a", "b"} {
			if !slices.Contains(calls, "stop sandbox 0 of "+uid) {
				t.Errorf("%s is not stopped: %q", uid, calls)
			}
		}
		if s := n.statusOf("c"); s.Phase != v1.PodRunning || s.ContainerStatuses[0].RestartCount != 0 || len(n.runtime.Attached()) != 1 {
			t.Errorf("c is not adopted: %+v", s)
		}
	})
}

func TestProbes(t *testing.T) {
	run(t, func(n *node) {
		web := sleeps("web")
		web.ReadinessProbe = &v1.Probe{ProbeHandler: exec("exit 0"), PeriodSeconds: 1, TimeoutSeconds: 1, SuccessThreshold: 1, FailureThreshold: 1, InitialDelaySeconds: 5}
		sick := sleeps("sick")
		sick.LivenessProbe = &v1.Probe{ProbeHandler: exec("exit 1"), PeriodSeconds: 1, TimeoutSeconds: 1, SuccessThreshold: 1, FailureThreshold: 3, InitialDelaySeconds: 20}
		n.send(config.ADD, podOf("a", "web", web, sick))
		time.Sleep(4 * time.Second)
		if s := n.statusOf("a"); s.Phase != v1.PodRunning || ready(s) {
			t.Errorf("before its readiness probe: %+v", s)
		}
		time.Sleep(4 * time.Second)
		if s := n.statusOf("a"); !ready(s) {
			t.Errorf("after its readiness probe: %+v", s)
		}
		n.within(20*time.Second, "start sick 1 of a")
		if s := n.statusOf("a"); s.ContainerStatuses[0].RestartCount != 0 {
			t.Errorf("the other container was restarted too: %+v", s)
		}
	})
}

func exec(script string) v1.ProbeHandler {
	return v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"/bin/sh", "-c", script}}}
}

func TestLoopEndsWithItsSources(t *testing.T) {
	run(t, func(n *node) {
		close(n.sources.updates)
		synctest.Wait()
		time.Sleep(time.Second)
		n.stop() // would hang otherwise
	})
}

func TestManyPods(t *testing.T) {
	run(t, func(n *node) {
		const count = 200
		n.runtime.SetFaults(func(op string) agenttest.Fault {
			if op == "CreateSandbox" {
				return agenttest.Fault{Delay: time.Second}
			}
			return agenttest.Fault{}
		})
		for i := range count {
			n.send(config.ADD, podOf(fmt.Sprint(i), fmt.Sprintf("pod-%d", i)))
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		running := 0
		for _, p := range n.Pods() {
			if ready(p.Status) {
				running++
			}
		}
		if running != count {
			t.Errorf("%d of %d run: they wait for each other", running, count)
		}
	})
}

func TestLeavingPodsAreShownUntilTheyHaveEnded(t *testing.T) {
	run(t, func(n *node) {
		n.send(config.ADD, podOf("a", "web"))
		time.Sleep(5 * time.Second)
		n.runtime.SetFaults(func(op string) agenttest.Fault {
			if op == "StopContainer" {
				return agenttest.Fault{Delay: time.Second}
			}
			return agenttest.Fault{}
		})
		removed := time.Now()
		n.send(config.REMOVE, podOf("a", "web"))
		time.Sleep(500 * time.Millisecond)
		synctest.Wait()
		list := n.Leaving()
		if len(list) != 1 || list[0].Status.PodIP == "" || !list[0].DeletionTimestamp.Time.Equal(removed) || len(n.Pods()) != 0 {
			t.Errorf("leaving: %+v; pods: %v", list, n.Pods())
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if list := n.Leaving(); len(list) != 0 {
			t.Errorf("still leaving: %+v", list)
		}
	})
}

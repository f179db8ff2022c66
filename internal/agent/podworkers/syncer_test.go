package podworkers_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cleat-cni/cleat/internal/agent/agenttest"
	"github.com/cleat-cni/cleat/internal/agent/container"
	"github.com/cleat-cni/cleat/internal/agent/podworkers"
	"github.com/cleat-cni/cleat/internal/agent/status"
)

// noProber is asked for and probes nothing.
type noProber struct{ calls []string }

func (p *noProber) AddPod(*v1.Pod)                 { p.calls = append(p.calls, "add") }
func (p *noProber) StopLivenessAndStartup(*v1.Pod) { p.calls = append(p.calls, "stop liveness") }
func (p *noProber) RemovePod(*v1.Pod)              { p.calls = append(p.calls, "remove") }

// lab is a syncer over a runtime in memory.
type lab struct {
	*podworkers.Syncer
	t       *testing.T
	runtime *agenttest.Runtime
	status  *status.Manager
	events  *status.Recorder
	prober  *noProber
	probes  map[string]podworkers.Probe
	network error
}

func newLab(t *testing.T) *lab {
	quiet := slog.New(slog.DiscardHandler)
	l := &lab{t: t, runtime: agenttest.New(), status: status.NewManager(quiet), events: status.NewRecorder(quiet), prober: &noProber{}, probes: map[string]podworkers.Probe{}}
	l.Syncer = l.over(l.runtime)
	return l
}

// over makes a syncer of the lab over another runtime.
func (l *lab) over(r podworkers.Runtime) *podworkers.Syncer {
	return podworkers.NewSyncer(podworkers.SyncerConfig{
		Runtime: r, Status: l.status, Recorder: l.events, Prober: l.prober, Log: slog.New(slog.DiscardHandler),
		Probes:  func(id string) podworkers.Probe { return l.probes[id] },
		Network: func() error { return l.network },
		HostIPs: []netip.Addr{netip.MustParseAddr("192.0.2.1")},
	})
}

// sync takes a pod a step further from what the runtime says now.
func (l *lab) sync(pod *v1.Pod) (podworkers.Outcome, error) {
	l.t.Helper()
	return l.SyncPod(l.t.Context(), pod, l.look(pod))
}

func (l *lab) look(pod *v1.Pod) *container.PodStatus {
	l.t.Helper()
	status, err := l.runtime.PodStatus(l.t.Context(), pod.UID)
	if err != nil {
		l.t.Fatal(err)
	}
	return status
}

// run takes a pod on until nothing is left to do.
func (l *lab) run(pod *v1.Pod) {
	l.t.Helper()
	for range 10 {
		if outcome, err := l.sync(pod); err != nil {
			l.t.Fatal(err)
		} else if !outcome.Acted {
			return
		}
	}
	l.t.Fatal("it never comes to an end")
}

func (l *lab) expect(want ...string) {
	l.t.Helper()
	if diff := cmp.Diff(strings.Join(want, "\n"), strings.Join(l.runtime.Calls(), "\n")); diff != "" {
		l.t.Errorf("calls (-want +got):\n%s", diff)
	}
	if v := l.runtime.Violations(); len(v) > 0 {
		l.t.Errorf("violations: %v", v)
	}
}

// said reports whether an event of a reason was recorded, and returns its message.
func (l *lab) said(pod *v1.Pod, reason string) (string, bool) {
	for _, e := range l.events.Events(pod.UID) {
		if e.Reason == reason {
			return e.Message, true
		}
	}
	return "", false
}

func (l *lab) waiting(pod *v1.Pod) string {
	api, _ := l.status.GetPodStatus(pod.UID)
	for _, c := range api.ContainerStatuses {
		if c.State.Waiting != nil {
			return c.State.Waiting.Reason
		}
	}
	return ""
}

// podOf makes a pod of containers by name and command; one whose name ends in "~" is a sidecar, in "!" an init container.
func podOf(containers ...v1.Container) *v1.Pod {
	grace := int64(30)
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: "u", Name: "web", Namespace: "default"},
		Spec:       v1.PodSpec{RestartPolicy: v1.RestartPolicyAlways, TerminationGracePeriodSeconds: &grace},
	}
	for _, c := range containers {
		always := v1.ContainerRestartPolicyAlways
		name := strings.TrimRight(c.Name, "~!")
		switch strings.TrimPrefix(c.Name, name) {
		case "~":
			c.RestartPolicy = &always
			fallthrough
		case "!":
			c.Name = name
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
		default:
			pod.Spec.Containers = append(pod.Spec.Containers, c)
		}
	}
	return pod
}

func sleeps(name string, command ...string) v1.Container {
	if len(command) == 0 {
		command = []string{"/bin/sleep", "86400"}
	}
	return v1.Container{Name: name, Command: command}
}

func shell(name, script string) v1.Container { return sleeps(name, "/bin/sh", "-c", script) }

func TestSyncPodStartsAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		pod := podOf(sleeps("log~"), shell("setup!", "exit 0"), sleeps("web"), sleeps("db"))
		for range 5 {
			l.sync(pod)
			time.Sleep(time.Second)
		}
		l.expect("create sandbox 0 of u", "start log 0 of u", "start setup 0 of u", "start web 0 of u", "start db 0 of u")
		api, _ := l.status.GetPodStatus("u")
		if api.Phase != v1.PodRunning || api.PodIP == "" || api.HostIP != "192.0.2.1" {
			t.Errorf("status: %s, %s, %s", api.Phase, api.PodIP, api.HostIP)
		}
		if outcome, err := l.sync(pod); err != nil || outcome.Acted || outcome.Ended {
			t.Errorf("a pod that runs: %+v, %v", outcome, err)
		}
	})
}

func TestNetworkThatIsNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		pod := podOf(shell("web", "sleep 5; exit 1"))
		l.run(pod)
		l.expect("create sandbox 0 of u", "start web 0 of u")
		l.network = fmt.Errorf("%w: no configuration in /etc/cni/net.d", container.ErrNetworkNotReady)
		time.Sleep(6 * time.Second)
		l.run(pod)
		l.expect("start web 1 of u") // what is attached needs no network to be restarted
		l.runtime.KillSandbox(l.look(pod).Sandboxes[0].ID)
		if _, err := l.sync(pod); !errors.Is(err, container.ErrNetworkNotReady) {
			t.Errorf("%v, want that the network is not ready", err)
		}
		l.expect("stop sandbox 0 of u") // its address is free meanwhile
		if message, ok := l.said(pod, "NetworkNotReady"); !ok || !strings.Contains(message, "/etc/cni/net.d") {
			t.Errorf("event %q", message)
		}
		if reason, message := l.readyToStart(pod); reason != "NetworkNotReady" || !strings.Contains(message, "/etc/cni/net.d") {
			t.Errorf("condition %q, %q", reason, message)
		}
		host := podOf(sleeps("web"))
		host.UID, host.Spec.HostNetwork = "h", true
		l.run(host)
		l.expect("create sandbox 0 of h", "start web 0 of h")
		l.network = nil
		time.Sleep(time.Minute)
		l.run(pod)
		l.expect("create sandbox 1 of u", "start web 2 of u")
		if reason, message := l.readyToStart(pod); reason != "" || message != "" {
			t.Errorf("condition of a pod that runs %q, %q", reason, message)
		}
	})
}

// readyToStart is what the condition of that name says.
func (l *lab) readyToStart(pod *v1.Pod) (reason, message string) {
	status, _ := l.status.GetPodStatus(pod.UID)
	for _, c := range status.Conditions {
		if c.Type == v1.PodReadyToStartContainers {
			return c.Reason, c.Message
		}
	}
	return "", ""
}

func TestNothingIsMadeBeforeTheOldIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		pod := podOf(sleeps("web"))
		l.run(pod)
		l.runtime.KillSandbox(l.look(pod).Sandboxes[0].ID)
		l.runtime.Calls()
		l.runtime.SetFaults(func(op string) agenttest.Fault {
			if op == "StopSandbox" {
				return agenttest.Fault{Err: errBroken}
			}
			return agenttest.Fault{}
		})
		if _, err := l.sync(pod); !errors.Is(err, errBroken) {
			t.Errorf("%v, want that the sandbox could not be stopped", err)
		}
		l.expect()
		if _, ok := l.said(pod, "FailedKillPod"); !ok {
			t.Error("no event")
		}
		l.runtime.SetFaults(nil)
		l.run(pod)
		l.expect("stop sandbox 0 of u", "create sandbox 1 of u", "start web 1 of u")
	})
}

func TestFailedSandboxIsStoppedBeforeTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		pod := podOf(sleeps("web"))
		fault := agenttest.Fault{Err: errBroken, Late: true} // ADD had begun
		l.runtime.SetFaults(func(op string) agenttest.Fault {
			if op == "CreateSandbox" {
				return fault
			}
			return agenttest.Fault{}
		})
		outcome, err := l.sync(pod)
		if !errors.Is(err, errBroken) || !outcome.Acted {
			t.Errorf("%+v, %v", outcome, err)
		}
		if _, ok := l.said(pod, "FailedCreatePodSandBox"); !ok {
			t.Error("no event")
		}
		if reason, message := l.readyToStart(pod); reason != "FailedCreatePodSandBox" || !strings.Contains(message, errBroken.Error()) {
			t.Errorf("condition %q, %q", reason, message)
		}
		fault = agenttest.Fault{}
		l.run(pod)
		l.expect("create sandbox 0 of u", "stop sandbox 0 of u", "create sandbox 1 of u", "start web 0 of u")
	})
}

func TestCrashLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		pod := podOf(shell("web", "exit 1"), sleeps("db"))
		l.sync(pod)
		time.Sleep(time.Second)
		l.sync(pod) // the first time at once
		time.Sleep(time.Second)
		l.expect("create sandbox 0 of u", "start web 0 of u", "start db 0 of u", "start web 1 of u")
		_, err := l.sync(pod)
		b, ok := errors.AsType[*podworkers.BackoffError](err)
		if !ok {
			t.Fatalf("%v, want a back-off", err)
		}
		if wait := time.Until(b.Until); wait <= 8*time.Second || wait > 10*time.Second {
			t.Errorf("until in %v", wait)
		}
		if got := l.waiting(pod); got != container.ReasonCrashLoop {
			t.Errorf("it waits because of %q", got)
		}
		time.Sleep(time.Until(b.Until))
		l.expect()
		l.sync(pod)
		l.expect("start web 2 of u")
	})
}

func TestErrorOfOneContainerDoesNotHoldBackTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		bad := sleeps("bad")
		bad.Env = []v1.EnvVar{{Name: "X", ValueFrom: &v1.EnvVarSource{}}}
		pod := podOf(bad, sleeps("web"))
		_, err := l.sync(pod)
		if _, isBackoff := errors.AsType[*podworkers.BackoffError](err); err == nil || isBackoff {
			t.Errorf("%v, want an error", err)
		}
		l.expect("create sandbox 0 of u", "start web 0 of u")
		if got := l.waiting(pod); got != container.ReasonConfig {
			t.Errorf("it waits because of %q", got)
		}
		pod = podOf(sleeps("first!", "/does/not/exist"), sleeps("second!"), sleeps("web"))
		pod.UID = "v"
		l.sync(pod)
		l.expect("create sandbox 0 of v", "start first 0 of v")
	})
}

func TestTerminate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		web := shell("web", "trap '' TERM; sleep 86400")
		web.Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"/bin/sh", "-c", "sleep 3"}}}}
		db := sleeps("db")
		db.Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: 60}}} // longer than the grace period
		pod := podOf(sleeps("first~"), sleeps("second~"), web, db)
		for range 4 {
			l.sync(pod)
		}
		l.runtime.Calls()
		ip := l.look(pod).IPs[0].String()

		began := time.Now()
		if err := l.SyncTerminatingPod(t.Context(), pod, l.look(pod), 10*time.Second); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began).Round(time.Second); took != 10*time.Second {
			t.Errorf("took %v, want the grace period: the hook counts against it", took)
		}
		l.expect("exec /bin/sh -c sleep 3 in web of u", "stop web of u in 7s", "stop db of u in 2s", "stop second of u in 2s", "stop first of u in 2s", "stop sandbox 0 of u")
		if diff := cmp.Diff([]string{"add", "add", "add", "add", "stop liveness", "remove"}, l.prober.calls); diff != "" {
			t.Errorf("prober (-want +got):\n%s", diff)
		}
		if _, ok := l.said(pod, "FailedPreStopHook"); !ok {
			t.Error("no event of the hook that was cut short")
		}
		if err := l.SyncTerminatedPod(t.Context(), pod, l.look(pod)); err != nil {
			t.Fatal(err)
		}
		api, _ := l.status.GetPodStatus("u")
		if api.Phase != v1.PodFailed || api.PodIP != ip {
			t.Errorf("last status: %s, %s", api.Phase, api.PodIP)
		}
		if left := l.runtime.Attached(); len(left) > 0 {
			t.Errorf("attached: %v", left)
		}
	})
}

var errBroken = errors.New("broken")

// liar says that it stopped what runs on.
type liar struct{ *agenttest.Runtime }

func (liar) StopContainer(context.Context, string, time.Duration) error { return nil }
func (liar) StopSandbox(context.Context, string) error                  { return nil }

func TestTerminateChecksThatNothingRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		pod := podOf(sleeps("web"))
		l.run(pod)
		deceived := l.over(liar{l.runtime})
		for _, err := range []error{
			deceived.SyncTerminatingPod(t.Context(), pod, l.look(pod), time.Second),
			deceived.SyncTerminatingRuntimePod(t.Context(), &container.Pod{UID: pod.UID}),
		} {
			if err == nil || !strings.Contains(err.Error(), "container web, sandbox") {
				t.Errorf("%v, want what runs", err)
			}
		}
		if err := l.SyncTerminatingRuntimePod(t.Context(), &container.Pod{UID: pod.UID}); err != nil {
			t.Error(err)
		}
		l.expect("create sandbox 0 of u", "start web 0 of u", "stop web of u in 2s", "stop sandbox 0 of u")
	})
}

func TestProbeThatFailedHasItsOwnGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		seconds := int64(7)
		web := sleeps("web")
		web.LivenessProbe = &v1.Probe{TerminationGracePeriodSeconds: &seconds}
		pod := podOf(web)
		l.run(pod)
		l.probes[l.look(pod).Containers[0].ID] = podworkers.Probe{Liveness: container.ProbeFailure}
		l.run(pod)
		l.expect("create sandbox 0 of u", "start web 0 of u", "stop web of u in 7s", "start web 1 of u")
		if message, _ := l.said(pod, "Killing"); !strings.Contains(message, "liveness") {
			t.Errorf("event %q", message)
		}
	})
}

func TestPostStart(t *testing.T) {
	for script, want := range map[string]string{
		"exit 0": "",
		"exit 1": "stop web of u in 30s",
	} {
		synctest.Test(t, func(t *testing.T) {
			l := newLab(t)
			web := sleeps("web")
			web.Lifecycle = &v1.Lifecycle{PostStart: &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"/bin/sh", "-c", script}}}}
			pod := podOf(web)
			_, err := l.sync(pod)
			calls := []string{"create sandbox 0 of u", "start web 0 of u", "exec /bin/sh -c " + script + " in web of u"}
			if want != "" {
				calls = append(calls, want)
			}
			l.expect(calls...)
			if (err != nil) != (want != "") || err != nil && container.Reason(err) != container.ReasonPostStart {
				t.Errorf("%s: %v", script, err)
			}
		})
	}
}

func TestCancelledSyncSaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		l.runtime.SetFaults(func(string) agenttest.Fault { return agenttest.Fault{Delay: time.Minute} })
		pod := podOf(sleeps("web"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := l.SyncPod(ctx, pod, &container.PodStatus{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		if list := l.events.Events(""); len(list) > 0 {
			t.Errorf("events of a sync that was called off: %v", list)
		}
	})
}

func TestStartIsResolved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		web := sleeps("web", "/bin/sleep", "$(SECONDS)")
		web.Env = []v1.EnvVar{{Name: "SECONDS", Value: "5"}}
		pod := podOf(web)
		l.run(pod) // the runtime in memory would not know the command otherwise
		time.Sleep(6 * time.Second)
		if got := l.look(pod).Containers[0]; got.State != container.StateExited || got.Hash != container.HashContainer(&pod.Spec.Containers[0]) {
			t.Errorf("%s after its time, hash %s", got.State, got.Hash)
		}
	})
}

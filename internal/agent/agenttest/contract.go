package agenttest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cleat-cni/cleat/internal/agent/container"
	"github.com/cleat-cni/cleat/internal/agent/podworkers"
)

// Removing is what a collector needs of a runtime beside what the workers do.
type Removing interface {
	podworkers.Runtime
	RemoveContainer(ctx context.Context, id string) error
	RemoveSandbox(ctx context.Context, id string) error
	RemovePod(ctx context.Context, pod *v1.Pod) error
}

// patience bounds the wait for what a runtime does by itself.
const patience = 20 * time.Second

// contract is one runtime under test.
type contract struct {
	t *testing.T
	r Removing
}

// Contract checks that a runtime does what the workers rely on. Its pods, which have the UIDs contract-…, are host commands: containers
// without an image that run /bin/sleep and /bin/sh.
func Contract(t *testing.T, r Removing) {
	for name, test := range map[string]func(contract){
		"unknown-ids-are-success":   contract.unknown,
		"a-pod-from-start-to-end":   contract.life,
		"exit-codes":                contract.exits,
		"grace-and-kill":            contract.grace,
		"a-sandbox-takes-all-along": contract.sandboxEnds,
		"a-second-sandbox":          contract.again,
		"errors-of-starts":          contract.badStarts,
		"exec":                      contract.exec,
		"host-network":              contract.hostNetwork,
	} {
		t.Run(name, func(t *testing.T) {
			c := contract{t, r}
			t.Cleanup(func() { c.sweep(context.WithoutCancel(t.Context())) })
			test(c)
		})
	}
}

// sweep removes what a test left.
func (c contract) sweep(ctx context.Context) {
	pods, err := c.r.Pods(ctx)
	c.must(err)
	for _, p := range pods {
		for _, s := range p.Sandboxes {
			c.must(c.r.StopSandbox(ctx, s.ID))
			c.must(c.r.RemoveSandbox(ctx, s.ID))
		}
		c.must(c.r.RemovePod(ctx, &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: p.UID, Name: p.Name, Namespace: p.Namespace}}))
	}
	if pods, err = c.r.Pods(ctx); err != nil || len(pods) > 0 {
		c.t.Errorf("after all was removed: %v, %v", pods, err)
	}
}

func (c contract) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

func contractPod(name string, containers ...v1.Container) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: types.UID("contract-" + name), Name: name, Namespace: "default"},
		Spec:       v1.PodSpec{Containers: containers, RestartPolicy: v1.RestartPolicyAlways, NodeName: "node"},
	}
}

func sh(name, script string) v1.Container {
	return v1.Container{Name: name, Command: []string{"/bin/sh", "-c", script}}
}

func (c contract) create(pod *v1.Pod, attempt int) string {
	c.t.Helper()
	id, err := c.r.CreateSandbox(c.t.Context(), pod, attempt)
	c.must(err)
	return id
}

// start starts the container of an index, a time after the first.
func (c contract) start(pod *v1.Pod, sandbox string, index, again int) (string, error) {
	spec := &pod.Spec.Containers[index]
	return c.r.StartContainer(c.t.Context(), container.Start{
		Pod: pod, SandboxID: sandbox, Container: spec, Command: spec.Command, Args: spec.Args, RestartCount: again, IPs: c.status(pod).IPs,
	})
}

func (c contract) started(pod *v1.Pod, sandbox string, index int) string {
	c.t.Helper()
	id, err := c.start(pod, sandbox, index, 0)
	c.must(err)
	return id
}

func (c contract) status(pod *v1.Pod) *container.PodStatus {
	c.t.Helper()
	status, err := c.r.PodStatus(c.t.Context(), pod.UID)
	c.must(err)
	return status
}

// container returns the status of a container once it has a state.
func (c contract) container(pod *v1.Pod, id string, want container.State) container.Status {
	c.t.Helper()
	var got container.Status
	c.await("container "+id+" "+string(want), func() bool {
		for _, s := range c.status(pod).Containers {
			if s.ID == id {
				got = s
			}
		}
		return got.State == want
	})
	return got
}

// await waits until something is so.
func (c contract) await(what string, so func() bool) {
	c.t.Helper()
	for began := time.Now(); !so(); {
		if time.Since(began) > patience {
			c.t.Fatalf("not within %v: %s", patience, what)
		}
		c.must(pause(c.t.Context(), 10*time.Millisecond))
	}
}

// listed returns how the list shows a pod: the states of its sandboxes and its containers by name, in order.
func (c contract) listed(uid types.UID) (list []string) {
	c.t.Helper()
	pods, err := c.r.Pods(c.t.Context())
	c.must(err)
	for _, p := range pods {
		if p.UID != uid {
			continue
		}
		for _, s := range p.Sandboxes {
			list = append(list, "sandbox "+string(s.State))
		}
		for _, s := range p.Containers {
			list = append(list, s.Name+" "+string(s.State))
		}
	}
	slices.Sort(list)
	return list
}

func (c contract) equal(what string, got, want any) {
	c.t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		c.t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func (c contract) unknown() {
	ctx := c.t.Context()
	for what, err := range map[string]error{
		"stop sandbox": c.r.StopSandbox(ctx, "none"), "remove sandbox": c.r.RemoveSandbox(ctx, "none"),
		"stop container": c.r.StopContainer(ctx, "none", time.Second), "remove container": c.r.RemoveContainer(ctx, "none"),
	} {
		if err != nil {
			c.t.Errorf("%s that is not there: %v", what, err)
		}
	}
	status := c.status(contractPod("nobody"))
	if status.UID != "contract-nobody" || len(status.Sandboxes)+len(status.Containers)+len(status.IPs) > 0 {
		c.t.Errorf("status of a pod that is not there: %+v", status)
	}
	condition, err := c.r.Status(ctx)
	c.must(err)
	if !condition.RuntimeReady || !condition.NetworkReady {
		c.t.Errorf("not ready: %+v", condition)
	}
}

func (c contract) life() {
	ctx := c.t.Context()
	pod := contractPod("life", sh("web", "sleep 3600"))
	sandbox := c.create(pod, 0)
	status := c.status(pod)
	if len(status.Sandboxes) != 1 || len(status.IPs) == 0 || len(status.Sandboxes[0].IPs) == 0 || status.Name != "life" || status.Namespace != "default" {
		c.t.Fatalf("status with a sandbox: %+v", status)
	}
	if s := status.Sandboxes[0]; s.ID != sandbox || s.Attempt != 0 || s.State != container.StateRunning || s.HostNetwork || s.CreatedAt.IsZero() {
		c.t.Errorf("sandbox: %+v", s)
	}
	id := c.started(pod, sandbox, 0)
	s := c.container(pod, id, container.StateRunning)
	s.CreatedAt, s.StartedAt, s.LogPath = time.Time{}, time.Time{}, ""
	c.equal("running", s, container.Status{
		ID: id, SandboxID: sandbox, Name: "web", State: container.StateRunning, Hash: container.HashContainer(&pod.Spec.Containers[0]),
	})
	c.equal("list", c.listed(pod.UID), []string{"sandbox running", "web running"})

	c.must(c.r.StopContainer(ctx, id, 10*time.Second))
	c.container(pod, id, container.StateExited)
	c.must(c.r.StopContainer(ctx, id, 10*time.Second))
	again, err := c.start(pod, sandbox, 0, 1)
	c.must(err)
	c.container(pod, again, container.StateRunning)
	if list := c.status(pod).Containers; len(list) != 2 || list[0].ID != again || list[0].RestartCount != 1 {
		c.t.Errorf("not the newest first: %+v", list)
	}
	c.must(c.r.RemoveContainer(ctx, id))
	c.equal("after one was removed", c.listed(pod.UID), []string{"sandbox running", "web running"})
	c.must(c.r.StopSandbox(ctx, sandbox))
	c.must(c.r.RemoveSandbox(ctx, sandbox))
	c.equal("after the sandbox was removed", c.listed(pod.UID), []string(nil))
	if !c.known(pod.UID) {
		c.t.Error("a pod that has files is not listed")
	}
	c.must(c.r.RemovePod(ctx, pod))
	if c.known(pod.UID) {
		c.t.Error("a pod of which nothing is left is listed")
	}
	c.must(c.r.RemovePod(ctx, pod))
}

// known reports whether a pod is listed.
func (c contract) known(uid types.UID) bool {
	c.t.Helper()
	pods, err := c.r.Pods(c.t.Context())
	c.must(err)
	return slices.ContainsFunc(pods, func(p container.Pod) bool { return p.UID == uid && p.Name != "" && p.Namespace != "" })
}

func (c contract) exits() {
	pod := contractPod("exits", sh("good", "exit 0"), sh("bad", "exit 3"))
	sandbox := c.create(pod, 0)
	good, bad := c.started(pod, sandbox, 0), c.started(pod, sandbox, 1)
	for id, want := range map[string]struct {
		exit   int
		reason string
	}{good: {0, "Completed"}, bad: {3, "Error"}} {
		s := c.container(pod, id, container.StateExited)
		if s.ExitCode != want.exit || s.Reason != want.reason || s.FinishedAt.IsZero() || s.FinishedAt.Before(s.StartedAt) {
			c.t.Errorf("%s: %+v, want exit %d", s.Name, s, want.exit)
		}
	}
}

func (c contract) grace() {
	ctx := c.t.Context()
	pod := contractPod("grace", sh("deaf", "trap '' TERM; sleep 3600"), sh("deafer", "trap '' TERM; sleep 3600"))
	sandbox := c.create(pod, 0)
	id := c.started(pod, sandbox, 0)
	// The shell needs a moment until it ignores the signal.
	c.must(pause(ctx, time.Second))

	short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	began := time.Now()
	if err := c.r.StopContainer(short, id, time.Hour); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > patience {
		c.t.Errorf("a stop that was called off: %v after %v: %+v", err, time.Since(began), c.status(pod))
	}
	if s := c.container(pod, id, container.StateRunning); s.ExitCode != 0 {
		c.t.Errorf("it does not run on: %+v", s)
	}
	began = time.Now()
	c.must(c.r.StopContainer(ctx, id, time.Second))
	if took := time.Since(began); took < 900*time.Millisecond || took > patience {
		c.t.Errorf("killed after %v, want a second", took)
	}
	if s := c.container(pod, id, container.StateExited); s.ExitCode != exitKilled {
		c.t.Errorf("exit %d, want %d", s.ExitCode, exitKilled)
	}
	id = c.started(pod, sandbox, 1)
	c.must(c.r.StopContainer(ctx, id, 0))
	c.container(pod, id, container.StateExited)
}

func (c contract) sandboxEnds() {
	ctx := c.t.Context()
	pod := contractPod("ends", sh("web", "sleep 3600"), sh("deaf", "trap '' TERM; sleep 3600"))
	sandbox := c.create(pod, 0)
	web, deaf := c.started(pod, sandbox, 0), c.started(pod, sandbox, 1)
	for range 2 { // the second time there is nothing to do
		c.must(c.r.StopSandbox(ctx, sandbox))
		c.container(pod, web, container.StateExited)
		c.container(pod, deaf, container.StateExited)
		s := c.status(pod).Sandboxes
		if len(s) != 1 || s[0].State != container.StateExited || len(s[0].IPs) > 0 {
			c.t.Errorf("a stopped sandbox: %+v", s)
		}
	}
	if _, err := c.start(pod, sandbox, 0, 1); err == nil {
		c.t.Error("a container was started in a sandbox that was stopped")
	}
	c.must(c.r.RemoveSandbox(ctx, sandbox))
	c.must(c.r.RemoveSandbox(ctx, sandbox))
	if status := c.status(pod); len(status.Sandboxes)+len(status.Containers) > 0 {
		c.t.Errorf("after it was removed: %+v", status)
	}
}

func (c contract) again() {
	ctx := c.t.Context()
	pod := contractPod("again", sh("web", "sleep 3600"))
	first := c.create(pod, 0)
	c.started(pod, first, 0)
	made := c.status(pod).CreatedAt
	c.must(c.r.StopSandbox(ctx, first))
	second := c.create(pod, 1)
	c.started(pod, second, 0)
	status := c.status(pod)
	if len(status.Sandboxes) != 2 || status.Sandboxes[0].ID != second || status.Sandboxes[0].Attempt != 1 {
		c.t.Fatalf("not the newest first: %+v", status.Sandboxes)
	}
	if made.IsZero() || !status.CreatedAt.Equal(made) {
		c.t.Errorf("made at %v, and then at %v: want the time of the first sandbox", made, status.CreatedAt)
	}
	if !slices.Equal(status.IPs, status.Sandboxes[0].IPs) {
		c.t.Errorf("addresses %v, want those of the newest sandbox: %v", status.IPs, status.Sandboxes[0].IPs)
	}
	c.equal("list", c.listed(pod.UID), []string{"sandbox exited", "sandbox running", "web exited", "web running"})
	c.must(c.r.RemoveSandbox(ctx, first))
	c.equal("without the first", c.listed(pod.UID), []string{"sandbox running", "web running"})
}

func (c contract) badStarts() {
	pod := contractPod("bad", v1.Container{Name: "web", Command: []string{"/does/not/exist"}})
	sandbox := c.create(pod, 0)
	_, err := c.start(pod, sandbox, 0, 0)
	if e, ok := errors.AsType[*container.Error](err); !ok || e.Reason == "" {
		c.t.Errorf("%v, want an error with a reason", err)
	}
	if list := c.status(pod).Containers; len(list) > 1 || len(list) == 1 && (list[0].State != container.StateExited || list[0].ExitCode == 0) {
		c.t.Errorf("it looks as if it ran: %+v", list)
	}
	if _, err := c.start(pod, "none", 0, 0); err == nil {
		c.t.Error("a container was started in no sandbox")
	}
}

func (c contract) exec() {
	ctx := c.t.Context()
	pod := contractPod("exec", sh("web", "sleep 3600"))
	sandbox := c.create(pod, 0)
	id := c.started(pod, sandbox, 0)
	output, exit, err := c.r.Exec(ctx, id, []string{"/bin/echo", "hello"})
	if string(output) != "hello\n" || exit != 0 || err != nil {
		c.t.Errorf("echo: %q, %d, %v", output, exit, err)
	}
	if _, exit, err = c.r.Exec(ctx, id, []string{"/bin/sh", "-c", "exit 3"}); exit != 3 || err != nil {
		c.t.Errorf("exit 3: %d, %v", exit, err)
	}
	short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	began := time.Now()
	if _, _, err = c.r.Exec(short, id, []string{"/bin/sh", "-c", "sleep 3600"}); err == nil || time.Since(began) > patience {
		c.t.Errorf("a command that lasts: %v after %v", err, time.Since(began))
	}
	c.must(c.r.StopContainer(ctx, id, 10*time.Second))
	if _, _, err = c.r.Exec(ctx, id, []string{"/bin/echo", "hello"}); err == nil {
		c.t.Error("a command ran in a container that has ended")
	}
}

func (c contract) hostNetwork() {
	pod := contractPod("host", sh("web", "sleep 3600"))
	pod.Spec.HostNetwork = true
	c.create(pod, 0)
	status := c.status(pod)
	if len(status.Sandboxes) != 1 || !status.Sandboxes[0].HostNetwork || len(status.Sandboxes[0].IPs)+len(status.IPs) != 0 {
		c.t.Errorf("%+v, want a sandbox of the host's network without addresses of its own", status)
	}
}

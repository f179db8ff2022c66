package agenttest_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cleat-cni/cleat/internal/agent/agenttest"
	"github.com/cleat-cni/cleat/internal/agent/config"
	"github.com/cleat-cni/cleat/internal/agent/container"
	"github.com/cleat-cni/cleat/internal/agent/status"
	"github.com/cleat-cni/cleat/internal/agent/syncloop"
)

var (
	seeds = flag.Int("agent.seeds", 20, "how many random schedules are run")
	first = flag.Uint64("agent.seed", 1, "the seed of the first random schedule")
)

var (
	errFault = errors.New("it went wrong")
	errDead  = errors.New("the agent is dead")
)

// TestRandomSchedules runs the whole loop over the runtime in memory while everything happens that can: pods come, go, are replaced and come
// again under their UID, pauses and containers die, calls are slow or fail before or after the deed, the network comes and goes, the
// agent is stopped or dies and starts anew with sources that take their time. Then the world becomes quiet and all must be as it should.
func TestRandomSchedules(t *testing.T) {
	for i := range *seeds {
		seed := *first + uint64(i)
		t.Run(fmt.Sprint("seed-", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, seed)
				w.boot()
				for range 60 {
					w.step()
				}
				w.settle()
				w.leave()
			})
		})
	}
}

// connection is how one agent reaches the runtime. After its death nothing that it still tries is done.
type connection struct {
	*agenttest.Runtime
	dead atomic.Bool
}

func (c *connection) alive(err error) error {
	if c.dead.Load() {
		return errDead
	}
	return err
}

func (c *connection) CreateSandbox(ctx context.Context, pod *v1.Pod, attempt int) (string, error) {
	if err := c.alive(nil); err != nil {
		return "", err
	}
	return c.Runtime.CreateSandbox(ctx, pod, attempt)
}

func (c *connection) StopSandbox(ctx context.Context, id string) error {
	if err := c.alive(nil); err != nil {
		return err
	}
	return c.Runtime.StopSandbox(ctx, id)
}

func (c *connection) StartContainer(ctx context.Context, start container.Start) (string, error) {
	if err := c.alive(nil); err != nil {
		return "", err
	}
	return c.Runtime.StartContainer(ctx, start)
}

func (c *connection) StopContainer(ctx context.Context, id string, grace time.Duration) error {
	if err := c.alive(nil); err != nil {
		return err
	}
	return c.Runtime.StopContainer(ctx, id, grace)
}

func (c *connection) RemoveSandbox(ctx context.Context, id string) error {
	if err := c.alive(nil); err != nil {
		return err
	}
	return c.Runtime.RemoveSandbox(ctx, id)
}

// feed is the sources of one agent.
type feed struct {
	updates chan config.PodUpdate

	mu   sync.Mutex
	seen map[string]bool
}

func sourceNames() []string { return []string{"file", "http"} }

func (f *feed) Updates() <-chan config.PodUpdate { return f.updates }

func (f *feed) AddSource(source string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen[source] = true
}

func (f *feed) AllReady() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.seen) == len(sourceNames())
}

// world is the node, its sources and what they want.
type world struct {
	t       *testing.T
	rng     *rand.Rand
	runtime *agenttest.Runtime
	began   time.Time
	pods    int
	story   []string

	wanted map[string]map[types.UID]*v1.Pod // by source

	agent      *syncloop.Loop
	feed       *feed
	connection *connection
	told       map[string]bool    // sources that have told this agent
	knows      map[types.UID]bool // pods that it was told of: with those it deals before all sources have reported
	halt       func()
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 1)), runtime: agenttest.New(), began: time.Now(), wanted: map[string]map[types.UID]*v1.Pod{}}
	for _, name := range sourceNames() {
		w.wanted[name] = map[types.UID]*v1.Pod{}
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d:\n%s", seed, strings.Join(w.story, "\n"))
		}
	})
	return w
}

func (w *world) note(format string, args ...any) {
	w.story = append(w.story, fmt.Sprintf("%8.3f ", time.Since(w.began).Seconds())+fmt.Sprintf(format, args...))
}

func (w *world) fail(format string, args ...any) {
	w.t.Helper()
	w.note("WRONG: "+format, args...)
	w.t.Errorf(format, args...)
}

func (w *world) boot() {
	w.note("agent starts")
	w.connection = &connection{Runtime: w.runtime}
	w.feed = &feed{updates: make(chan config.PodUpdate, 50), seen: map[string]bool{}}
	w.told, w.knows = map[string]bool{}, map[types.UID]bool{}
	quiet := slog.New(slog.DiscardHandler)
	w.agent = syncloop.New(syncloop.Config{
		Sources: w.feed, Runtime: w.connection, Recorder: status.NewRecorder(quiet), HostIPs: []netip.Addr{netip.MustParseAddr("192.0.2.1")}, Log: quiet,
	})
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan struct{})
	agent := w.agent
	go func() { defer close(done); agent.Run(ctx) }()
	w.halt = func() { cancel(); <-done }
}

// tell makes a source report all that it has for the first time.
func (w *world) tell(source string) {
	w.note("%s reports", source)
	w.told[source] = true
	w.send(config.ADD, source, slices.Collect(maps.Values(w.wanted[source]))...)
}

func (w *world) send(op config.Op, source string, pods ...*v1.Pod) {
	if !w.told[source] {
		return // it will report what it has then
	}
	var copies []*v1.Pod
	for _, pod := range pods {
		copies = append(copies, pod.DeepCopy())
		w.knows[pod.UID] = true
	}
	w.feed.updates <- config.PodUpdate{Pods: copies, Op: op, Source: source}
}

// step lets something happen, and some time pass.
func (w *world) step() {
	source := pick(w, sourceNames())
	switch n := w.rng.IntN(100); {
	case n < 25:
		w.add(source, w.newPod(fmt.Sprint("pod-", w.rng.IntN(8))))
	case n < 35:
		w.remove(source)
	case n < 42:
		w.replace(source)
	case n < 47:
		w.again(source)
	case n < 62:
		w.kill()
	case n < 72:
		w.trouble()
	case n < 77:
		ready := w.rng.IntN(2) == 0
		w.note("network ready: %v", ready)
		w.runtime.SetCondition(container.Condition{RuntimeReady: true, NetworkReady: ready, NetworkMessage: "the test says so"})
		w.agent.RuntimeChanged()
	case n < 83:
		w.restart()
	case n < 90:
		for _, uid := range w.uids() {
			w.agent.PodChanged(uid) // hints that come twice, and for no reason
			w.agent.PodChanged(uid)
		}
	}
	if !w.told[source] && w.rng.IntN(3) == 0 {
		w.tell(source)
	}
	w.pass(time.Duration(w.rng.ExpFloat64() * float64(3*time.Second)))
}

func pick[T any](w *world, list []T) T { return list[w.rng.IntN(len(list))] }

// pass lets time pass and looks at what was done.
func (w *world) pass(d time.Duration) {
	w.t.Helper()
	time.Sleep(d)
	synctest.Wait()
	for _, call := range w.runtime.Calls() {
		w.note("  %s", call)
		destroys := strings.HasPrefix(call, "stop ") || strings.HasPrefix(call, "remove ") || call == "collect"
		fields := strings.Fields(call)
		if !destroys || len(w.told) == len(sourceNames()) {
			continue
		}
		uid := types.UID(fields[len(fields)-1])
		if i := slices.Index(fields, "of"); i > 0 {
			uid = types.UID(fields[i+1])
		}
		if !w.knows[uid] {
			w.fail("before all sources have reported: %s", call)
		}
	}
	for _, v := range w.runtime.Violations() {
		w.fail("%s", v)
	}
	if w.t.Failed() {
		w.halt()
		w.t.FailNow()
	}
}

func (w *world) add(source string, pod *v1.Pod) {
	for _, pods := range w.wanted {
		for _, other := range pods {
			if other.Name == pod.Name {
				return
			}
		}
	}
	w.note("%s has %s %s: %s", source, pod.UID, pod.Name, pod.Annotations["what"])
	w.wanted[source][pod.UID] = pod
	w.send(config.ADD, source, pod)
}

// remove takes a pod from a source, and returns it.
func (w *world) remove(source string) *v1.Pod {
	uids := slices.Sorted(maps.Keys(w.wanted[source]))
	if len(uids) == 0 {
		return nil
	}
	pod := w.wanted[source][pick(w, uids)]
	w.note("%s has no longer %s %s", source, pod.UID, pod.Name)
	delete(w.wanted[source], pod.UID)
	w.send(config.REMOVE, source, pod)
	return pod
}

// replace is what happens when a manifest is changed.
func (w *world) replace(source string) {
	if pod := w.remove(source); pod != nil {
		w.add(source, w.newPod(pod.Name))
	}
}

// again is what happens when a manifest with a UID is removed and put back.
func (w *world) again(source string) {
	if pod := w.remove(source); pod != nil {
		w.pass(time.Duration(w.rng.IntN(3)) * time.Second)
		w.add(source, pod)
	}
}

func (w *world) uids() []types.UID {
	var list []types.UID
	for _, source := range sourceNames() {
		list = append(list, slices.Sorted(maps.Keys(w.wanted[source]))...)
	}
	return list
}

// look returns what the runtime has, past all faults.
func (w *world) look() []*container.PodStatus {
	w.t.Helper()
	w.runtime.SetFaults(nil)
	pods, err := w.runtime.Pods(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	var list []*container.PodStatus
	for _, p := range pods {
		s, err := w.runtime.PodStatus(w.t.Context(), p.UID)
		if err != nil {
			w.t.Fatal(err)
		}
		list = append(list, s)
	}
	return list
}

// kill lets a pause process or a container die. It ends what trouble there is.
func (w *world) kill() {
	list := slices.DeleteFunc(w.look(), func(s *container.PodStatus) bool { return len(s.Sandboxes) == 0 })
	if len(list) == 0 {
		return
	}
	s := pick(w, list)
	if len(s.Containers) == 0 || w.rng.IntN(2) == 0 {
		if id := s.Sandboxes[0].ID; w.runtime.KillSandbox(id) {
			w.note("pause of %s of %s dies", id, s.UID)
		}
		return
	}
	if id := pick(w, s.Containers).ID; w.runtime.KillContainer(id) {
		w.note("container %s of %s dies", id, s.UID)
	}
}

// trouble makes calls slow and lets them fail.
func (w *world) trouble() {
	rng := rand.New(rand.NewPCG(w.rng.Uint64(), 2))
	chance, slow := w.rng.IntN(60), w.rng.IntN(2) == 0
	w.note("trouble: %d %% of the calls fail, slow: %v", chance, slow)
	w.runtime.SetFaults(func(string) agenttest.Fault {
		var f agenttest.Fault
		if slow {
			f.Delay = time.Duration(rng.ExpFloat64() * float64(500*time.Millisecond))
		}
		if rng.IntN(100) < chance {
			f.Err, f.Late = errFault, rng.IntN(2) == 0
		}
		return f
	})
}

// restart stops the agent, or lets it die, and starts it again later.
func (w *world) restart() {
	if w.rng.IntN(2) == 0 {
		w.note("agent dies")
		w.connection.dead.Store(true)
	} else {
		w.note("agent stops")
	}
	w.halt()
	w.told = map[string]bool{}
	for range w.rng.IntN(4) { // the world goes on without it
		source := pick(w, sourceNames())
		switch w.rng.IntN(4) {
		case 0:
			w.add(source, w.newPod(fmt.Sprint("pod-", w.rng.IntN(8))))
		case 1:
			w.remove(source)
		case 2:
			w.replace(source)
		case 3:
			w.kill()
		}
	}
	time.Sleep(time.Duration(w.rng.IntN(20)) * time.Second)
	w.boot()
}

// newPod makes one of the kinds of pods.
func (w *world) newPod(name string) *v1.Pod {
	w.pods++
	grace := int64(w.rng.IntN(5))
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: types.UID(fmt.Sprint("uid-", w.pods)), Name: name, Namespace: "default", Annotations: map[string]string{}},
		Spec: v1.PodSpec{
			RestartPolicy: v1.RestartPolicyAlways, TerminationGracePeriodSeconds: &grace, HostNetwork: w.rng.IntN(6) == 0,
			Containers: []v1.Container{command("web", "sleep 864000")},
		},
	}
	always := v1.ContainerRestartPolicyAlways
	what := w.rng.IntN(8)
	switch what {
	case 0: // the plain one
	case 1:
		pod.Spec.Containers = append(pod.Spec.Containers, command("deaf", "trap '' TERM; sleep 864000"))
	case 2:
		pod.Spec.InitContainers = []v1.Container{command("one", "sleep 1; exit 0"), command("two", "exit 0")}
	case 3:
		pod.Spec.InitContainers = []v1.Container{command("side", "sleep 864000"), command("setup", "exit 0")}
		pod.Spec.InitContainers[0].RestartPolicy = &always
	case 4:
		pod.Spec.RestartPolicy = v1.RestartPolicyNever
		pod.Spec.Containers = []v1.Container{command("job", "sleep 10; exit 0"), command("other", "exit 0")}
	case 5:
		pod.Spec.RestartPolicy = v1.RestartPolicyOnFailure
		pod.Spec.Containers = []v1.Container{command("job", "sleep 10; exit 0")}
	case 6:
		pod.Spec.Containers[0].ReadinessProbe = &v1.Probe{PeriodSeconds: 2, TimeoutSeconds: 1, SuccessThreshold: 1, FailureThreshold: 2,
			ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"/bin/sh", "-c", "exit 0"}}}}
	case 7:
		pod.Spec.RestartPolicy = v1.RestartPolicyOnFailure
		pod.Spec.InitContainers = []v1.Container{command("side", "sleep 864000")}
		pod.Spec.InitContainers[0].RestartPolicy = &always
		pod.Spec.Containers = []v1.Container{command("job", "sleep 5; exit 0")}
	}
	pod.Annotations["what"] = fmt.Sprintf("kind %d, host network %v", what, pod.Spec.HostNetwork)
	return pod
}

func command(name, script string) v1.Container {
	return v1.Container{Name: name, Command: []string{"/bin/sh", "-c", script}}
}

// settle makes the world quiet, and checks that every pod has become what it should be.
func (w *world) settle() {
	w.note("the world becomes quiet")
	w.runtime.SetFaults(nil)
	w.runtime.SetCondition(container.Condition{RuntimeReady: true, NetworkReady: true})
	for _, source := range sourceNames() {
		if !w.told[source] {
			w.tell(source)
		}
	}
	w.pass(15 * time.Minute) // longer than any wait of a container that crashed
	w.check()
}

func (w *world) check() {
	wanted := map[types.UID]*v1.Pod{}
	for _, pods := range w.wanted {
		maps.Copy(wanted, pods)
	}
	attached := w.runtime.Attached()
	for _, s := range w.look() {
		pod := wanted[s.UID]
		if pod == nil {
			w.fail("%s is in the runtime, and nobody wants it: %+v", s.UID, s)
			continue
		}
		running := 0
		for _, sandbox := range s.Sandboxes {
			is := slices.Contains(attached, sandbox.ID)
			attached = slices.DeleteFunc(attached, func(id string) bool { return id == sandbox.ID })
			if sandbox.State == container.StateRunning {
				running++
			} else if is {
				w.fail("%s of %s does not run and is attached", sandbox.ID, s.UID)
			}
		}
		if want := 1; running != want && pod.Spec.RestartPolicy == v1.RestartPolicyAlways {
			w.fail("%s has %d running sandboxes, want %d", s.UID, running, want)
		}
	}
	if len(attached) > 0 {
		w.fail("attached and in no pod: %v", attached)
	}
	for _, pod := range w.agent.Pods() {
		w.checkStatus(pod)
		delete(wanted, pod.UID)
	}
	for uid := range wanted {
		w.fail("the agent has lost %s", uid)
	}
	w.pass(0)
}

func (w *world) checkStatus(pod *v1.Pod) {
	phase := pod.Status.Phase
	ready := slices.ContainsFunc(pod.Status.Conditions, func(c v1.PodCondition) bool { return c.Type == v1.PodReady && c.Status == v1.ConditionTrue })
	var good bool
	switch pod.Spec.RestartPolicy {
	case v1.RestartPolicyAlways:
		good = phase == v1.PodRunning && ready && pod.Status.PodIP != ""
	case v1.RestartPolicyOnFailure:
		good = phase == v1.PodSucceeded
	case v1.RestartPolicyNever:
		good = phase == v1.PodSucceeded || phase == v1.PodFailed
	}
	if !good {
		w.fail("%s (%s) is %s, ready %v, %+v", pod.UID, pod.Annotations["what"], phase, ready, pod.Status.ContainerStatuses)
	}
}

// leave removes all pods and checks that nothing is left of them.
func (w *world) leave() {
	for source, pods := range w.wanted {
		w.send(config.REMOVE, source, slices.Collect(maps.Values(pods))...)
		clear(pods)
	}
	w.pass(5 * time.Minute)
	w.check()
	w.halt()
}

// Package agenttest tests the node agent without a kernel: a runtime in memory that behaves, the contract that every runtime keeps, and
// the whole loop under random schedules.
//
// The runtime in memory knows a few commands, runs them on the clock, and fails on any other. It does what a test tells it to do badly:
// it is slow, answers with errors before or after the deed, lets pauses and containers die, and remembers what must never happen: two
// living sandboxes of a pod, a sandbox made before the one before it was detached, one forgotten that was not detached, two running
// containers of one name.
package agenttest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cleat-cni/cleat/internal/agent/container"
)

// Fault is what goes wrong with a call.
type Fault struct {
	Delay time.Duration // passes first
	Err   error         // is returned
	Late  bool          // after all was done, not before
}

// latency is what every call takes at least: nothing can be observed at the very time at which it was done.
const latency = time.Millisecond

// Runtime is a runtime in memory. The zero value is not ready: use [New].
type Runtime struct {
	mu         sync.Mutex
	faults     func(op string) Fault
	condition  container.Condition
	files      map[types.UID]container.PodStatus // of pods that have some, from their first sandbox until RemovePod: their name, and since when
	sandboxes  []*sandbox                        // in the order in which they were made
	containers []*ctr
	numbers    int
	calls      []string
	violations []string
}

type sandbox struct {
	container.SandboxStatus
	uid      types.UID
	attached bool // CNI ADD began and DEL has not succeeded
}

type ctr struct {
	container.Status
	uid     types.UID
	program program
	gone    chan struct{} // closed when it has ended
	end     *time.Timer   // of a program that ends by itself
}

// New makes a runtime without pods, whose network is ready.
func New() *Runtime {
	return &Runtime{files: map[types.UID]container.PodStatus{}, condition: container.Condition{RuntimeReady: true, NetworkReady: true}}
}

// Violations returns what happened that must never happen.
func (r *Runtime) Violations() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.violations)
}

// Calls returns what was asked for and changed something, in order, and forgets it.
func (r *Runtime) Calls() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	calls := r.calls
	r.calls = nil
	return calls
}

// SetCondition sets what Status says.
func (r *Runtime) SetCondition(c container.Condition) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.condition = c
}

// SetFaults sets what goes wrong from now on, by the name of the method; nil is that nothing does. The function is called by one goroutine at
// a time.
func (r *Runtime) SetFaults(f func(op string) Fault) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults = f
}

// Attached returns the sandboxes whose network has not been taken down.
func (r *Runtime) Attached() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []string
	for _, s := range r.sandboxes {
		if s.attached {
			list = append(list, s.ID)
		}
	}
	return list
}

// enter begins a call: it takes the lock, after what delays the call. It returns what comes before the deed and what comes after it.
func (r *Runtime) enter(ctx context.Context, op string) (before, after error) {
	r.mu.Lock()
	var f Fault
	if r.faults != nil {
		f = r.faults(op)
	}
	r.mu.Unlock()
	err := pause(ctx, max(f.Delay, latency))
	r.mu.Lock()
	switch {
	case err != nil:
		return err, nil
	case f.Err != nil && f.Late:
		return nil, f.Err
	}
	return f.Err, nil
}

// pause waits, or until the context ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *Runtime) note(format string, args ...any) {
	r.calls = append(r.calls, fmt.Sprintf(format, args...))
}

func (r *Runtime) violate(format string, args ...any) {
	r.violations = append(r.violations, fmt.Sprintf(format, args...))
}

func (r *Runtime) number() int {
	r.numbers++
	return r.numbers
}

// Pods lists the pods.
func (r *Runtime) Pods(ctx context.Context) ([]container.Pod, error) {
	before, after := r.enter(ctx, "Pods")
	defer r.mu.Unlock()
	if before != nil {
		return nil, before
	}
	pods := map[types.UID]*container.Pod{}
	for uid, p := range r.files {
		pods[uid] = &container.Pod{UID: uid, Name: p.Name, Namespace: p.Namespace}
	}
	for _, s := range r.sandboxes {
		p := pods[s.uid]
		p.Sandboxes = append(p.Sandboxes, container.Item{ID: s.ID, State: s.State})
	}
	for _, c := range r.containers {
		p := pods[c.uid]
		p.Containers = append(p.Containers, container.Item{ID: c.ID, Name: c.Name, State: c.State})
	}
	var list []container.Pod
	for _, p := range pods {
		list = append(list, *p)
	}
	slices.SortFunc(list, func(a, b container.Pod) int { return cmp.Compare(a.UID, b.UID) })
	return list, after
}

// PodStatus returns what is known of a pod.
func (r *Runtime) PodStatus(ctx context.Context, uid types.UID) (*container.PodStatus, error) {
	before, after := r.enter(ctx, "PodStatus")
	defer r.mu.Unlock()
	if before != nil {
		return nil, before
	}
	files := r.files[uid]
	status := &container.PodStatus{UID: uid, Name: files.Name, Namespace: files.Namespace, CreatedAt: files.CreatedAt, At: time.Now()}
	for _, s := range slices.Backward(r.sandboxes) {
		if s.uid == uid {
			status.Sandboxes = append(status.Sandboxes, s.SandboxStatus)
		}
	}
	if len(status.Sandboxes) > 0 {
		status.IPs = slices.Clone(status.Sandboxes[0].IPs)
	}
	for _, c := range slices.Backward(r.containers) {
		if c.uid == uid {
			status.Containers = append(status.Containers, c.Status)
		}
	}
	return status, after
}

// Status says whether the runtime and the network are ready.
func (r *Runtime) Status(ctx context.Context) (container.Condition, error) {
	before, after := r.enter(ctx, "Status")
	defer r.mu.Unlock()
	if before != nil {
		return container.Condition{}, before
	}
	return r.condition, after
}

// CreateSandbox makes a sandbox. One that fails after CNI ADD began leaves a sandbox that does not run and is attached.
func (r *Runtime) CreateSandbox(ctx context.Context, pod *v1.Pod, attempt int) (string, error) {
	before, after := r.enter(ctx, "CreateSandbox")
	defer r.mu.Unlock()
	if before != nil {
		return "", fmt.Errorf("create sandbox: %w", before)
	}
	for _, s := range r.sandboxes {
		switch {
		case s.uid != pod.UID:
		case s.State == container.StateRunning:
			r.violate("pod %s has two living sandboxes, %s and a new one", pod.UID, s.ID)
		case s.attached:
			r.violate("pod %s gets a sandbox before %s was detached", pod.UID, s.ID)
		}
	}
	n := r.number()
	if _, ok := r.files[pod.UID]; !ok {
		r.files[pod.UID] = container.PodStatus{Name: pod.Name, Namespace: pod.Namespace, CreatedAt: time.Now()}
	}
	s := &sandbox{uid: pod.UID, SandboxStatus: container.SandboxStatus{
		ID: fmt.Sprintf("sandbox-%d", n), Attempt: attempt, State: container.StateRunning, CreatedAt: time.Now(), HostNetwork: pod.Spec.HostNetwork,
	}}
	r.note("create sandbox %d of %s", attempt, pod.UID)
	r.sandboxes = append(r.sandboxes, s)
	if !pod.Spec.HostNetwork {
		s.attached = true
		s.IPs = []netip.Addr{netip.AddrFrom4([4]byte{10, 1, byte(n >> 8), byte(n)})}
	}
	if after != nil {
		s.State = container.StateExited
		return "", fmt.Errorf("create sandbox: %w", after)
	}
	return s.ID, nil
}

func (r *Runtime) sandbox(id string) *sandbox {
	i := slices.IndexFunc(r.sandboxes, func(s *sandbox) bool { return s.ID == id })
	if i < 0 {
		return nil
	}
	return r.sandboxes[i]
}

// StopSandbox ends what runs in a sandbox and detaches it.
func (r *Runtime) StopSandbox(ctx context.Context, id string) error {
	before, after := r.enter(ctx, "StopSandbox")
	defer r.mu.Unlock()
	s := r.sandbox(id)
	switch {
	case s == nil:
		return nil
	case before != nil:
		return fmt.Errorf("stop sandbox %s: %w", id, before)
	}
	if s.State == container.StateRunning || s.attached {
		r.note("stop sandbox %d of %s", s.Attempt, s.uid)
	}
	r.endSandbox(s)
	s.attached, s.IPs = false, nil
	return after
}

func (r *Runtime) endSandbox(s *sandbox) {
	s.State = container.StateExited
	for _, c := range r.containers {
		if c.SandboxID == s.ID {
			c.finish(exitKilled)
		}
	}
}

// RemoveSandbox forgets a sandbox that was stopped, with its containers.
func (r *Runtime) RemoveSandbox(ctx context.Context, id string) error {
	before, after := r.enter(ctx, "RemoveSandbox")
	defer r.mu.Unlock()
	s := r.sandbox(id)
	switch {
	case s == nil:
		return nil
	case before != nil:
		return fmt.Errorf("remove sandbox %s: %w", id, before)
	case s.attached:
		r.violate("sandbox %s of pod %s is removed and was not detached", id, s.uid)
	}
	r.note("remove sandbox %d of %s", s.Attempt, s.uid)
	r.endSandbox(s)
	r.sandboxes = slices.DeleteFunc(r.sandboxes, func(other *sandbox) bool { return other == s })
	r.containers = slices.DeleteFunc(r.containers, func(c *ctr) bool { return c.SandboxID == id })
	return after
}

// RemovePod forgets what else there is of a pod.
func (r *Runtime) RemovePod(ctx context.Context, pod *v1.Pod) error {
	before, after := r.enter(ctx, "RemovePod")
	defer r.mu.Unlock()
	if before != nil {
		return before
	}
	if slices.ContainsFunc(r.sandboxes, func(s *sandbox) bool { return s.uid == pod.UID }) {
		r.violate("pod %s is removed and has a sandbox", pod.UID)
		return fmt.Errorf("remove pod %s: it has a sandbox", pod.UID)
	}
	if f, ok := r.files[pod.UID]; ok {
		if f.Name != pod.Name || f.Namespace != pod.Namespace {
			r.violate("pod %s is removed by the name %s/%s, and is %s/%s", pod.UID, pod.Namespace, pod.Name, f.Namespace, f.Name)
		}
		r.note("remove pod %s", pod.UID)
		delete(r.files, pod.UID)
	}
	return after
}

// Collect frees what belongs to no sandbox: nothing, in memory.
func (r *Runtime) Collect(ctx context.Context) error {
	before, after := r.enter(ctx, "Collect")
	defer r.mu.Unlock()
	if before != nil {
		return before
	}
	r.note("collect")
	return after
}

// KillSandbox lets the pause process of a sandbox die, and with it all containers: they share its PID namespace. It reports whether it ran.
func (r *Runtime) KillSandbox(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.sandbox(id)
	if s == nil || s.State != container.StateRunning {
		return false
	}
	r.endSandbox(s)
	return true
}

var errNoSandbox = errors.New("no running sandbox")

// Package gc removes what pods leave in the runtime: records of containers and sandboxes that ended, what a removed pod had on disk, and
// network attachments that belong to no sandbox.
//
// Of a pod that a source has, the newest ended container of each name stays, to tell how it ended, and the newest sandbox. Of a pod that is
// gone nothing stays. A sandbox is stopped once more before it is removed, so that CNI DEL has succeeded for everything that is forgotten; one
// that can't be stopped is kept and tried again. Nothing at all is removed before every source has reported.
package gc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cleat-cni/cleat/internal/agent/container"
)

// Runtime is what the collector needs of a runtime. What is not there is removed with success.
type Runtime interface {
	// Pods lists all pods of which something is left, and be it files.
	Pods(ctx context.Context) ([]container.Pod, error)
	PodStatus(ctx context.Context, uid types.UID) (*container.PodStatus, error)
	StopSandbox(ctx context.Context, id string) error
	// RemoveSandbox forgets a sandbox that was stopped.
	RemoveSandbox(ctx context.Context, id string) error
	// RemoveContainer forgets a container that has ended.
	RemoveContainer(ctx context.Context, id string) error
	// RemovePod removes what a pod without sandboxes has left on disk. Until that is done, Pods lists it.
	RemovePod(ctx context.Context, pod *v1.Pod) error
	// Collect frees what attachments there are that belong to no sandbox (CNI GC).
	Collect(ctx context.Context) error
}

// Config configures a [Collector].
type Config struct {
	Runtime       Runtime                  // required
	Removed       func(uid types.UID) bool // required: whether all traces of a pod may go
	Forgotten     func()                   // told that what [Collector.Forget] asked for is done; must not wait; default nobody
	Log           *slog.Logger             // default slog.Default()
	Period        time.Duration            // default 1 min
	NetworkPeriod time.Duration            // default 5 min
}

// callTimeout bounds one call to the runtime.
const callTimeout = 2 * time.Minute

// Collector removes what is left. Make one with [New].
type Collector struct {
	config Config
	ready  chan struct{}
	died   chan types.UID
	forget chan container.Pod
}

// New makes a collector.
func New(c Config) *Collector {
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Forgotten == nil {
		c.Forgotten = func() {}
	}
	if c.Period == 0 {
		c.Period = time.Minute
	}
	if c.NetworkPeriod == 0 {
		c.NetworkPeriod = 5 * time.Minute
	}
	return &Collector{config: c, ready: make(chan struct{}, 1), died: make(chan types.UID, 50), forget: make(chan container.Pod, 50)}
}

// SourcesReady tells that every source has reported, and the workers know all pods. Nothing is collected before.
func (c *Collector) SourcesReady() {
	select {
	case c.ready <- struct{}{}:
	default:
	}
}

// ContainerDied tells that a container of a pod has ended: an older one of its name is then removed soon. If too many tell that, the next
// regular collection does it.
func (c *Collector) ContainerDied(uid types.UID) {
	select {
	case c.died <- uid:
	default:
	}
}

// Forget asks for all that is left of a pod to be removed soon, since one of the same UID is to come. If too many are, it has to be asked
// for again.
func (c *Collector) Forget(p container.Pod) {
	select {
	case c.forget <- p:
	default:
	}
}

// Run collects until the context ends: at once when the sources are ready, and then each period.
func (c *Collector) Run(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-c.ready:
	}
	pods, networks := time.NewTimer(0), time.NewTimer(0)
	defer pods.Stop()
	defer networks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-pods.C:
			c.report("collect pods", c.collectPods(ctx))
			pods.Reset(c.config.Period)
		case <-networks.C:
			c.report("collect network attachments", c.limited(ctx, c.config.Runtime.Collect))
			networks.Reset(c.config.NetworkPeriod)
		case uid := <-c.died:
			c.report("collect containers", c.collectContainers(ctx, uid))
		case p := <-c.forget:
			err := c.collectPod(ctx, p)
			if c.report("forget pod", err); err == nil {
				c.config.Forgotten()
			}
		}
	}
}

func (c *Collector) report(what string, err error) {
	if err != nil && !errors.Is(err, context.Canceled) {
		c.config.Log.Error(what, "error", err)
	}
}

func (c *Collector) limited(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return call(ctx)
}

// collectPods goes through all pods of the runtime. An error of one does not hold back the others.
func (c *Collector) collectPods(ctx context.Context) error {
	pods, err := c.config.Runtime.Pods(ctx)
	if err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	var errs []error
	for _, p := range pods {
		if ctx.Err() != nil {
			break
		}
		errs = append(errs, c.collectPod(ctx, p))
	}
	return errors.Join(errs...)
}

func (c *Collector) collectPod(ctx context.Context, p container.Pod) error {
	if err := c.collectContainers(ctx, p.UID); err != nil {
		return err
	}
	// Asked anew: what was removed with its containers is gone, and the worker may have gone on.
	removed := c.config.Removed(p.UID)
	status, err := c.config.Runtime.PodStatus(ctx, p.UID)
	if err != nil {
		return fmt.Errorf("get status of pod %s: %w", p.UID, err)
	}
	left := 0
	var errs []error
	for i, s := range status.Sandboxes {
		if s.State == container.StateRunning || hasContainers(status, s.ID) || i == 0 && !removed {
			left++
			continue
		}
		if err := c.removeSandbox(ctx, s.ID); err != nil {
			left++
			errs = append(errs, err)
		}
	}
	// The order of the questions matters: as long as the runtime knows of a pod, one that comes again under its UID is held back, so one that
	// is known and then still gone stays gone until its files are.
	known := status.Name != ""
	if known && left == 0 && len(errs) == 0 && c.config.Removed(p.UID) {
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: p.UID, Name: p.Name, Namespace: p.Namespace}}
		errs = append(errs, c.limited(ctx, func(ctx context.Context) error { return c.config.Runtime.RemovePod(ctx, pod) }))
	}
	return errors.Join(errs...)
}

func hasContainers(status *container.PodStatus, sandbox string) bool {
	for _, s := range status.Containers {
		if s.SandboxID == sandbox {
			return true
		}
	}
	return false
}

// removeSandbox stops a sandbox, which detaches it if that has not been done, and forgets it if that succeeded.
func (c *Collector) removeSandbox(ctx context.Context, id string) error {
	err := c.limited(ctx, func(ctx context.Context) error { return c.config.Runtime.StopSandbox(ctx, id) })
	if err != nil {
		return fmt.Errorf("stop sandbox %s before it is removed: %w", id, err)
	}
	err = c.limited(ctx, func(ctx context.Context) error { return c.config.Runtime.RemoveSandbox(ctx, id) })
	if err != nil {
		return fmt.Errorf("remove sandbox %s: %w", id, err)
	}
	return nil
}

// collectContainers removes the ended containers of a pod but the newest of each name; all of them if the pod is gone.
func (c *Collector) collectContainers(ctx context.Context, uid types.UID) error {
	removed := c.config.Removed(uid)
	status, err := c.config.Runtime.PodStatus(ctx, uid)
	if err != nil {
		return fmt.Errorf("get status of pod %s: %w", uid, err)
	}
	kept := map[string]bool{}
	var errs []error
	for _, s := range status.Containers {
		// One that was made and not started may be about to be, unless nobody can start it any more.
		if s.State == container.StateRunning || s.State != container.StateExited && !removed {
			continue
		}
		if !removed && !kept[s.Name] {
			kept[s.Name] = true
			continue
		}
		err := c.limited(ctx, func(ctx context.Context) error { return c.config.Runtime.RemoveContainer(ctx, s.ID) })
		if err != nil {
			errs = append(errs, fmt.Errorf("remove container %s of pod %s: %w", s.Name, uid, err))
		}
	}
	return errors.Join(errs...)
}

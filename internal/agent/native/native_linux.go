// Package native is a runtime without a daemon: a sandbox is namespaces that a pause process holds, its networks come from libcni in this
// process, and a container is a process below a monitor of its own, from an image with runc or as a command of the host.
//
// All that runs outlives the agent. What is there is written down before it is made, so that a new agent finds it
// whenever the last one died: a record without its process is a sandbox or container that has ended, and is taken down
// like any other.
package native

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/cleat-cni/cleat/internal/agent/cgroup"
	"github.com/cleat-cni/cleat/internal/agent/container"
	"github.com/cleat-cni/cleat/internal/agent/images"
	"github.com/cleat-cni/cleat/internal/agent/network"
)

// Config configures a Runtime.
type Config struct {
	Root     string           // required: the folder of all state
	Program  string           // required: cleat-cni, which is pause and monitor
	Networks *network.Manager // required
	Images   ImageStore       // default: there are no images
	Runc     string           // default: runc in $PATH
	Cgroup   string           // the control group of all pods; default cleat
	// ResolvConf is the node's, which pods get with dnsPolicy Default. Default /etc/resolv.conf.
	ResolvConf string
	// ClusterDNS are the servers of dnsPolicy ClusterFirst; without any such a pod gets what Default gives.
	ClusterDNS    []netip.Addr
	ClusterDomain string       // default cluster.local
	Log           *slog.Logger // default slog.Default
	// Changed is called with a pod's UID when something of it has ended. It must not wait.
	Changed func(uid types.UID)
	// LogSize and LogFiles bound the logs of a container. Default 10 MiB and 5.
	LogSize  int64
	LogFiles int
}

// ImageStore has images. [images.Store] is one.
type ImageStore interface {
	// Get returns an image by reference, with its files unpacked.
	Get(ctx context.Context, ref string) (*images.Image, error)
}

var _ ImageStore = (*images.Store)(nil)

// The defaults of Config.
const (
	defaultLogSize  = 10 << 20
	defaultLogFiles = 5
)

// Runtime is the runtime. It is safe for concurrent use.
type Runtime struct {
	cfg    Config
	log    *slog.Logger
	groups cgroup.Tree
	boot   string
	ctx    context.Context // of the goroutines that wait for processes; it ends with Close
	stop   context.CancelFunc
	waits  sync.WaitGroup

	mu         sync.Mutex
	pods       map[types.UID]podRecord
	sandboxes  map[string]*sandbox
	containers map[string]*ctr
}

// New returns a Runtime with what earlier ones left in the folder.
func New(ctx context.Context, cfg Config) (*Runtime, error) {
	cfg.ResolvConf = cmp.Or(cfg.ResolvConf, "/etc/resolv.conf")
	cfg.ClusterDomain = cmp.Or(cfg.ClusterDomain, "cluster.local")
	cfg.Log = cmp.Or(cfg.Log, slog.Default())
	cfg.LogSize, cfg.LogFiles = cmp.Or(cfg.LogSize, defaultLogSize), cmp.Or(cfg.LogFiles, defaultLogFiles)
	cfg.Runc, cfg.Cgroup = cmp.Or(cfg.Runc, "runc"), cmp.Or(cfg.Cgroup, "cleat")
	if cfg.Changed == nil {
		cfg.Changed = func(types.UID) {}
	}
	groups, err := cgroup.Mounted()
	if err != nil {
		return nil, err
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return nil, err
	}
	r := &Runtime{cfg: cfg, log: cfg.Log, groups: groups, boot: strings.TrimSpace(string(boot)),
		pods: map[types.UID]podRecord{}, sandboxes: map[string]*sandbox{}, containers: map[string]*ctr{}}
	r.ctx, r.stop = context.WithCancel(context.WithoutCancel(ctx))
	for _, dir := range []string{"", "sandboxes", "netns", "pods", "logs"} {
		if err := os.MkdirAll(r.path(dir), 0o700); err != nil {
			return nil, fmt.Errorf("make the folder of state: %w", err)
		}
	}
	if err := errors.Join(r.loadPods(), r.load(ctx)); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// Close ends the waiting for processes. Pods go on.
func (r *Runtime) Close() {
	r.stop()
	r.waits.Wait()
}

func (r *Runtime) path(parts ...string) string {
	return filepath.Join(append([]string{r.cfg.Root}, parts...)...)
}

// Pods lists all pods of which a sandbox or files are left.
func (r *Runtime) Pods(context.Context) ([]container.Pod, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	pods := map[types.UID]*container.Pod{}
	for uid, p := range r.pods {
		pods[uid] = &container.Pod{UID: uid, Name: p.Name, Namespace: p.Namespace}
	}
	for _, s := range r.sandboxes {
		p := pods[s.rec.UID]
		if p == nil {
			p = &container.Pod{UID: s.rec.UID, Name: s.rec.Name, Namespace: s.rec.Namespace}
			pods[s.rec.UID] = p
		}
		p.Sandboxes = append(p.Sandboxes, container.Item{ID: s.rec.ID, State: s.state()})
	}
	for _, c := range r.containers {
		if p := pods[c.uid]; p != nil {
			p.Containers = append(p.Containers, container.Item{ID: c.rec.ID, Name: c.rec.Name, State: c.state()})
		}
	}
	list := make([]container.Pod, 0, len(pods))
	for _, uid := range slices.Sorted(maps.Keys(pods)) {
		p := pods[uid]
		byID := func(a, b container.Item) int { return strings.Compare(a.ID, b.ID) }
		slices.SortFunc(p.Sandboxes, byID)
		slices.SortFunc(p.Containers, byID)
		list = append(list, *p)
	}
	return list, nil
}

// PodStatus returns all that is known of a pod.
func (r *Runtime) PodStatus(_ context.Context, uid types.UID) (*container.PodStatus, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	st := &container.PodStatus{UID: uid, Name: r.pods[uid].Name, Namespace: r.pods[uid].Namespace, CreatedAt: r.pods[uid].CreatedAt, At: now()}
	for _, s := range r.sandboxes {
		if s.rec.UID == uid {
			st.Name, st.Namespace = s.rec.Name, s.rec.Namespace
			st.Sandboxes = append(st.Sandboxes, s.status())
		}
	}
	for _, c := range r.containers {
		if c.uid == uid {
			st.Containers = append(st.Containers, c.status())
		}
	}
	// By number before time: a clock that was set back makes no old one the newest.
	slices.SortFunc(st.Sandboxes, func(a, b container.SandboxStatus) int {
		return cmp.Or(cmp.Compare(b.Attempt, a.Attempt), b.CreatedAt.Compare(a.CreatedAt))
	})
	slices.SortFunc(st.Containers, func(a, b container.Status) int {
		return cmp.Or(cmp.Compare(b.RestartCount, a.RestartCount), b.CreatedAt.Compare(a.CreatedAt))
	})
	if len(st.Sandboxes) > 0 {
		st.IPs = st.Sandboxes[0].IPs
	}
	return st, nil
}

// Status says whether pods can be made.
func (r *Runtime) Status(context.Context) (container.Condition, error) {
	c := container.Condition{RuntimeReady: true, NetworkReady: true}
	if err := r.cfg.Networks.Status(); err != nil {
		c.NetworkReady, c.NetworkMessage = false, err.Error()
	}
	return c, nil
}

// find returns a sandbox by ID; nil if there is none.
func (r *Runtime) find(id string) *sandbox {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sandboxes[id]
}

func (r *Runtime) findContainer(id string) *ctr {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.containers[id]
}

// containersOf lists the containers of a sandbox.
func (r *Runtime) containersOf(sandboxID string) []*ctr {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []*ctr
	for _, c := range r.containers {
		if c.rec.SandboxID == sandboxID {
			list = append(list, c)
		}
	}
	return list
}

// errNoImages says that a container names an image and this runtime has no store of them.
var errNoImages = errors.New("this agent has no images: start it with --images DIR, or leave image out to run a command of the host")

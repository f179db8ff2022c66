// Package agent is the node agent, put together: it takes pods from manifests and keeps them running and connected on this node. Its parts
// are the packages below it; docs/agent.md has the picture.
package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/cleat-cni/cleat/internal/agent/config"
	"github.com/cleat-cni/cleat/internal/agent/container"
	"github.com/cleat-cni/cleat/internal/agent/images"
	"github.com/cleat-cni/cleat/internal/agent/metrics"
	"github.com/cleat-cni/cleat/internal/agent/native"
	"github.com/cleat-cni/cleat/internal/agent/network"
	"github.com/cleat-cni/cleat/internal/agent/server"
	"github.com/cleat-cni/cleat/internal/agent/status"
	"github.com/cleat-cni/cleat/internal/agent/syncloop"
	"github.com/cleat-cni/cleat/internal/filelock"
	"github.com/cleat-cni/cleat/internal/ownfile"
	"github.com/cleat-cni/cleat/libcni"
)

// Config configures an agent.
type Config struct {
	Root       string // default DefaultRoot; of all state, and of the control socket
	Manifests  []string
	URL        string
	Node       string        // default the host's name
	ConfDir    string        // required: of network configurations
	PluginDirs []string      // required
	Images     []string      // folders of images; none is no image
	Program    string        // required: cleat-cni, which is pause and monitor
	Runner     libcni.Runner // required: runs plugins
	Listen     string        // address of health and metrics; "" is none
	Runc       string        // default runc in $PATH
	PodCIDRs   []netip.Prefix
	ClusterDNS []netip.Addr
	Domain     string       // of the cluster; default cluster.local
	Log        *slog.Logger // default slog.Default
	// Started is called with the address of health and metrics once the agent listens; default nobody.
	Started func(net.Addr)
}

// DefaultRoot is where an agent has its state.
const DefaultRoot = "/var/lib/cleat"

// Socket is the path of an agent's control socket.
func Socket(root string) string { return filepath.Join(cmp.Or(root, DefaultRoot), "agent.sock") }

// StateDir is where an agent records attachments, in libcni's format.
func StateDir(root string) string { return filepath.Join(cmp.Or(root, DefaultRoot), "cni") }

// ControlGroup is the group of all pods of an agent. Two agents on one machine may read the same manifests, and give their pods the same UIDs.
func ControlGroup(root string) string {
	const name = "cleat"
	if root == DefaultRoot {
		return name
	}
	h := fnv.New32a()
	h.Write([]byte(root)) // never fails
	return fmt.Sprintf("%s-%08x", name, h.Sum32())
}

// applied is the folder of the pods that were applied through the socket.
func applied(root string) string { return filepath.Join(root, "manifests") }

// ErrRuns says that another agent runs on the same root.
var ErrRuns = errors.New("another agent runs on this root")

// Run runs an agent until ctx ends. What it started runs on.
func Run(ctx context.Context, cfg Config) error {
	cfg.Root = cmp.Or(cfg.Root, DefaultRoot)
	cfg.Log = cmp.Or(cfg.Log, slog.Default())
	if cfg.Node == "" {
		name, err := os.Hostname()
		if err != nil {
			return err
		}
		cfg.Node = name
	}
	cfg.Node = strings.ToLower(cfg.Node)
	if wrong := validation.IsDNS1123Subdomain(cfg.Node); len(wrong) > 0 { // it ends the names of pods
		return fmt.Errorf("use %q as the node's name: %s", cfg.Node, wrong[0])
	}
	for _, path := range slices.Concat(cfg.Manifests, cfg.Images) {
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
			cfg.Log.WarnContext(ctx, "there is no such file or folder yet", "path", path)
		}
	}
	if err := os.MkdirAll(cfg.Root, 0o700); err != nil {
		return fmt.Errorf("make the folder of state: %w", err)
	}
	info, err := os.Stat(cfg.Root)
	if err == nil {
		err = ownfile.Check(info)
	}
	if err != nil { // whoever can write there says what runs as root
		return fmt.Errorf("use %s for state: %w", cfg.Root, err)
	}
	lock, err := filelock.Try(filepath.Join(cfg.Root, "agent.lock"))
	if errors.Is(err, filelock.ErrHeld) {
		return fmt.Errorf("%w: %s", ErrRuns, cfg.Root)
	}
	if err != nil {
		return err
	}
	a := &agent{cfg: cfg}
	return errors.Join(a.run(ctx), lock.Release())
}

// agent is an agent that runs.
type agent struct {
	cfg      Config
	recorder *status.Recorder
	mux      *config.Mux
	networks *network.Manager
	runtime  *native.Runtime
	loop     atomic.Pointer[syncloop.Loop] // once there is one
}

func (a *agent) run(ctx context.Context) error {
	meter := metrics.New()
	a.recorder = status.NewRecorder(a.cfg.Log)
	events := &eventLog{filepath.Join(a.cfg.Root, "events.json"), a.recorder, a.cfg.Log}
	events.load()
	manifests := append(slices.Clone(a.cfg.Manifests), applied(a.cfg.Root))
	a.mux = config.New(config.Config{Paths: manifests, URL: a.cfg.URL, Node: a.cfg.Node, Log: a.cfg.Log, Recorder: a.recorder})
	if err := a.open(ctx, meter); err != nil {
		return err
	}
	defer a.runtime.Close()
	hosts, err := hostIPs()
	if err != nil {
		return err
	}
	loop := syncloop.New(syncloop.Config{Sources: a.mux, Runtime: meter.Runtime(a.runtime), Recorder: a.recorder, HostIPs: hosts, Allocatable: allocatable(), Meter: meter, Log: a.cfg.Log})
	a.loop.Store(loop)
	meter.Node(a.cfg.Node)
	meter.Watch(ctx, loop.Pods, a.runtime.Pods)
	srv, err := server.New(server.Config{
		Socket: Socket(a.cfg.Root), Listen: a.cfg.Listen, Manifests: applied(a.cfg.Root), Node: a.cfg.Node, Log: a.cfg.Log,
		Pods: a.pods, Changes: loop.Status().Changes, Events: a.recorder.Events, Problems: a.problems,
		Healthy: loop.Healthy, Ready: loop.Ready, Logs: a.logs, Exec: a.exec, Timings: meter.Timings, Metrics: meter.Handler(),
	})
	if err != nil {
		return err
	}
	if a.cfg.Started != nil {
		a.cfg.Started(srv.Addr())
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var parts sync.WaitGroup
	parts.Go(func() { a.mux.Run(ctx) })
	parts.Go(func() { events.run(ctx) })
	parts.Go(func() { a.networks.Run(ctx, loop.RuntimeChanged) })
	parts.Go(func() {
		if err := srv.Run(ctx); err != nil {
			cancel(err)
		}
	})
	loop.Run(ctx)
	cancel(nil)
	parts.Wait()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// open makes the networks and the runtime.
func (a *agent) open(ctx context.Context, meter *metrics.Metrics) error {
	c, err := libcni.New(libcni.Config{PluginDirs: a.cfg.PluginDirs, StateDir: StateDir(a.cfg.Root), Runner: meter.Runner(a.cfg.Runner), Log: a.cfg.Log})
	if err != nil {
		return err
	}
	neighbours := &others{othersDir, a.cfg.Root, a.cfg.Log}
	if err := neighbours.announce(); err != nil {
		return err
	}
	a.networks = network.New(network.Config{CNI: c, ConfDir: a.cfg.ConfDir, Ranges: a.cfg.PodCIDRs, Others: neighbours.attachments, Log: a.cfg.Log})
	conf := native.Config{
		Root: a.cfg.Root, Cgroup: ControlGroup(a.cfg.Root), Program: a.cfg.Program, Networks: a.networks, Runc: a.cfg.Runc, ClusterDNS: a.cfg.ClusterDNS, ClusterDomain: a.cfg.Domain,
		Log: a.cfg.Log, Changed: a.changed,
	}
	if len(a.cfg.Images) > 0 {
		conf.Images = images.New(images.Config{Dirs: a.cfg.Images, Root: filepath.Join(a.cfg.Root, "images")})
	}
	a.runtime, err = native.New(ctx, conf)
	return err
}

// changed takes the runtime's hint that something of a pod has ended.
func (a *agent) changed(uid types.UID) {
	if loop := a.loop.Load(); loop != nil {
		loop.PodChanged(uid)
	}
}

func (a *agent) problems() server.Problems {
	return server.Problems{Manifests: a.mux.Problems(), Networks: a.networks.Problems()}
}

// pods are all that are shown: those that are wanted, and those that end.
func (a *agent) pods() []v1.Pod {
	loop := a.loop.Load()
	list := append(loop.Pods(), loop.Leaving()...)
	pods := make([]v1.Pod, 0, len(list))
	for _, p := range list {
		p.APIVersion, p.Kind = "v1", "Pod"
		pods = append(pods, *p)
	}
	return pods
}

// find returns the newest container of a name, or with previous the newest that has ended.
func (a *agent) find(ctx context.Context, uid types.UID, name string, previous bool) (*container.Status, error) {
	st, err := a.runtime.PodStatus(ctx, uid)
	if err != nil {
		return nil, err
	}
	for i := range st.Containers {
		if c := &st.Containers[i]; c.Name == name && (!previous || c.State == container.StateExited) {
			return c, nil
		}
	}
	if previous {
		return nil, fmt.Errorf("container %s has not ended before", name)
	}
	return nil, fmt.Errorf("container %s has not run yet", name)
}

func (a *agent) logs(ctx context.Context, uid types.UID, name string, previous bool) (path string, running bool, err error) {
	c, err := a.find(ctx, uid, name, previous)
	if err != nil {
		return "", false, err
	}
	return c.LogPath, c.State != container.StateExited, nil
}

func (a *agent) exec(ctx context.Context, uid types.UID, name string, command container.Command) (int, error) {
	c, err := a.find(ctx, uid, name, false)
	if err != nil {
		return 0, err
	}
	return a.runtime.Run(ctx, c.ID, command)
}

// hostIPs are the node's addresses, the first of each family: that which a packet to elsewhere has as its source, if there is a way, else
// the first one that is of use on the network. None is sent.
func hostIPs() ([]netip.Addr, error) {
	var list []netip.Addr
	for _, elsewhere := range []string{"192.0.2.1:9", "[2001:db8::1]:9"} {
		conn, err := net.Dial("udp", elsewhere)
		if err != nil {
			continue // there is no way
		}
		if local, ok := conn.LocalAddr().(*net.UDPAddr); ok {
			list = append(list, local.AddrPort().Addr().Unmap())
		}
		conn.Close()
	}
	if len(list) > 0 {
		return list, nil
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("list the node's addresses: %w", err)
	}
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().IsGlobalUnicast() {
			return []netip.Addr{p.Addr()}, nil
		}
	}
	return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}, nil
}

// allocatable is what the node has, for containers that ask for their limit and have none.
func allocatable() v1.ResourceList {
	list := v1.ResourceList{v1.ResourceCPU: *resource.NewQuantity(int64(runtime.NumCPU()), resource.DecimalSI)}
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		list[v1.ResourceMemory] = *resource.NewQuantity(int64(uint64(info.Totalram)*uint64(info.Unit)), resource.BinarySI)
	}
	return list
}

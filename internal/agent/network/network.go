// Package network is where pods meet CNI: it attaches a pod to its networks before any of its processes runs (SetUpPod) and
// detaches it after the last has ended (TearDownPod), by what was recorded and not by what is configured then.
//
// The folder of configurations is watched and read again every few seconds. A file that is removed takes its network away: pods that
// need it wait, those that run stay. A file that becomes invalid does not; what it said last stands.
//
// Names are those of the kubelet's network plugins up to 1.23 (k8s.io/kubernetes/pkg/kubelet/dockershim/network).
package network

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/libcni"
)

// Config configures a Manager.
type Config struct {
	CNI     *libcni.CNI    // required
	ConfDir string         // required: the folder of network configurations
	Ranges  []netip.Prefix // the node's pod CIDRs, handed to networks that take ipRanges; default none
	Log     *slog.Logger   // default slog.Default
	// Others returns what others than this Manager have attached on this machine, which a collection keeps. Default: nobody has anything.
	Others func(ctx context.Context) ([]*libcni.NetworkAttachment, error)
	// Timeout bounds one SetUpPod or TearDownPod, and is shorter than what bounds the whole of a sandbox. Default 220 s.
	Timeout time.Duration
	// Parallel is how many pods are at most set up or torn down at once. Default 16.
	Parallel int
}

// The default of Config.Timeout, and the times of Run. They are the kubelet's.
const (
	defaultTimeout  = 220 * time.Second
	defaultParallel = 16
	relistEvery     = 5 * time.Second
)

// Manager attaches pods to networks. It is safe for concurrent use: calls for one sandbox follow each other, those for several run at
// once.
type Manager struct {
	cfg     Config
	log     *slog.Logger
	folder  folder
	limiter *limiter
	pods    keyedMutex
	ready   readiness
}

// New returns a Manager that has read the folder once.
func New(cfg Config) *Manager {
	cfg.Timeout = cmp.Or(cfg.Timeout, defaultTimeout)
	cfg.Parallel = cmp.Or(cfg.Parallel, defaultParallel)
	cfg.Log = cmp.Or(cfg.Log, slog.Default())
	m := &Manager{cfg: cfg, log: cfg.Log, limiter: newLimiter(cfg.Parallel)}
	m.cfg.ConfDir = filepath.Clean(cfg.ConfDir)
	m.folder = folder{dir: m.cfg.ConfDir, log: cfg.Log}
	m.folder.read()
	return m
}

// Pod is a pod as its networks see it.
type Pod struct {
	Namespace, Name, UID string
	SandboxID            string // the container ID of all its attachments
	NetNS                string // path of the sandbox's network namespace
	// Networks are those beside the default one, as ParseNetworks returns them.
	Networks    []Selection
	Ports       []cni.PortMapping // with a host port
	Bandwidth   cni.Bandwidth     // zero rates are unlimited
	DNS         cni.DNS
	Annotations map[string]string
	CgroupPath  string
}

// Attachment is one network of a pod.
type Attachment struct {
	Network string `json:"network"`
	IfName  string `json:"ifName"`
}

// loopback is the network of every pod's lo.
const loopback = `{"cniVersion":"1.0.0","name":"cni-loopback","plugins":[{"type":"loopback"}]}`

const (
	loopbackNetwork = "cni-loopback"
	loopbackIfName  = "lo"
	defaultIfName   = "eth0"
)

// Plan says which networks a pod will be attached to, the default one first after the loopback: what is to be written down before
// SetUpPod, so that TearDownPod can go by it. The error is what keeps the pod waiting: a network that isn't configured.
func (m *Manager) Plan(p *Pod) ([]Attachment, error) {
	def, err := m.folder.defaultNetwork()
	if err != nil {
		return nil, err
	}
	plan := []Attachment{{loopbackNetwork, loopbackIfName}, {def.Name, defaultIfName}}
	for i, n := range p.Networks {
		if _, err := m.folder.network(n.Name); err != nil {
			return nil, err
		}
		plan = append(plan, Attachment{n.Name, cmp.Or(n.IfName, fmt.Sprintf("net%d", i+1))})
	}
	seen := map[string]bool{}
	for _, a := range plan {
		if seen[a.IfName] {
			return nil, cni.Errorf(cni.CodeInvalidConfig, "pod %s/%s: two networks want interface %s", p.Namespace, p.Name, a.IfName)
		}
		seen[a.IfName] = true
	}
	return plan, nil
}

// SetUpPod attaches a pod to the networks that Plan returned and returns the addresses on the default one, the first of each family
// first. If it fails nothing is attached, or the error says what is; TearDownPod is right in either case.
func (m *Manager) SetUpPod(ctx context.Context, p *Pod, plan []Attachment) ([]netip.Addr, error) {
	defer m.pods.lock(p.SandboxID)()
	ctx, cancel := context.WithTimeoutCause(ctx, m.cfg.Timeout,
		fmt.Errorf("the networks of pod %s/%s took longer than %v", p.Namespace, p.Name, m.cfg.Timeout))
	defer cancel()
	done, err := m.limiter.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	var addrs []netip.Addr
	for i, a := range plan {
		result, err := m.attach(ctx, p, a, selection(p, plan, i))
		if err != nil {
			undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), m.cfg.Timeout)
			defer cancel()
			return nil, errors.Join(err, m.detach(undo, p.SandboxID, plan[:i]))
		}
		if a.IfName == defaultIfName {
			if addrs = podIPs(result); len(addrs) == 0 {
				m.log.WarnContext(ctx, "the network gives no address", "pod", p.Namespace+"/"+p.Name, "network", a.Network)
			}
		}
	}
	return addrs, nil
}

// selection is what the pod says of the ith network of a plan; nil for the loopback and the default one.
func selection(p *Pod, plan []Attachment, i int) *Selection {
	if first := len(plan) - len(p.Networks); i >= first {
		return &p.Networks[i-first]
	}
	return nil
}

func (m *Manager) attach(ctx context.Context, p *Pod, a Attachment, sel *Selection) (*cni.Result, error) {
	list, err := m.list(a.Network)
	if err != nil {
		return nil, err
	}
	rt := &libcni.RuntimeConf{ContainerID: p.SandboxID, NetNS: p.NetNS, IfName: a.IfName, Args: p.args(sel), CapabilityArgs: m.capabilities(p, a, sel, list)}
	result, err := m.cfg.CNI.AddNetworkList(ctx, list, rt)
	if err != nil {
		return nil, fmt.Errorf("network %s%s: %w%s", a.Network, from(list), err, whatToDo(err))
	}
	return result, nil
}

// whatToDo is the hint of an error, to be put behind it; "" if it has none.
func whatToDo(err error) string {
	if hint := cni.AsError(err).Hint; hint != "" {
		return "; " + hint
	}
	return ""
}

// from names the file of a network, if it is of one.
func from(list *libcni.NetworkConfigList) string {
	if list.Source == "" {
		return ""
	}
	return " (" + list.Source + ")"
}

func (m *Manager) list(network string) (*libcni.NetworkConfigList, error) {
	if network == loopbackNetwork {
		return libcni.ConfListFromBytes([]byte(loopback))
	}
	return m.folder.network(network)
}

// args are the CNI_ARGS of a pod, as containerd gives them.
func (p *Pod) args(sel *Selection) cni.Args {
	args := cni.Args{
		{"IgnoreUnknown", "1"}, {"K8S_POD_NAMESPACE", p.Namespace}, {"K8S_POD_NAME", p.Name},
		{"K8S_POD_INFRA_CONTAINER_ID", p.SandboxID}, {"K8S_POD_UID", p.UID},
	}
	if sel != nil {
		args = append(args, sel.Args...)
	}
	return args
}

// capabilities are what the plugins of a network may ask for. Ports and bandwidth are those of the default network alone. What only
// few plugins take, and nobody asks a pod for, goes to those that declare it.
func (m *Manager) capabilities(p *Pod, a Attachment, sel *Selection, list *libcni.NetworkConfigList) map[string]any {
	caps := map[string]any{}
	offer := func(name string, value any) {
		if slices.ContainsFunc(list.Plugins, func(c *libcni.PluginConfig) bool { return c.Network.Capabilities[name] }) {
			caps[name] = value
		}
	}
	offer("io.kubernetes.cri.pod-annotations", p.Annotations)
	offer("cgroupPath", p.CgroupPath)
	switch {
	case sel != nil:
		if len(sel.IPs) > 0 {
			caps["ips"] = sel.IPs
		}
		if sel.MAC != "" {
			caps["mac"] = sel.MAC
		}
	case a.IfName == defaultIfName:
		caps["portMappings"] = append([]cni.PortMapping{}, p.Ports...)
		if p.Bandwidth != (cni.Bandwidth{}) {
			caps["bandwidth"] = p.Bandwidth
		}
		if !isEmptyDNS(p.DNS) {
			caps["dns"] = p.DNS
		}
		if len(m.cfg.Ranges) > 0 {
			offer("ipRanges", ranges(m.cfg.Ranges))
		}
	}
	return caps
}

func isEmptyDNS(d cni.DNS) bool {
	return len(d.Nameservers) == 0 && d.Domain == "" && len(d.Search) == 0 && len(d.Options) == 0
}

// ranges gives each CIDR a range set of its own: an address is taken from each.
func ranges(cidrs []netip.Prefix) [][]map[string]string {
	sets := make([][]map[string]string, 0, len(cidrs))
	for _, c := range cidrs {
		sets = append(sets, []map[string]string{{"subnet": c.String()}})
	}
	return sets
}

// podIPs are the addresses of a result, the first of each family first and the rest in their order.
func podIPs(r *cni.Result) []netip.Addr {
	var firsts, rest []netip.Addr
	var has4, has6 bool
	for _, ip := range r.IPs {
		addr := ip.Address.Addr().Unmap()
		has := &has6
		if addr.Is4() {
			has = &has4
		}
		if *has {
			rest = append(rest, addr)
		} else {
			firsts = append(firsts, addr)
		}
		*has = true
	}
	return append(firsts, rest...)
}

// TearDownPod detaches a sandbox from the networks of its plan, in reverse order, by what was recorded: it needs neither the
// configuration nor the namespace. What isn't attached is success. It goes on after an error.
func (m *Manager) TearDownPod(ctx context.Context, sandboxID string, plan []Attachment) error {
	defer m.pods.lock(sandboxID)()
	ctx, cancel := context.WithTimeoutCause(ctx, m.cfg.Timeout,
		fmt.Errorf("detaching sandbox %s took longer than %v", sandboxID, m.cfg.Timeout))
	defer cancel()
	done, err := m.limiter.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	return m.detach(ctx, sandboxID, plan)
}

func (m *Manager) detach(ctx context.Context, sandboxID string, plan []Attachment) error {
	var errs []error
	for _, a := range slices.Backward(plan) {
		errs = append(errs, m.cfg.CNI.DelAttachment(ctx, &libcni.NetworkAttachment{Network: a.Network, ContainerID: sandboxID, IfName: a.IfName}))
	}
	return errors.Join(errs...)
}

// GetPodNetworkStatus returns the addresses that a sandbox was given on its default network; none if it isn't attached.
func (m *Manager) GetPodNetworkStatus(sandboxID string) ([]netip.Addr, error) {
	list, err := m.cfg.CNI.GetCachedAttachments(sandboxID)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(list, func(a *libcni.NetworkAttachment) bool { return a.IfName == defaultIfName && a.Result != nil })
	if i < 0 {
		return nil, nil
	}
	return podIPs(list[i].Result), nil
}

// Collect frees what belongs to no sandbox of valid and to nobody else, in every network that is configured or has an attachment. since is when the list was
// put together: what was attached later is kept.
func (m *Manager) Collect(ctx context.Context, valid map[string][]Attachment, since time.Time) error {
	perNetwork := map[string][]cni.Attachment{}
	for id, plan := range valid {
		for _, a := range plan {
			perNetwork[a.Network] = append(perNetwork[a.Network], cni.Attachment{ContainerID: id, IfName: a.IfName})
		}
	}
	if m.cfg.Others != nil {
		others, err := m.cfg.Others(ctx)
		if err != nil {
			return err // without them too much would be freed
		}
		for _, a := range others {
			perNetwork[a.Network] = append(perNetwork[a.Network], cni.Attachment{ContainerID: a.ContainerID, IfName: a.IfName})
		}
	}
	lists, err := m.known(ctx)
	errs := []error{err}
	for _, list := range lists {
		args := &libcni.GCArgs{ValidAttachments: append([]cni.Attachment{}, perNetwork[list.Name]...), Since: since}
		if err := m.cfg.CNI.GCNetworkList(ctx, list, args); err != nil {
			errs = append(errs, fmt.Errorf("collect network %s: %w", list.Name, err))
		}
	}
	return errors.Join(errs...)
}

// known are the networks that are configured, and those of which only attachments are left, as these were added.
func (m *Manager) known(ctx context.Context) ([]*libcni.NetworkConfigList, error) {
	lists := m.folder.networks()
	seen := map[string]bool{}
	for _, l := range lists {
		seen[l.Name] = true
	}
	all, err := m.cfg.CNI.Attachments(ctx)
	errs := []error{err}
	for _, a := range all {
		if a.Network == "" || seen[a.Network] {
			continue
		}
		seen[a.Network] = true
		list, err := libcni.ConfListFromBytes(a.Config)
		if err != nil {
			errs = append(errs, fmt.Errorf("network %s as it was recorded: %w", a.Network, err))
			continue
		}
		lists = append(lists, list)
	}
	return lists, errors.Join(errs...)
}

// keyedMutex is a mutex for each name that is in use.
type keyedMutex struct {
	mu    sync.Mutex
	users map[string]*keyUser
}

type keyUser struct {
	mu sync.Mutex
	n  int // of those that hold or want it
}

// lock locks a name and returns what unlocks it.
func (k *keyedMutex) lock(name string) (unlock func()) {
	k.mu.Lock()
	if k.users == nil {
		k.users = map[string]*keyUser{}
	}
	u := k.users[name]
	if u == nil {
		u = &keyUser{}
		k.users[name] = u
	}
	u.n++
	k.mu.Unlock()
	u.mu.Lock()
	return func() {
		u.mu.Unlock()
		k.mu.Lock()
		defer k.mu.Unlock()
		if u.n--; u.n == 0 {
			delete(k.users, name)
		}
	}
}

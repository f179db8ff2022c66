package reliability

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/builtin"
	"github.com/cleat-cni/cleat/internal/kernel"
	"github.com/cleat-cni/cleat/internal/leases"
	"github.com/cleat-cni/cleat/internal/netns"
	"github.com/cleat-cni/cleat/internal/originals"
	"github.com/cleat-cni/cleat/internal/sandbox"
	"github.com/cleat-cni/cleat/libcni"
	"github.com/cleat-cni/cleat/planned"
	"github.com/cleat-cni/cleat/plugins"
)

// network is the name of the network on every machine.
const network = "net"

// The containers that most tests have.
const (
	subject   = "subject"   // things happen to it
	bystander = "bystander" // must notice nothing
)

// wiring is what a process must know of a machine to be a runtime on it.
type wiring struct {
	Dir   string // of the machine
	State string // name of the folder of records in it
}

func (w wiring) path(parts ...string) string {
	return filepath.Join(append([]string{w.Dir}, parts...)...)
}
func (w wiring) pod(id string) string { return w.path("ns", id) }

// side is a runtime on a machine, in this process.
type side struct {
	*libcni.CNI
	runner *builtin.Runner
	host   *netns.Handle
	kernel *kernel.Kernel
}

// open makes a runtime, which has so long to undo a failed ADD; 0 is the default.
func (w wiring) open(undo time.Duration) (*side, error) {
	log := slog.New(slog.DiscardHandler)
	host, err := netns.Open(w.pod("host"))
	if err != nil {
		return nil, err
	}
	k, err := kernel.New(kernel.Config{Host: host, Log: log})
	if err != nil {
		return nil, err
	}
	store, err := leases.New(leases.Config{StateDir: w.path(w.State), Log: log})
	if err != nil {
		return nil, err
	}
	s := &side{host: host, kernel: k}
	s.runner = builtin.New(builtin.Config{
		Plugins: plugins.All(), Kernel: planned.Wrap(k), Leases: store, Originals: originals.Store{}, Answers: k.Answers,
		Programs: libcni.NewExecRunner(os.Environ(), nil), Env: os.Environ(), Log: log,
	})
	s.CNI, err = libcni.New(libcni.Config{
		PluginDirs: []string{w.path("bin")}, StateDir: w.path(w.State), LockDir: w.path("lock"), Runner: s.runner,
		Log: log, UndoTimeout: undo,
	})
	return s, err
}

func (s *side) Close() error { return errors.Join(s.kernel.Close(), s.host.Close()) }

// machine is a host with its pods and folders. Several processes can be runtimes on it.
type machine struct {
	testing.TB
	wiring
	host *netns.Handle
	pods map[string]*netns.Handle
}

// newMachine makes a machine on which nothing was ever done.
func newMachine(t testing.TB) *machine {
	t.Helper()
	sandbox.Require(t)
	m := &machine{TB: t, wiring: wiring{Dir: t.TempDir(), State: "state"}, pods: map[string]*netns.Handle{}}
	for _, dir := range []string{"ns", "bin", "conf"} {
		m.must(os.Mkdir(m.path(dir), 0o755))
	}
	m.bootHost()
	t.Cleanup(func() {
		for id := range m.pods {
			m.removePod(id)
		}
		m.must(errors.Join(netns.Unmount(m.pod("host")), m.host.Close()))
	})
	return m
}

func (m *machine) must(err error) {
	m.Helper()
	if err != nil {
		m.Fatal(err)
	}
}

// bootHost makes the host's namespace.
func (m *machine) bootHost() {
	m.Helper()
	var err error
	m.host, err = netns.Mount(m.pod("host"))
	m.must(err)
	m.must(m.host.Do(exec.Command("ip", "link", "set", "lo", "up").Run))
}

// newPod makes a container's namespace, in place of the one there was.
func (m *machine) newPod(id string) {
	m.Helper()
	m.removePod(id)
	h, err := netns.Mount(m.pod(id))
	m.must(err)
	m.pods[id] = h
}

func (m *machine) removePod(id string) {
	m.Helper()
	if h := m.pods[id]; h != nil {
		delete(m.pods, id)
		m.must(errors.Join(netns.Unmount(m.pod(id)), h.Close()))
	}
}

// open makes a runtime that is closed with the test.
func (m *machine) open(undo time.Duration) *side {
	m.Helper()
	s, err := m.wiring.open(undo)
	m.must(err)
	m.Cleanup(func() { m.must(s.Close()) })
	return s
}

// attachment is what a container is added with: a published port beside what every one has.
func (w wiring) attachment(id string, port int) *libcni.RuntimeConf {
	rt := &libcni.RuntimeConf{ContainerID: id, NetNS: w.pod(id), IfName: "eth0"}
	if port > 0 {
		rt.CapabilityArgs = map[string]any{"portMappings": []cni.PortMapping{{HostPort: port, ContainerPort: 80, Protocol: "tcp"}}}
	}
	return rt
}

// conf is the configuration of a network of these plugins.
func conf(plugins ...map[string]any) []byte {
	raw, err := json.Marshal(map[string]any{"cniVersion": cni.Current, "name": network, "plugins": plugins})
	if err != nil {
		panic(fmt.Sprintf("encode configuration: %v", err)) // it is a constant of a test
	}
	return raw
}

func (m *machine) list(plugins ...map[string]any) *libcni.NetworkConfigList {
	m.Helper()
	list, err := libcni.ConfListFromBytes(conf(plugins...))
	m.must(err)
	return list
}

// bridge is a bridge with addresses of a /24 from dataDir.
func (w wiring) bridge() map[string]any {
	return map[string]any{
		"type": "bridge", "bridge": "cni0", "ipMasq": true, "isDefaultGateway": true,
		"ipam": map[string]any{"type": "host-local", "dataDir": w.path("data"), "ranges": []any{[]any{map[string]any{"subnet": "10.99.0.0/24"}}}},
	}
}

func portmap() map[string]any {
	return map[string]any{"type": "portmap", "capabilities": map[string]any{"portMappings": true}}
}

// chain is every plugin that a pod can have at once.
func (w wiring) chain() []map[string]any {
	return []map[string]any{
		w.bridge(), portmap(), {"type": "firewall"},
		{"type": "bandwidth", "ingressRate": 80_000_000, "ingressBurst": 8_000_000, "egressRate": 80_000_000, "egressBurst": 8_000_000},
		{"type": "tuning", "dataDir": w.path("tuning"), "mtu": 1400, "promisc": true, "sysctl": map[string]string{"net.core.somaxconn": "500"}},
	}
}

// settle adds the bystander, and adds and deletes the subject once; what there is then is the clean state.
func (m *machine) settle(s *side, list *libcni.NetworkConfigList) (clean string) {
	m.Helper()
	for _, id := range []string{bystander, subject} {
		m.newPod(id)
		_, err := s.AddNetworkList(m.Context(), list, m.attachment(id, portOf(id)))
		m.must(err)
	}
	m.must(s.DelNetworkList(m.Context(), list, m.attachment(subject, 0)))
	return m.dump()
}

// portOf is the published port of a container: the bystander and the subject have different ones.
func portOf(id string) int { return 8000 + len(id) }

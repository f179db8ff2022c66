//go:build amd64 || arm64

package crash

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cleat-cni/cleat/internal/kernel"
	"github.com/cleat-cni/cleat/internal/netns"
)

// network is the name of the network in every world.
const network = "crash"

// The containers of a world.
const (
	subject   = "subject"   // is added, deleted and so on while things go wrong
	bystander = "bystander" // was there before and must notice nothing
	successor = "successor" // comes afterwards, with the ports of the subject
)

// chain is a network's plugins.
type chain struct {
	name    string
	flags   func(id string) []string // that a container is added with
	plugins func(dataDir string) []map[string]any
}

func chains() []chain {
	published := func(id string) []string {
		if id == bystander {
			return nil
		}
		return []string{"--publish", "8080:80", "--publish", "8053:53/udp"}
	}
	return []chain{
		{name: "bridge", flags: published, plugins: func(dataDir string) []map[string]any {
			return bridged(dataDir, "nftables")
		}},
		{name: "iptables", flags: published, plugins: func(dataDir string) []map[string]any {
			return bridged(dataDir, "iptables")
		}},
		{name: "firewall", flags: published, plugins: func(dataDir string) []map[string]any {
			return append(bridged(dataDir, "nftables"), map[string]any{"type": "firewall", "ingressPolicy": "isolated"})
		}},
		{name: "firewall-iptables", flags: published, plugins: func(dataDir string) []map[string]any {
			return append(bridged(dataDir, "iptables"), map[string]any{"type": "firewall", "backend": "iptables", "ingressPolicy": "same-bridge"})
		}},
		{name: "ptp", flags: published, plugins: func(dataDir string) []map[string]any {
			return []map[string]any{{"type": "ptp", "ipMasq": true, "ipam": hostLocal(dataDir)}, portmap("nftables")}
		}},
		{name: "bandwidth", flags: published, plugins: func(dataDir string) []map[string]any {
			return append(bridged(dataDir, "nftables"), map[string]any{"type": "bandwidth",
				"ingressRate": 80_000_000, "ingressBurst": 8_000_000, "egressRate": 80_000_000, "egressBurst": 8_000_000})
		}},
		{name: "tuning", flags: published, plugins: func(dataDir string) []map[string]any {
			return append(bridged(dataDir, "nftables"), map[string]any{"type": "tuning", "dataDir": dataDir + "/tuning",
				"mtu": 1400, "promisc": true, "sysctl": map[string]string{"net.core.somaxconn": "500", "net.ipv4.conf.IFNAME.arp_filter": "1"}})
		}},
		{name: "static", flags: func(id string) []string {
			addrs := map[string]string{bystander: "10.99.0.2/24", subject: "10.99.0.3/24", successor: "10.99.0.4/24"}
			return append(published(id), "--ip", addrs[id])
		}, plugins: func(string) []map[string]any {
			static := map[string]any{"type": "static", "routes": []any{map[string]any{"dst": "0.0.0.0/0"}}}
			return []map[string]any{{"type": "ptp", "capabilities": map[string]any{"ips": true}, "ipam": static}, portmap("nftables")}
		}},
	}
}

// bridged are a bridge with masquerade and leases, and published ports.
func bridged(dataDir, backend string) []map[string]any {
	return []map[string]any{{
		"type": "bridge", "bridge": "cni0", "ipMasq": true, "ipMasqBackend": backend, "isDefaultGateway": true, "ipam": hostLocal(dataDir),
	}, portmap(backend)}
}

func hostLocal(dataDir string) map[string]any {
	return map[string]any{
		"type": "host-local", "dataDir": dataDir, "routes": []any{map[string]any{"dst": "0.0.0.0/0"}},
		"ranges": []any{[]any{map[string]any{"subnet": "10.99.0.0/24"}}},
	}
}

func portmap(backend string) map[string]any {
	return map[string]any{"type": "portmap", "backend": backend, "capabilities": map[string]any{"portMappings": true}}
}

// form is how the plugins run.
type form string

const (
	builtIn form = "built-in"
	execd   form = "exec"
)

// setup is what all worlds of a worker share.
type setup struct {
	base string // an empty folder of the worker's own
	bin  string // with cleat and cleat-cni
	self string // this program
}

// world is a host with a network: namespaces and folders of its own.
type world struct {
	setup
	chain chain
	form  form
	cold  bool // nothing was ever added
	dir   string
	host  *netns.Handle
	k     *kernel.Kernel // the host's, of verbs that are done in this process
	pods  map[string]*netns.Handle
	clean string // what the host is like when nobody but the bystander is attached
	other string // and the bystander's namespace
	boot  int
}

// mounts gives the worker's process, which is in a mount namespace of its own, an empty /run/cleat and files in place
// of the boot id and the boot time.
func (s setup) mounts() error {
	if err := unix.Mount("tmpfs", s.base, "tmpfs", 0, "mode=0755"); err != nil {
		return fmt.Errorf("mount on %s: %w", s.base, err)
	}
	if err := os.MkdirAll("/run/cleat", 0o755); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", "/run/cleat", "tmpfs", 0, "mode=0755"); err != nil {
		return fmt.Errorf("mount on /run/cleat: %w", err)
	}
	for name, over := range map[string]string{"boot_id": "/proc/sys/kernel/random/boot_id", "stat": "/proc/stat"} {
		file := filepath.Join(s.base, name)
		if err := os.WriteFile(file, nil, 0o644); err != nil {
			return err
		}
		if err := unix.Mount(file, over, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("mount on %s: %w", over, err)
		}
	}
	return nil
}

// booted writes what the kernel says about its boot.
func (s setup) booted(id string, at time.Time) error {
	return errors.Join(os.WriteFile(filepath.Join(s.base, "boot_id"), []byte(id+"\n"), 0o644),
		os.WriteFile(filepath.Join(s.base, "stat"), fmt.Appendf(nil, "btime %d\n", at.Unix()), 0o644))
}

// newWorld makes a world. Unless it is cold there is a bystander, and the subject was added and deleted once.
func newWorld(s setup, c chain, f form, cold bool) (*world, error) {
	w := &world{setup: s, chain: c, form: f, cold: cold, pods: map[string]*netns.Handle{}}
	var err error
	if w.dir, err = os.MkdirTemp(s.base, "world"); err != nil {
		return nil, err
	}
	if err := w.newHost(); err != nil {
		return nil, err
	}
	if err := w.furnish(); err != nil {
		return w, errors.Join(err, w.close())
	}
	return w, nil
}

// newHost makes a host's namespace, in place of the one there was.
func (w *world) newHost() error {
	if w.host != nil {
		if err := errors.Join(w.k.Close(), w.host.Close()); err != nil {
			return err
		}
	}
	var err error
	if w.host, err = netns.New(); err != nil {
		return err
	}
	if w.k, err = kernel.New(kernel.Config{Host: w.host}); err != nil {
		return errors.Join(err, w.host.Close())
	}
	return w.host.Do(exec.Command("ip", "link", "set", "lo", "up").Run)
}

func (w *world) furnish() error {
	if err := w.booted(w.bootID(), time.Now().Add(-2*time.Hour)); err != nil {
		return err
	}
	if err := emptyDir("/run/cleat"); err != nil {
		return err
	}
	for _, dir := range []string{"conf", "bin", "ns"} {
		if err := os.Mkdir(w.path(dir), 0o755); err != nil {
			return err
		}
	}
	conf, err := json.Marshal(map[string]any{"cniVersion": "1.1.0", "name": network, "plugins": w.chain.plugins(w.path("data"))})
	if err != nil {
		return err
	}
	if err := os.WriteFile(w.path("conf", network+".conflist"), conf, 0o644); err != nil {
		return err
	}
	for _, typ := range []string{"bandwidth", "bridge", "ptp", "host-local", "static", "portmap", "tuning", "firewall"} {
		if err := os.Symlink(filepath.Join(w.bin, "cleat-cni"), w.path("bin", typ)); err != nil {
			return err
		}
	}
	if w.cold {
		return nil
	}
	return w.settle()
}

// settle adds the bystander, adds and deletes the subject once, and takes the state for the clean one.
func (w *world) settle() error {
	for _, id := range []string{bystander, subject} {
		if err := w.newPod(id); err != nil {
			return err
		}
		if err := w.setUp("add", id); err != nil {
			return err
		}
	}
	if err := w.setUp("del", subject); err != nil {
		return err
	}
	var err error
	if w.clean, err = w.hostDump(); err != nil {
		return err
	}
	w.other, err = dumpOf(w.pods[bystander])
	return err
}

func (w *world) path(parts ...string) string {
	return filepath.Join(append([]string{w.dir}, parts...)...)
}
func (w *world) bootID() string           { return fmt.Sprintf("%08d-0000-4000-8000-%s", w.boot, "000000000000") }
func (w *world) podPath(id string) string { return w.path("ns", id) }

// newPod makes a container's namespace, in place of the one there was.
func (w *world) newPod(id string) error {
	if err := w.removePod(id); err != nil {
		return err
	}
	h, err := netns.Mount(w.podPath(id))
	if err != nil {
		return err
	}
	w.pods[id] = h
	return nil
}

func (w *world) removePod(id string) error {
	h := w.pods[id]
	if h == nil {
		return nil
	}
	delete(w.pods, id)
	return errors.Join(netns.Unmount(w.podPath(id)), h.Close())
}

// close takes the world away.
func (w *world) close() error {
	var errs []error
	for id := range w.pods {
		errs = append(errs, w.removePod(id))
	}
	return errors.Join(append(errs, w.k.Close(), w.host.Close(), os.RemoveAll(w.dir))...)
}

// reboot does what a power cycle does: all namespaces, links and rules are gone, and so is /run; the disk stays.
func (w *world) reboot() error {
	for _, id := range []string{subject, bystander, successor} {
		if err := w.removePod(id); err != nil {
			return err
		}
	}
	if err := errors.Join(w.newHost(), emptyDir("/run/cleat")); err != nil {
		return err
	}
	w.boot++
	// What was written before the boot is older than it.
	before := time.Now().Add(-time.Hour)
	err := filepath.WalkDir(w.path("data"), func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chtimes(path, before, before)
	})
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return w.booted(w.bootID(), time.Now().Add(-time.Minute))
}

func emptyDir(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

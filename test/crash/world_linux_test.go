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
	successor = "successor" // comes afterwards, with a port of the subject
)

// form is how the plugins run.
type form string

const (
	builtIn   form = "built-in"
	execd     form = "exec"
	reference form = "cnitool" // under the reference's runtime
)

// peersKey is the variable with the folder of the reference's programs, which scripts/peers builds.
const peersKey = "CLEAT_PEERS"

// forms are those that can be tried here.
func forms() []form {
	if os.Getenv(peersKey) == "" {
		return []form{builtIn, execd}
	}
	return []form{builtIn, execd, reference}
}

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
	took  map[string]time.Duration // of verbs, as usual tells
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
	for _, dir := range []string{"/run/cleat", referenceState} {
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=0755"); err != nil {
			return fmt.Errorf("mount on %s: %w", dir, err)
		}
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
	w := &world{setup: s, chain: c, form: f, cold: cold, pods: map[string]*netns.Handle{}, took: map[string]time.Duration{}}
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
	if err := errors.Join(emptyDir("/run/cleat"), emptyDir(referenceState)); err != nil {
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

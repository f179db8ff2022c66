package native

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cleat-cni/cleat/internal/agent/monitor"
	"github.com/cleat-cni/cleat/internal/agent/network"
	"github.com/cleat-cni/cleat/internal/agent/spawn"
	"github.com/cleat-cni/cleat/internal/atomicfile"
	"github.com/cleat-cni/cleat/internal/netns"
	"github.com/cleat-cni/cleat/internal/ownfile"
	"github.com/cleat-cni/cleat/netstate"
)

// sandboxRecord is what is written down of a sandbox, in <root>/sandboxes/<id>/sandbox.json.
type sandboxRecord struct {
	ID        string    `json:"id"`
	UID       types.UID `json:"uid"`
	Name      string    `json:"name"`
	Namespace string    `json:"namespace"`
	Attempt   int       `json:"attempt"`
	CreatedAt time.Time `json:"createdAt"`
	Boot      string    `json:"boot"` // the kernel's boot id; its processes and namespaces are gone after another boot

	HostNetwork bool                 `json:"hostNetwork,omitempty"`
	NetNS       string               `json:"netns,omitempty"`    // path of the namespace; "" with the host's network
	Networks    []network.Attachment `json:"networks,omitempty"` // written before the first ADD, taken away after the last DEL
	IPs         []netip.Addr         `json:"ips,omitempty"`
	Pause       spawn.Identity       `json:"pause"`
	Stopped     bool                 `json:"stopped,omitempty"` // all of it is taken down
}

// containerRecord is what is written down of a container, in container.json of its folder.
type containerRecord struct {
	ID           string    `json:"id"`
	SandboxID    string    `json:"sandboxID"`
	Name         string    `json:"name"`
	Image        string    `json:"image,omitempty"`
	ImageID      string    `json:"imageID,omitempty"`
	Hash         string    `json:"hash"`
	RestartCount int       `json:"restartCount"`
	CreatedAt    time.Time `json:"createdAt"`
	StartedAt    time.Time `json:"startedAt,omitzero"`

	Monitor    spawn.Identity `json:"monitor"`
	Process    spawn.Identity `json:"process"`
	StopSignal unix.Signal    `json:"stopSignal"`
	LogPath    string         `json:"logPath"`
	Cgroup     string         `json:"cgroup"`
	// TerminationLog is the host's path of what the container may write its last words to.
	TerminationLog   string `json:"terminationLog,omitempty"`
	FallbackToOutput bool   `json:"fallbackToOutput,omitempty"` // or the end of its log, if that is empty and it failed
	// Host is how commands are run in it (exec); nil if runc does it.
	Host *hostPlace `json:"host,omitempty"`
}

// hostPlace is where a host command runs.
type hostPlace struct {
	Env        []string          `json:"env"`
	Dir        string            `json:"dir"`
	Namespaces []netns.Namespace `json:"namespaces"`
}

const (
	sandboxFile   = "sandbox.json"
	containerFile = "container.json"
)

// now is the time as it is written down and read back: without the monotonic clock.
func now() time.Time { return time.Now().Round(0) }

// newID returns a random ID of 64 hex digits, as container runtimes give.
func newID() string {
	var b [32]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

func (r *Runtime) sandboxDir(id string) string { return r.path("sandboxes", id) }

func (r *Runtime) containerDir(c *containerRecord) string {
	return r.path("sandboxes", c.SandboxID, "containers", c.ID)
}

// save writes a record into a folder, which is made.
func save(dir, file string, record any) error {
	data, err := json.Marshal(record)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(dir, file), data, 0o600)
}

// maxRecord bounds what is read of a record. The longest have a container's environment.
const maxRecord = 16 << 20

// read reads a record.
func read(path string, record any) error {
	data, err := ownfile.Read(path, maxRecord)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, record); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

// podFile is the record of a pod in its folder.
const podFile = "pod.json"

// podRecord says whose files are in a pod's folder. It is written before them.
type podRecord struct {
	UID       types.UID `json:"uid"`
	Name      string    `json:"name"`
	Namespace string    `json:"namespace"`
	CreatedAt time.Time `json:"createdAt,omitzero"` // when it was written first
}

// keepPod writes a pod down. When it was made first stays.
func (r *Runtime) keepPod(rec podRecord) error {
	r.mu.Lock()
	rec.CreatedAt = r.pods[rec.UID].CreatedAt
	r.mu.Unlock()
	if rec.CreatedAt.IsZero() {
		rec.CreatedAt = now()
	}
	if err := save(r.podDir(rec.UID), podFile, rec); err != nil {
		return fmt.Errorf("write down pod %s: %w", rec.UID, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pods[rec.UID] = rec
	return nil
}

// loadPods reads whose files there are. A folder without a record that can be read is of the UID that it is named by, and its pod has that for
// a name.
func (r *Runtime) loadPods() error {
	entries, err := os.ReadDir(r.path("pods"))
	if err != nil {
		return err
	}
	for _, e := range entries {
		uid := types.UID(e.Name())
		var rec podRecord
		err := read(filepath.Join(r.podDir(uid), podFile), &rec)
		if err != nil || rec.UID != uid || rec.Name == "" {
			r.log.Warn("the record of a pod can't be read", "uid", uid, "error", err)
			rec = podRecord{UID: uid, Name: string(uid)}
		}
		r.pods[uid] = rec
	}
	return nil
}

// load reads what earlier runtimes left. What can't be read is moved aside, with a word in the log: it must keep no agent from
// starting, and nothing of it is removed.
func (r *Runtime) load(ctx context.Context) error {
	entries, err := os.ReadDir(r.path("sandboxes"))
	if err != nil {
		return err
	}
	for _, e := range entries {
		dir := r.sandboxDir(e.Name())
		var rec sandboxRecord
		err := read(filepath.Join(dir, sandboxFile), &rec)
		switch {
		case errors.Is(err, fs.ErrNotExist): // killed before it was written: nothing was made
			if err := os.RemoveAll(dir); err != nil {
				return err
			}
			continue
		case err != nil || rec.ID != e.Name():
			if err := errors.Join(r.aside(dir, errors.Join(err, wrongID(rec.ID, e.Name()))), r.endLost(ctx, e.Name())); err != nil {
				return err
			}
			continue
		}
		s := &sandbox{rec: rec, done: make(chan struct{})}
		r.sandboxes[rec.ID] = s
		r.adopt(s)
		if err := r.loadContainers(s); err != nil {
			return err
		}
	}
	return nil
}

// endLost ends what runs of a sandbox whose record can't be read: all in its control groups, its pause process, and what else is in its network
// namespace. What is attached is freed by the collection.
func (r *Runtime) endLost(ctx context.Context, id string) error {
	pods, err := r.groups.Children(r.cfg.Cgroup)
	errs := []error{err}
	for _, uid := range pods {
		errs = append(errs, r.groups.Remove(ctx, r.cfg.Cgroup+"/"+uid+"/"+id))
	}
	path := r.path("netns", id)
	ns, err := netns.Open(path)
	switch {
	case err == nil:
		defer ns.Close()
	case !errors.Is(err, netstate.ErrNotExist) && !errors.Is(err, netstate.ErrNotNamespace): // it has the host's, or never got one
		return errors.Join(append(errs, err)...)
	}
	processes, err := filepath.Glob("/proc/[0-9]*")
	errs = append(errs, err)
	for _, dir := range processes {
		of, err := isPauseOf(dir, id), error(nil)
		if !of && ns != nil {
			of, err = isIn(dir, ns)
		}
		if errs = append(errs, err); of {
			errs = append(errs, end(ctx, dir))
		}
	}
	return errors.Join(append(errs, netns.Unmount(path))...)
}

// pauseEnv names the sandbox in the environment of its pause process.
const pauseEnv = "CLEAT_SANDBOX="

// isPauseOf reports whether the process of a folder below /proc is the pause process of a sandbox. One that has ended is none.
func isPauseOf(dir, id string) bool {
	env, err := os.ReadFile(filepath.Join(dir, "environ"))
	return err == nil && slices.Contains(strings.Split(string(env), "\x00"), pauseEnv+id)
}

// isIn reports whether the process of a folder below /proc is in a namespace. One that has ended is in none.
func isIn(dir string, ns *netns.Handle) (bool, error) {
	h, err := netns.Open(filepath.Join(dir, "ns/net"))
	if err != nil {
		return false, nil
	}
	defer h.Close()
	return ns.Same(h)
}

// end ends the process of a folder below /proc.
func end(ctx context.Context, dir string) error {
	pid, err := strconv.Atoi(filepath.Base(dir))
	if err != nil {
		return err
	}
	id, err := spawn.Identify(pid)
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(send(id, unix.SIGKILL), id.Wait(ctx))
}

func wrongID(id, name string) error {
	if id == name {
		return nil
	}
	return fmt.Errorf("the record in %s names another, %q", name, id)
}

// aside moves a folder with an unreadable record out of the way.
func (r *Runtime) aside(dir string, cause error) error {
	to := r.path("unreadable", filepath.Base(dir)+"-"+newID()[:8])
	r.log.Error("a record can't be read; its folder is moved aside", "folder", dir, "to", to, "error", cause)
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	return os.Rename(dir, to)
}

func (r *Runtime) loadContainers(s *sandbox) error {
	parent := filepath.Join(r.sandboxDir(s.rec.ID), "containers")
	entries, err := os.ReadDir(parent)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		dir := filepath.Join(parent, e.Name())
		var rec containerRecord
		err := read(filepath.Join(dir, containerFile), &rec)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			if err := r.discard(dir); err != nil {
				return err
			}
			continue
		case err != nil || rec.ID != e.Name() || rec.SandboxID != s.rec.ID:
			if err := r.aside(dir, errors.Join(err, wrongID(rec.ID, e.Name()))); err != nil {
				return err
			}
			continue
		}
		c := &ctr{rec: rec, uid: s.rec.UID, dir: dir, done: make(chan struct{})}
		r.containers[rec.ID] = c
		r.watch(c, s.rec.Boot == r.boot)
	}
	return nil
}

// exitOf reads how a container ended; false as long as it has not.
func exitOf(dir string) (monitor.Exit, bool) {
	e, err := monitor.ReadExit(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return e, false
	}
	if err != nil {
		return monitor.Exit{Code: 128, Error: err.Error()}, true
	}
	return e, true
}

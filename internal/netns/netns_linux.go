package netns

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/cleat-cni/cleat/netstate"
)

// Handle is an open network namespace. It keeps the namespace alive until Close. All
// methods may be called from several goroutines.
type Handle struct {
	file *os.File
	path string
}

// nsfsMagic is the file system type of /proc/<pid>/ns files (linux/magic.h).
const nsfsMagic = 0x6e736673

// Open opens the namespace at path. A path that is not there is
// netstate.ErrNotExist; a file, a FIFO, a folder or a namespace of another kind
// is netstate.ErrNotNamespace. Nothing that path may name is ever waited for.
func Open(path string) (*Handle, error) {
	// O_NONBLOCK: a FIFO without a writer must not hold us.
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return nil, fmt.Errorf("open namespace %s: %w", path, netstate.ErrNotExist)
	}
	if errors.Is(err, unix.ENXIO) {
		return nil, fmt.Errorf("open namespace %s: %w: a socket or device", path, netstate.ErrNotNamespace)
	}
	if err != nil {
		return nil, fmt.Errorf("open namespace %s: %w", path, err)
	}
	h := &Handle{file: os.NewFile(uintptr(fd), path), path: path}
	if err := h.check(); err != nil {
		h.Close()
		return nil, err
	}
	return h, nil
}

// check proves that the handle is a network namespace (NS_GET_NSTYPE, Linux 4.11).
func (h *Handle) check() error {
	var st unix.Statfs_t
	if err := unix.Fstatfs(h.FD(), &st); err != nil {
		return fmt.Errorf("examine namespace %s: %w", h.path, err)
	}
	if st.Type != nsfsMagic {
		return fmt.Errorf("open namespace %s: %w: %s", h.path, netstate.ErrNotNamespace, h.whatItIs(int64(st.Type)))
	}
	kind, err := unix.IoctlRetInt(h.FD(), unix.NS_GET_NSTYPE)
	if err != nil {
		return fmt.Errorf("examine namespace %s: %w", h.path, err)
	}
	if kind != unix.CLONE_NEWNET {
		return fmt.Errorf("open namespace %s: %w: a namespace of another kind", h.path, netstate.ErrNotNamespace)
	}
	return nil
}

func (h *Handle) whatItIs(fsType int64) string {
	var st unix.Stat_t
	if err := unix.Fstat(h.FD(), &st); err != nil {
		return "unknown"
	}
	switch {
	case fsType == unix.PROC_SUPER_MAGIC:
		// A mount point whose namespace was never bound shows the folder below.
		return "a file of /proc"
	case st.Mode&unix.S_IFMT == unix.S_IFDIR:
		return "a folder"
	case st.Mode&unix.S_IFMT == unix.S_IFIFO:
		return "a FIFO"
	case st.Mode&unix.S_IFMT == unix.S_IFREG:
		return "a regular file (its namespace was unmounted)"
	default:
		return "a special file"
	}
}

// Current opens the namespace of the calling thread.
func Current() (*Handle, error) { return Open("/proc/thread-self/ns/net") }

// New makes a namespace without a name; it ends with the last handle, socket or process
// in it.
func New() (*Handle, error) {
	var h *Handle
	err := onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("make network namespace: %w", err)
		}
		var err error
		h, err = Current()
		return err
	})
	if err != nil {
		return nil, err
	}
	h.path = fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), h.FD())
	return h, nil
}

// Mount makes a namespace and binds it to path, where it lives until [Unmount]. The file is
// made; one that is there is an error.
func Mount(path string) (*Handle, error) {
	h, err := New()
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDONLY, 0o444)
	if err != nil {
		h.Close()
		return nil, fmt.Errorf("make namespace %s: %w", path, err)
	}
	f.Close()
	if err := unix.Mount(h.path, path, "", unix.MS_BIND, ""); err != nil {
		os.Remove(path)
		h.Close()
		return nil, fmt.Errorf("mount namespace %s: %w", path, err)
	}
	h.path = path
	return h, nil
}

// Unmount takes the name path from its namespace and removes the file. What is not there
// is success.
func Unmount(path string) error {
	err := unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("unmount namespace %s: %w", path, err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove namespace %s: %w", path, err)
	}
	return nil
}

// FD returns the descriptor, valid until Close.
func (h *Handle) FD() int { return int(h.file.Fd()) }

// Path returns the path it was opened by or mounted at; for one of [New] a path below
// /proc that other processes of this user can open too, while the handle is open.
func (h *Handle) Path() string { return h.path }

// Same reports whether both handles are of one namespace.
func (h *Handle) Same(other *Handle) (bool, error) {
	var a, b unix.Stat_t
	if err := unix.Fstat(h.FD(), &a); err != nil {
		return false, fmt.Errorf("examine namespace %s: %w", h.path, err)
	}
	if err := unix.Fstat(other.FD(), &b); err != nil {
		return false, fmt.Errorf("examine namespace %s: %w", other.path, err)
	}
	return a.Dev == b.Dev && a.Ino == b.Ino, nil
}

// Cookie returns the number that the kernel gives each namespace once and never again
// (SO_NETNS_COOKIE, Linux 5.14), unlike the inode, which is reused at once. On an older kernel it
// is 0.
func (h *Handle) Cookie() (uint64, error) {
	var cookie uint64
	err := h.Do(func() error {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		cookie, err = unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
		if errors.Is(err, unix.ENOPROTOOPT) {
			return nil
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("read cookie of namespace %s: %w", h.path, err)
	}
	return cookie, nil
}

// Do runs f on a thread inside the namespace and waits for it. Processes that f starts are
// in the namespace; goroutines that it starts are not.
func (h *Handle) Do(f func() error) error {
	return onThread(func() error {
		home, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("leave for namespace %s: %w", h.path, err)
		}
		defer goHome(home)
		if err := unix.Setns(h.FD(), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter namespace %s: %w", h.path, err)
		}
		return f()
	})
}

// goHome moves the thread back and frees it for other goroutines, which is much cheaper than a new thread for each visit. One that can't
// go back, as the kernel may lack the memory for it, stays locked and ends with its goroutine.
func goHome(home int) {
	if unix.Setns(home, unix.CLONE_NEWNET) == nil {
		runtime.UnlockOSThread()
	}
	unix.Close(home)
}

// Close closes the handle.
func (h *Handle) Close() error { return h.file.Close() }

// Namespace is one of any kind that a thread can enter.
type Namespace struct {
	Path string `json:"path"` // /proc/<pid>/ns/uts, or wherever it is bound
	Type int    `json:"type"` // unix.CLONE_NEWUTS, …
}

// In runs f on a thread inside several namespaces, entered in their order, and waits for it. Of a PID namespace only the processes
// that f starts are in it. User and mount namespaces can't be entered so.
func In(namespaces []Namespace, f func() error) error {
	return onThread(func() error {
		for _, n := range namespaces {
			if err := n.enter(); err != nil {
				return err
			}
		}
		return f()
	})
}

func (n Namespace) enter() error {
	file, err := os.Open(n.Path)
	if err != nil {
		return fmt.Errorf("enter namespace: %w", err)
	}
	defer file.Close()
	if err := unix.Setns(int(file.Fd()), n.Type); err != nil {
		return fmt.Errorf("enter namespace %s: %w", n.Path, err)
	}
	return nil
}

// onThread runs f on a locked thread that is thrown away with its goroutine, unless f unlocks it: the runtime
// ends a thread whose goroutine exits locked. A panic is handed to the caller.
func onThread(f func() error) error {
	var (
		err      error
		panicked any
		returned atomic.Bool
		done     = make(chan struct{})
	)
	go func() {
		defer close(done)
		defer func() {
			if !returned.Load() {
				panicked = recover()
			}
		}()
		runtime.LockOSThread()
		if unix.Gettid() == os.Getpid() {
			// The runtime can't end the main thread: it would sleep in the namespace for good, and the namespace
			// would never end; and what others see of the process below /proc is the main thread's. While this
			// goroutine has it, another one gets another.
			err = onThread(f)
			runtime.UnlockOSThread()
		} else {
			err = f()
		}
		returned.Store(true)
	}()
	<-done
	if panicked != nil {
		panic(panicked)
	}
	if !returned.Load() {
		return errors.New("function in the namespace ended its goroutine")
	}
	return err
}

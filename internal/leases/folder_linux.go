package leases

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cleat-cni/cleat/internal/filelock"
	"github.com/cleat-cni/cleat/internal/ownfile"
	"github.com/cleat-cni/cleat/netstate"
)

// access says what a folder is opened for.
type access int

const (
	forReserve access = iota // folders are made, the lock is held
	forChange                // a missing folder is fs.ErrNotExist, the lock is held
	forLook                  // nothing is made, changed or locked; a missing folder is an empty one
)

// folder is a network's folder, open and locked for one operation.
type folder struct {
	cfg  Config
	pool netstate.Pool
	how  access
	net  dir
	meta dir            // fd -1 where it is missing and can't be made: then there is no index
	lock *filelock.Lock // nil for forLook

	index      int                // descriptor of the index, -1 without one
	head       header             // of the index
	trusted    bool               // the index agrees with the folder
	changed    bool               // the folder was changed since it was marked
	byOwner    map[holder][]lease // all leases, if the folder was walked
	unreadable error              // then: the files that could not be read
	freed      []lease            // what the last boot left and settle took away

	// forLook: what settle would have taken away and brought back.
	void     map[netip.Addr]bool
	restored map[netip.Addr]holder
}

// lease is a lease file.
type lease struct {
	addr   netip.Addr
	holder holder // zero: the file names nobody
	made   time.Time
	inode  uint64
}

// open opens and locks the folder of p's network, undoes what a killed writer left, and
// takes away what the last boot left.
func (s *Store) open(ctx context.Context, p netstate.Pool, how access) (*folder, error) {
	if p.Network == "" || p.Network[0] == '.' || filepath.Base(p.Network) != p.Network {
		return nil, fmt.Errorf("network name %q: not a file name", p.Network)
	}
	if !filepath.IsAbs(p.Dir) {
		return nil, fmt.Errorf("lease folder %q: not an absolute path", p.Dir)
	}
	f := &folder{
		cfg: s.cfg, pool: p, how: how, index: -1,
		net:  dir{fd: -1, path: filepath.Join(p.Dir, p.Network)},
		meta: dir{fd: -1, path: filepath.Join(p.Dir, ".cleat", p.Network)},
	}
	if err := f.enter(ctx); err != nil {
		return nil, err
	}
	if err := errors.Join(f.recover(ctx), f.settle(ctx)); err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

// enter makes, locks and opens the folders.
func (f *folder) enter(ctx context.Context) error {
	if f.how == forReserve {
		// That something else stands in its place is told below.
		if err := makeFolder(f.net.path, 0o755); err != nil && !errors.Is(err, unix.ENOTDIR) {
			return err
		}
	}
	st, err := os.Lstat(f.net.path)
	if errors.Is(err, fs.ErrNotExist) && f.how == forLook {
		return nil
	}
	if errors.Is(err, unix.ENOTDIR) {
		return &fs.PathError{Op: "open", Path: f.pool.Dir, Err: errNoFolder}
	}
	if err != nil {
		return err
	}
	switch {
	case st.Mode()&fs.ModeSymlink != 0:
		// The lock is opened by path, so the folder must not lead elsewhere.
		return &fs.PathError{Op: "open", Path: f.net.path, Err: errors.New("a symbolic link, which is not followed here")}
	case !st.IsDir():
		return &fs.PathError{Op: "open", Path: f.net.path, Err: errNoFolder}
	}
	if err := f.acquire(ctx); err != nil {
		return err
	}
	if f.net, err = openDir(f.net.path); err != nil {
		f.close()
		return err
	}
	if f.how != forLook {
		err = makeFolder(f.meta.path, 0o700)
	}
	if err == nil {
		f.meta, err = openDir(f.meta.path)
	}
	if err == nil && f.how == forReserve {
		err = f.private()
	}
	if err == nil || (f.how == forLook && errors.Is(err, fs.ErrNotExist)) {
		return nil
	}
	if f.how == forReserve {
		f.close()
		return err
	}
	// DEL and GC don't need it.
	f.cfg.Log.WarnContext(ctx, "no lease index", "folder", f.meta.path, "err", err)
	return nil
}

// private refuses folders that others can write to. What is in them is still freed.
func (f *folder) private() error {
	for _, path := range []string{f.pool.Dir, filepath.Dir(f.meta.path)} {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		// In a folder such as /tmp nobody can take away or replace what is another's.
		if info.Mode()&fs.ModeSticky != 0 {
			continue
		}
		if err := ownfile.Check(info); err != nil {
			return &fs.PathError{Op: "use", Path: path, Err: err}
		}
	}
	return errors.Join(f.net.private(), f.meta.private())
}

// acquire takes the lock that the reference takes too.
func (f *folder) acquire(ctx context.Context) error {
	if f.how == forLook {
		return nil
	}
	path := f.net.join("lock")
	if st, err := os.Lstat(path); err == nil && !st.Mode().IsRegular() {
		return &fs.PathError{Op: "lock", Path: path, Err: errNotFile}
	}
	lock, err := filelock.Acquire(ctx, path)
	f.lock = lock
	return err
}

// makeFolder makes a folder and those above it.
func makeFolder(path string, perm os.FileMode) error {
	err := os.Mkdir(path, perm)
	if errors.Is(err, fs.ErrNotExist) {
		above := os.MkdirAll(filepath.Dir(path), 0o755)
		if errors.Is(above, fs.ErrExist) {
			return &fs.PathError{Op: "make", Path: filepath.Dir(path), Err: errors.New("there is a symbolic link that leads nowhere")}
		}
		if above != nil {
			return above
		}
		err = os.Mkdir(path, perm)
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// close marks the folder, if the index agrees with it, and unlocks it. What was done stays done if that
// fails, so it is only logged: unmarked, the next operation reads the folder anew.
func (f *folder) close() {
	if f.changed && f.trusted && f.how != forLook {
		if err := f.mark(); err != nil {
			f.cfg.Log.Warn("lease index not kept", "folder", f.meta.path, "err", err)
		}
	}
	f.closeIndex()
	f.net.close()
	f.meta.close()
	if f.lock == nil {
		return
	}
	if err := f.lock.Release(); err != nil {
		f.cfg.Log.Warn("lease lock not released", "folder", f.net.path, "err", err)
	}
}

// read reads the lease file of a. A file that names nobody has the zero holder.
func (f *folder) read(a netip.Addr) (lease, error) {
	data, st, err := f.net.read(a.String(), maxLease)
	if err != nil {
		return lease{}, err
	}
	h, _ := parseLease(data)
	return lease{addr: a, holder: h, made: time.Unix(st.Mtim.Unix()), inode: st.Ino}, nil
}

// walk reads every lease file, in the order of the addresses. Files that can't be read are
// left out and named by the second value.
func (f *folder) walk(ctx context.Context) (files []lease, unreadable, err error) {
	addrs, err := f.taken()
	if err != nil {
		return nil, nil, err
	}
	var errs []error
	for _, a := range addrs {
		if ctx.Err() != nil {
			return nil, nil, fmt.Errorf("list %s: %w", f.net.path, context.Cause(ctx))
		}
		l, err := f.read(a)
		switch {
		case errors.Is(err, errNotFile):
			f.cfg.Log.WarnContext(ctx, "not a lease", "err", err)
		case errors.Is(err, fs.ErrNotExist):
			// Only where nobody holds the lock.
		case err != nil:
			errs = append(errs, err)
		default:
			files = append(files, l)
		}
	}
	return files, errors.Join(errs...), nil
}

// taken lists the names that are addresses, whatever they are, in their order.
func (f *folder) taken() ([]netip.Addr, error) {
	if f.net.fd < 0 {
		return nil, nil
	}
	names, err := f.net.names()
	if err != nil {
		return nil, err
	}
	addrs := make([]netip.Addr, 0, len(names))
	for _, name := range names {
		if a, ok := parseName(name); ok {
			addrs = append(addrs, a)
		}
	}
	slices.SortFunc(addrs, netip.Addr.Compare)
	return addrs, nil
}

// drop removes the lease file of a. One that is gone is success.
func (f *folder) drop(a netip.Addr) error {
	err := f.net.remove(a.String())
	switch {
	case err == nil:
		f.changed = true
	case errors.Is(err, fs.ErrNotExist):
		return nil
	}
	return err
}

// lease is what callers see of a lease.
func (f *folder) lease(a netip.Addr, h holder) netstate.Lease {
	return netstate.Lease{
		Network: f.pool.Network,
		Addr:    a,
		Store:   f.pool.Dir,
		Owner:   netstate.Owner{Network: f.pool.Network, ContainerID: h.id, IfName: h.ifName},
	}
}

// collect removes what is not in valid.
func (f *folder) collect(ctx context.Context, valid map[holder]bool) ([]lease, error) {
	files, unreadable, err := f.walk(ctx)
	if err != nil {
		return f.freed, err
	}
	errs := []error{unreadable}
	freed := f.freed
	kept := make(map[holder][]lease)
	for _, l := range files {
		if valid[l.holder] {
			kept[l.holder] = append(kept[l.holder], l)
			continue
		}
		if f.how != forLook {
			if err := f.drop(l.addr); err != nil {
				errs = append(errs, err)
				kept[l.holder] = append(kept[l.holder], l)
				continue
			}
		}
		freed = append(freed, l)
	}
	f.rebuild(kept, unreadable == nil)
	return freed, errors.Join(errs...)
}

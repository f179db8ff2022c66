package leases

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/cleat-cni/cleat/netstate"
)

// Config configures a [Store]. The zero value works.
type Config struct {
	StateDir string           // where the runtime keeps its records (results/); default /var/lib/cni
	Now      func() time.Time // default time.Now
	BootID   string           // default the kernel's; one that tells none is known by its boot time
	BootTime time.Time        // default the kernel's, read when it is needed
	// Alive says whether a container still has its network namespace. It is asked once a
	// boot for each lease that is older than the boot. Default: whether a record in StateDir names
	// a namespace that can be opened.
	Alive func(containerID string) bool
	Log   *slog.Logger // default: nothing is logged
}

// Store keeps leases on disk. It implements planned.Leases. It holds nothing in memory
// and may be used by several goroutines and processes at once.
type Store struct {
	cfg Config
}

// New returns a store.
func New(cfg Config) (*Store, error) {
	if cfg.StateDir == "" {
		cfg.StateDir = "/var/lib/cni"
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.BootID == "" {
		data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("read boot id: %w", err)
		}
		cfg.BootID = strings.TrimSpace(string(data))
	}
	return &Store{cfg: cfg}, nil
}

// Reserve takes one address of each set of p for owner, all or none; those of p.Want
// instead of free ones. With dryRun it only says which they would be, and waits for no lock;
// then owner may be nobody.
//
// Errors: netstate.ErrExist, if owner holds an address of the network already;
// netstate.ErrInUse, if a wanted one is another's; netstate.ErrExhausted; or what the file
// system said. The text names the files and owners in question.
func (s *Store) Reserve(ctx context.Context, p netstate.Pool, owner netstate.Owner, dryRun bool) ([]netstate.Lease, error) {
	h := holder{id: owner.ContainerID, ifName: owner.IfName}
	// STATUS looks for nobody whether an address is free.
	if !dryRun && !h.valid() {
		return nil, fmt.Errorf("reserve address for %q: not a container and interface that a lease can name", h)
	}
	wants, err := assign(p)
	if err != nil {
		return nil, err
	}
	how := forReserve
	if dryRun {
		how = forLook
	}
	f, err := s.open(ctx, p, how)
	if err != nil {
		return nil, fmt.Errorf("reserve address: %w", err)
	}
	defer f.close()
	addrs, err := f.reserve(ctx, h, wants)
	if err != nil {
		return nil, err
	}
	leases := make([]netstate.Lease, 0, len(addrs))
	for _, a := range addrs {
		leases = append(leases, f.lease(a, h))
	}
	return leases, nil
}

// holdsNothing reports whether an error of open says that no lease can be where they are kept.
func (s *Store) holdsNothing(ctx context.Context, err error) bool {
	if errors.Is(err, errNoFolder) {
		s.cfg.Log.WarnContext(ctx, "no addresses can be kept", "err", err)
		return true
	}
	return errors.Is(err, fs.ErrNotExist)
}

// Held returns what owner holds, in the order of the addresses. A file of the reference's first
// versions, which names no interface, counts if there is no other of the container and
// interface.
func (s *Store) Held(ctx context.Context, p netstate.Pool, owner netstate.Owner) ([]netstate.Lease, error) {
	f, err := s.open(ctx, p, forChange)
	if s.holdsNothing(ctx, err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read leases of %s: %w", owner, err)
	}
	defer f.close()
	h, files, err := f.heldBy(ctx, holder{id: owner.ContainerID, ifName: owner.IfName})
	if err != nil {
		return nil, fmt.Errorf("read leases of %s: %w", owner, err)
	}
	var leases []netstate.Lease
	for _, l := range files {
		leases = append(leases, f.lease(l.addr, h))
	}
	return leases, nil
}

// Release frees what owner holds, as [Store.Held] has it. Nothing held, or no
// folder, is success, and nothing is made for it. A file that can't be removed doesn't keep the
// others.
func (s *Store) Release(ctx context.Context, p netstate.Pool, owner netstate.Owner) error {
	f, err := s.open(ctx, p, forChange)
	if s.holdsNothing(ctx, err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("release addresses of %s: %w", owner, err)
	}
	defer f.close()
	h, files, err := f.heldBy(ctx, holder{id: owner.ContainerID, ifName: owner.IfName})
	errs := []error{err}
	var kept []lease
	for i, l := range files {
		take := f.retire
		if slices.ContainsFunc(files[i+1:], func(m lease) bool { return m.inode == l.inode }) {
			take = f.drop // the file has another name yet
		}
		if err := take(l.addr); err != nil {
			errs = append(errs, err)
			kept = append(kept, l)
		}
	}
	if len(files) > 0 {
		f.setOwner(h, addrsOf(kept))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("release addresses of %s: %w", owner, err)
	}
	return nil
}

// Collect frees, unless dryRun, every lease of the network that is held by none of valid, and
// those that name nobody, and returns what it freed, also beside an error. A file
// without an interface is kept for any interface of its container.
func (s *Store) Collect(ctx context.Context, p netstate.Pool, valid []netstate.Owner, dryRun bool) ([]netstate.Lease, error) {
	how := forChange
	if dryRun {
		how = forLook
	}
	f, err := s.open(ctx, p, how)
	if s.holdsNothing(ctx, err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("collect leases of network %s: %w", p.Network, err)
	}
	defer f.close()
	freed, err := f.collect(ctx, validHolders(valid))
	leases := make([]netstate.Lease, 0, len(freed))
	for _, l := range freed {
		leases = append(leases, f.lease(l.addr, l.holder))
	}
	if err != nil {
		return leases, fmt.Errorf("collect leases of network %s: %w", p.Network, err)
	}
	return leases, nil
}

// validHolders is the set of valid, with an entry without interface for each container.
func validHolders(valid []netstate.Owner) map[holder]bool {
	set := make(map[holder]bool, 2*len(valid))
	for _, o := range valid {
		if o.ContainerID == "" {
			continue // would stand for the files that name nobody
		}
		set[holder{id: o.ContainerID, ifName: o.IfName}] = true
		set[holder{id: o.ContainerID}] = true
	}
	return set
}

func addrsOf(files []lease) []netip.Addr {
	addrs := make([]netip.Addr, 0, len(files))
	for _, l := range files {
		addrs = append(addrs, l.addr)
	}
	return addrs
}

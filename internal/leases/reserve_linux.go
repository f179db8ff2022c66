package leases

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cleat-cni/cleat/netstate"
)

// probes is how many taken addresses are tried one by one, about 5 µs each, before the
// names of the folder are read, about 0.4 µs a lease.
const probes = 32

// lastName is the name of the file with the address given last from set i.
func lastName(i int) string { return "last_reserved_ip." + strconv.Itoa(i) }

// adding is an ADD under way. Its lease file stands under the name new until all addresses
// are taken.
type adding struct {
	*folder
	holder holder
	addrs  []netip.Addr // taken so far
}

// begin writes the lease file that all addresses will be links to.
func (f *folder) begin(h holder) (*adding, error) {
	a := &adding{folder: f, holder: h}
	if f.how == forLook {
		return a, nil
	}
	return a, f.newFile(h.content())
}

// reserve takes an address of each set, wants[i] if there is one.
func (f *folder) reserve(ctx context.Context, h holder, wants []netip.Addr) ([]netip.Addr, error) {
	if err := f.refuseSecond(ctx, h); err != nil {
		return nil, err
	}
	a, err := f.begin(h)
	if err != nil {
		return nil, fmt.Errorf("reserve address: %w", err)
	}
	for i, want := range wants {
		if want.IsValid() {
			err = a.takeWanted(want)
		} else {
			err = a.takeFree(ctx, i)
		}
		if err != nil {
			return nil, errors.Join(err, a.undo())
		}
	}
	if f.how == forLook {
		return a.addrs, nil
	}
	for i, addr := range a.addrs {
		if err := f.net.overwrite(lastName(i), addr.String()); err != nil {
			// Only the place in the round is lost.
			f.cfg.Log.WarnContext(ctx, "last address not kept", "err", err)
		}
	}
	if err := a.end(); err != nil {
		return nil, fmt.Errorf("reserve address: %w", errors.Join(err, a.undo()))
	}
	return a.addrs, nil
}

// refuseSecond returns an error if h holds an address.
func (f *folder) refuseSecond(ctx context.Context, h holder) error {
	_, files, err := f.heldBy(ctx, h)
	if err != nil && !errors.Is(err, f.unreadable) {
		return fmt.Errorf("reserve address: %w", err)
	}
	for _, l := range files {
		return fmt.Errorf("reserve address for %s: %w: it holds %s since %s (%s); DEL of %s frees it",
			h, netstate.ErrExist, l.addr, l.made.UTC().Format(time.RFC3339), f.net.join(l.addr.String()), h)
	}
	for addr, of := range f.restored {
		if of == h {
			return fmt.Errorf("reserve address for %s: %w: its record says that it holds %s", h, netstate.ErrExist, addr)
		}
	}
	return nil
}

// takeWanted takes the one address.
func (a *adding) takeWanted(want netip.Addr) error {
	ok, by, err := a.take(want)
	if err != nil {
		return fmt.Errorf("reserve %s: %w", want, err)
	}
	if !ok {
		return fmt.Errorf("reserve %s: %w: %s (%s)", want, netstate.ErrInUse, by, a.net.join(want.String()))
	}
	return nil
}

// takeFree takes the next free address of set i. Files that name nobody are taken over when
// they come up, and looked for when nothing else is free.
func (a *adding) takeFree(ctx context.Context, i int) error {
	set := a.pool.Sets[i]
	last := a.last(i)
	misses := 0
	for addr := range roundRobin(set, last) {
		if a.skips(addr) {
			continue
		}
		if misses == probes {
			break
		}
		misses++
		if ok, _, err := a.take(addr); ok || err != nil {
			return err
		}
	}
	if misses < probes {
		return a.exhausted(set)
	}
	names, err := a.taken()
	if err != nil {
		return err
	}
	taken := make(map[netip.Addr]bool, len(names))
	for _, addr := range names {
		taken[addr] = true
	}
	for _, second := range []bool{false, true} {
		for addr := range roundRobin(set, last) {
			if taken[addr] != second || a.skips(addr) {
				continue
			}
			if ctx.Err() != nil {
				return fmt.Errorf("look for an address in %s: %w", a.net.path, context.Cause(ctx))
			}
			if ok, _, err := a.take(addr); ok || err != nil {
				return err
			}
		}
	}
	return a.exhausted(set)
}

// skips reports whether addr is not to be given.
func (a *adding) skips(addr netip.Addr) bool {
	return slices.Contains(a.addrs, addr) || reserved(a.pool, addr) != ""
}

// last returns the address given last from set i; zero if that is not known.
func (f *folder) last(i int) netip.Addr {
	if f.net.fd < 0 {
		return netip.Addr{}
	}
	data, _, err := f.net.read(lastName(i), 64)
	if err != nil {
		return netip.Addr{}
	}
	// Anything else than an address is as good as nothing.
	addr, _ := netip.ParseAddr(strings.TrimSpace(string(data)))
	return addr.Unmap()
}

// take makes the lease of addr and reports whether it could; if not, by says who has it.
func (a *adding) take(addr netip.Addr) (ok bool, by string, err error) {
	if a.how == forLook {
		ok, by, err = a.look(addr)
	} else {
		ok, by, err = a.link(addr)
	}
	if ok {
		a.addrs = append(a.addrs, addr)
	}
	return ok, by, err
}

// link gives the lease file the name of addr.
func (a *adding) link(addr netip.Addr) (ok bool, by string, err error) {
	name := addr.String()
	err = a.meta.link("new", a.net, name)
	if err == nil {
		a.changed = true
		return true, "", nil
	}
	if !errors.Is(err, fs.ErrExist) {
		return false, "", err
	}
	l, err := a.read(addr)
	switch {
	case err != nil:
		// It is there and can't be ours; why it can't be read is the answer to whose it is.
		return false, err.Error(), nil
	case l.holder != holder{}:
		return false, "held by " + l.holder.String(), nil
	}
	if err := a.meta.remove("swap"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, "", err
	}
	if err := a.meta.link("new", a.meta, "swap"); err != nil {
		return false, "", err
	}
	if err := a.swapInto(a.net, name); err != nil {
		return false, "", err
	}
	a.changed = true
	return true, "", nil
}

// look says what link would do.
func (f *folder) look(addr netip.Addr) (ok bool, by string, err error) {
	if h, ok := f.restored[addr]; ok {
		return false, "held by " + h.String(), nil
	}
	if f.net.fd < 0 || f.void[addr] {
		return true, "", nil
	}
	l, err := f.read(addr)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return true, "", nil
	case err != nil:
		return false, err.Error(), nil
	case l.holder != holder{}:
		return false, "held by " + l.holder.String(), nil
	}
	return true, "", nil
}

// end makes the leases final: from here on they are not undone.
func (a *adding) end() error {
	a.setOwner(a.holder, a.addrs)
	return a.meta.remove("new")
}

// undo removes what was made, so that nothing is left of the ADD.
func (a *adding) undo() error {
	if a.how == forLook {
		return nil
	}
	var errs []error
	for _, addr := range a.addrs {
		errs = append(errs, a.drop(addr))
	}
	a.setOwner(a.holder, nil)
	if err := a.meta.remove("new"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// write makes leases of h for addrs that are free.
func (f *folder) write(h holder, addrs []netip.Addr) error {
	a, err := f.begin(h)
	if err != nil {
		return err
	}
	for _, addr := range addrs {
		if err := a.takeWanted(addr); err != nil {
			return errors.Join(err, a.undo())
		}
	}
	return a.end()
}

// recover undoes the ADD of a writer that was killed: its file still stands under the name new, and
// the leases that it had made are other names of that file. A file that it was about to put in another's place goes in any case.
func (f *folder) recover(ctx context.Context) error {
	if f.how == forLook || f.meta.fd < 0 {
		return nil
	}
	if err := f.meta.remove("swap"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		f.cfg.Log.WarnContext(ctx, "half-made file not removed", "err", err) // whoever needs the name fails
	}
	left, err := f.meta.stat("new")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	addrs, err := f.taken()
	if err != nil {
		return err
	}
	var errs []error
	for _, addr := range addrs {
		if st, err := f.net.stat(addr.String()); err == nil && st.Ino == left.Ino && st.Dev == left.Dev {
			errs = append(errs, f.drop(addr))
			f.cfg.Log.WarnContext(ctx, "half-made lease removed", "file", f.net.join(addr.String()))
		}
	}
	if err := f.meta.remove("new"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// exhausted is the error of a set without a free address. It names some who have them.
func (f *folder) exhausted(set []netstate.Range) error {
	addrs, err := f.taken()
	if err != nil {
		return fmt.Errorf("%w in %s: %w", netstate.ErrExhausted, describe(set), err)
	}
	addrs = slices.DeleteFunc(addrs, func(a netip.Addr) bool {
		return !inSet(set, a) || reserved(f.pool, a) != ""
	})
	var owners []string
	for _, addr := range addrs {
		if len(owners) == 3 {
			break
		}
		if l, err := f.read(addr); err == nil && l.holder != (holder{}) {
			owners = append(owners, fmt.Sprintf("%s by %s", addr, l.holder))
		}
	}
	more := ""
	if n := len(addrs) - len(owners); n > 0 && len(owners) > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	if len(owners) == 0 {
		return fmt.Errorf("%w in %s", netstate.ErrExhausted, describe(set))
	}
	return fmt.Errorf("%w in %s (%s): held: %s%s", netstate.ErrExhausted, describe(set), f.net.path, strings.Join(owners, ", "), more)
}

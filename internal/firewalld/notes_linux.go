package firewalld

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cleat-cni/cleat/internal/filelock"
	"github.com/cleat-cni/cleat/internal/ownfile"
	"github.com/cleat-cni/cleat/netstate"
)

// note says that an owner has a source. It is a file, whose name says all that counts:
// <owner's mark>,<state>,<zone>,<address>, with comma, slash and % of the zone as %2C, %2F and %25. So it is there at once or not at all. What it holds is the owner's names, for people.
type note struct {
	mark   string
	state  state
	source netstate.Source // without owner
}

// state is what is known of a source.
type state string

const (
	bound state = "bound" // by us, or about to be
	found state = "found" // bound by somebody else before, so that it stays
)

// lockName is the lock of the folder, which is held while a note and firewalld are brought in line. Notes have commas in their names.
const lockName = "lock"

func (n note) name() string {
	return strings.Join([]string{n.mark, string(n.state), strings.NewReplacer("%", "%25", "/", "%2F", ",", "%2C").Replace(n.source.Zone), n.source.Prefix.Addr().String()}, ",")
}

// parseNote reads a file's name.
func parseNote(name string) (note, bool) {
	parts := strings.Split(name, ",")
	if len(parts) != 4 {
		return note{}, false
	}
	mark, _, ok := netstate.ParseMark(parts[0])
	zone := strings.NewReplacer("%25", "%", "%2F", "/", "%2C", ",").Replace(parts[2])
	addr, err := netip.ParseAddr(parts[3])
	n := note{mark: mark, state: state(parts[1])}
	if !ok || err != nil || n.state != bound && n.state != found {
		return note{}, false
	}
	n.source = source(zone, netip.PrefixFrom(addr, addr.BitLen()))
	return n, n.name() == name
}

// notes are all that there are. Files with other names are nobody's.
func (z *Zones) notes() ([]note, error) {
	info, err := os.Lstat(z.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var entries []fs.DirEntry
	if err == nil {
		err = ownfile.Check(info) // whoever writes here says what is taken out of firewalld
	}
	if err == nil {
		entries, err = os.ReadDir(z.dir)
	}
	if err != nil {
		return nil, fmt.Errorf("list notes of sources in %s: %w", z.dir, err)
	}
	var list []note
	for _, e := range entries {
		if n, ok := parseNote(e.Name()); ok {
			list = append(list, n)
		}
	}
	return list, nil
}

// write makes the note. A process that is killed before the names are in it leaves a note all the same.
func (z *Zones) write(n note, owner netstate.Owner) error {
	f, err := ownfile.Open(filepath.Join(z.dir, n.name()), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("note source: %w", err)
	}
	_, err = f.WriteString(owner.Comment(maxComment) + "\n")
	if err := errors.Join(err, f.Close()); err != nil {
		return errors.Join(fmt.Errorf("note source: %w", err), z.forget(n))
	}
	return nil
}

// maxComment bounds what a note holds, in bytes.
const maxComment = 1024

// owner reads whose the note is; only the network is known where the names are not there.
func (z *Zones) owner(n note, network string) netstate.Owner {
	// Without the content the mark in the name has to do.
	text, _ := ownfile.Read(filepath.Join(z.dir, n.name()), maxComment+1)
	if mark, owner, ok := netstate.ParseMark(string(text)); ok && mark == n.mark && owner.Mark() == mark {
		return owner
	}
	return netstate.Owner{Network: network}
}

// restate replaces a note by one of another state, at once.
func (z *Zones) restate(n note, to state) error {
	as := n
	as.state = to
	if err := os.Rename(filepath.Join(z.dir, n.name()), filepath.Join(z.dir, as.name())); err != nil {
		return fmt.Errorf("note source: %w", err)
	}
	return nil
}

func (z *Zones) forget(n note) error {
	err := os.Remove(filepath.Join(z.dir, n.name()))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget source: %w", err)
	}
	return nil
}

// locked runs f with the notes, while nobody else of this machine changes them or what they are about.
func (z *Zones) locked(ctx context.Context, f func(all []note) error) error {
	lock, err := filelock.Acquire(ctx, filepath.Join(z.dir, lockName))
	if err != nil {
		return err
	}
	all, err := z.notes()
	if err == nil {
		err = f(all)
	}
	return errors.Join(err, lock.Release())
}

// of are the notes about a source.
func of(all []note, s netstate.Source) []note {
	return slices.DeleteFunc(slices.Clone(all), func(n note) bool { return n.source != source(s.Zone, s.Prefix) })
}

// by are the notes of a mark.
func by(all []note, mark string) []note {
	return slices.DeleteFunc(slices.Clone(all), func(n note) bool { return n.mark != mark })
}

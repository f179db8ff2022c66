package firewalld

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/cleat-cni/cleat/netstate"
)

// Bound is what a Bind did, for Undo.
type Bound struct {
	source netstate.Source
	noted  bool // the note is this call's
	added  bool // the source is, or may be
}

// Bind binds sources for owner, each noted before. What it did it returns beside an error too, also if it is not known whether it was
// done. That a source is in its zone already is success: if nobody of ours put it there, it is noted as found.
func (z *Zones) Bind(ctx context.Context, owner netstate.Owner, list []netstate.Source) ([]Bound, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	d, err := z.connect(ctx)
	if err != nil {
		return nil, about(list[0], err)
	}
	defer d.close()
	var done []Bound
	err = z.locked(ctx, func(all []note) error {
		for _, s := range list {
			b := Bound{source: source(s.Zone, s.Prefix)}
			err := z.bind(ctx, d, all, &b, owner)
			if b.noted || b.added {
				done = append(done, b)
			}
			if err != nil {
				return about(s, err)
			}
		}
		return nil
	})
	return done, err
}

// bind binds one source, of which all may hold notes.
func (z *Zones) bind(ctx context.Context, d *daemon, all []note, b *Bound, owner netstate.Owner) error {
	there, err := d.query(ctx, b.source)
	if err != nil {
		return err
	}
	same := of(all, b.source)
	as := bound
	if there && (len(same) == 0 || same[0].state == found) {
		as = found
	}
	for _, n := range same {
		if n.state != as { // it was somebody's, is gone, and becomes ours
			if err := z.restate(n, as); err != nil {
				return err
			}
		}
	}
	if len(by(same, owner.Mark())) == 0 {
		if err := z.write(note{owner.Mark(), as, b.source}, owner); err != nil {
			return err
		}
		b.noted = true
	}
	if there {
		return nil
	}
	b.added = true
	return d.add(ctx, b.source)
}

// Undo takes back what a Bind for owner did.
func (z *Zones) Undo(ctx context.Context, owner netstate.Owner, done []Bound) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	d, err := z.present(ctx)
	if err != nil {
		return about(done[0].source, err)
	}
	defer d.close()
	return z.locked(ctx, func(all []note) error {
		var errs []error
		for _, b := range done {
			var err error
			if b.added && len(of(all, b.source)) == 1 {
				err = d.drop(ctx, b.source)
			}
			for _, n := range by(of(all, b.source), owner.Mark()) {
				if b.noted && err == nil {
					err = z.forget(n)
				}
			}
			if err != nil {
				errs = append(errs, about(b.source, err))
			}
		}
		return errors.Join(errs...)
	})
}

// present is firewalld, or nil if it is not there.
func (z *Zones) present(ctx context.Context) (*daemon, error) {
	d, err := z.connect(ctx)
	if errors.Is(err, errAway) {
		return nil, nil
	}
	return d, err
}

// drop removes a source from a firewalld that is there. One that went has no sources.
func (d *daemon) drop(ctx context.Context, s netstate.Source) error {
	if d == nil {
		return nil
	}
	if err := d.remove(ctx, s); !errors.Is(err, errAway) {
		return err
	}
	return nil
}

// Remove removes what is noted for owner, and those of named of which nothing is noted: then the reference plugin bound
// them. What somebody else bound before, or another owner has, stays. An address of zero names nothing.
func (z *Zones) Remove(ctx context.Context, owner netstate.Owner, named []netstate.Source) error {
	all, err := z.notes()
	if err != nil {
		return err
	}
	var unknown []netstate.Source
	for _, s := range named {
		if s.Prefix.IsValid() && len(of(all, s)) == 0 {
			unknown = append(unknown, s)
		}
	}
	if len(by(all, owner.Mark()))+len(unknown) == 0 {
		return nil
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	d, err := z.present(ctx)
	if err != nil {
		return err
	}
	defer d.close()
	if d == nil && len(by(all, owner.Mark())) == 0 {
		return nil
	}
	return z.locked(ctx, func(all []note) error {
		var errs []error
		for _, n := range by(all, owner.Mark()) {
			errs = append(errs, z.release(ctx, d, all, n))
		}
		for _, s := range unknown {
			if len(of(all, s)) > 0 {
				continue // somebody has it since
			}
			if err := d.drop(ctx, s); err != nil {
				errs = append(errs, about(s, err))
			}
		}
		return errors.Join(errs...)
	})
}

// release takes its source from a note's owner, and then the note away. all are the notes that there are.
func (z *Zones) release(ctx context.Context, d *daemon, all []note, n note) error {
	var err error
	if n.state == bound && len(of(all, n.source)) == 1 {
		err = d.drop(ctx, n.source)
	}
	if err == nil {
		err = z.forget(n)
	}
	if err != nil {
		return about(n.source, err)
	}
	return nil
}

// Collect removes, unless dryRun, what is noted for owners of network whose marks are not in keep, and returns what of it had been bound by us,
// also beside an error.
func (z *Zones) Collect(ctx context.Context, network string, keep map[string]bool, dryRun bool) ([]netstate.Freed, error) {
	goes := func(n note) bool {
		return !keep[n.mark] && strings.HasPrefix(n.mark, netstate.NetworkMark(network)+"-")
	}
	all, err := z.notes()
	if err != nil {
		return nil, err
	}
	var freed []netstate.Freed
	for _, n := range all {
		if dryRun && goes(n) && n.state == bound {
			freed = append(freed, z.freed(n, network))
		}
	}
	if dryRun || !slices.ContainsFunc(all, goes) {
		return freed, nil
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	d, err := z.present(ctx)
	if err != nil {
		return nil, err
	}
	defer d.close()
	err = z.locked(ctx, func(all []note) error {
		var errs []error
		left := all
		for _, n := range all {
			if !goes(n) {
				continue
			}
			line := z.freed(n, network)
			if err := z.release(ctx, d, left, n); err != nil {
				errs = append(errs, err)
				continue
			}
			left = slices.DeleteFunc(slices.Clone(left), func(o note) bool { return o == n })
			if n.state == bound {
				freed = append(freed, line)
			}
		}
		return errors.Join(errs...)
	})
	return freed, err
}

func (z *Zones) freed(n note, network string) netstate.Freed {
	return netstate.Freed{Object: n.source.String() + " owner " + n.mark, Mark: n.mark, Owner: z.owner(n, network)}
}

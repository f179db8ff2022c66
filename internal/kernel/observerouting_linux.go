package kernel

import (
	"context"
	"errors"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/cleat-cni/cleat/netstate"
)

// observeRouting adds what netstate.Query.Routing asks for.
func (w *work) observeRouting(ctx context.Context, links []netstate.Ref, f *netstate.Facts) error {
	for _, p := range []netstate.Place{netstate.Host, netstate.Pod} {
		asked := slices.DeleteFunc(slices.Clone(links), func(ref netstate.Ref) bool { return ref.Place != p })
		if len(asked) == 0 || p == netstate.Pod && w.s.pod == nil {
			continue
		}
		used, err := w.observeRules(ctx, p, f)
		if err != nil {
			return err
		}
		for _, ref := range asked {
			if err := w.observeRoutes(ctx, ref, f); err != nil {
				return err
			}
		}
		if p == netstate.Host {
			continue // whose routes may be very many
		}
		more, err := w.tables(ctx)
		if err != nil {
			return err
		}
		used = append(used, more...)
		slices.Sort(used)
		f.UsedTables = slices.Compact(used)
	}
	return nil
}

func ipFamilies() []uint8 { return []uint8{unix.AF_INET, unix.AF_INET6} }

// observeRules adds the rules of a place, and returns the tables that they lead to.
func (w *work) observeRules(ctx context.Context, p netstate.Place, f *netstate.Facts) (used []int, err error) {
	c, err := w.conn(p)
	if err != nil {
		return nil, err
	}
	for _, family := range ipFamilies() {
		list, err := c.rules(ctx, p, family)
		if errors.Is(err, unix.EAFNOSUPPORT) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, r := range list {
			if r.Table != 0 {
				used = append(used, r.Table)
			}
			if r.plain && (r.From.IsValid() || r.To.IsValid()) {
				f.Rules = append(f.Rules, r.Rule)
			}
		}
	}
	return used, nil
}

// observeRoutes adds the routes over a link.
func (w *work) observeRoutes(ctx context.Context, ref netstate.Ref, f *netstate.Facts) error {
	d, err := w.device(ctx, ref)
	if errors.Is(err, netstate.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	c, err := w.conn(ref.Place)
	if err != nil {
		return err
	}
	for _, family := range ipFamilies() {
		list, err := c.routes(ctx, routeQuery{place: ref.Place, family: family, table: anyTable, index: d.index})
		if err != nil {
			return err
		}
		for _, r := range list {
			if r.protocol == unix.RTPROT_RA || r.protocol == unix.RTPROT_REDIRECT {
				continue // the router will tell again
			}
			r.Dev, r.Connected = d.name, r.protocol == unix.RTPROT_KERNEL
			f.Routes = append(f.Routes, r.Route)
		}
	}
	return nil
}

// tables are those of the pod in which there are routes, or that VRFs have.
func (w *work) tables(ctx context.Context) (used []int, err error) {
	c, err := w.conn(netstate.Pod)
	if err != nil {
		return nil, err
	}
	for _, family := range ipFamilies() {
		list, err := c.routes(ctx, routeQuery{place: netstate.Pod, family: family, table: anyTable})
		if err != nil {
			return nil, err
		}
		for _, r := range list {
			used = append(used, r.Table)
		}
	}
	links, err := c.links(ctx, netstate.Pod)
	if err != nil {
		return nil, err
	}
	for _, d := range links {
		if d.table != 0 {
			used = append(used, d.table)
		}
	}
	return used, nil
}

package kerneltest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cleat-cni/cleat/netstate"
)

// tableName is the name of every table of ours: Collect looks into no other.
const tableName = "cleat"

// removal is one object that is to go, with what removes it.
type removal struct {
	object netstate.Object
	place  netstate.Place
	do     func(*space)
}

// remove removes what of a state is the owner's: host ends down first, so that nothing passes
// any more, then nft, then the rest, links last.
func (x *transaction) remove(want netstate.State, sweep bool) error {
	for _, l := range want.Links {
		if l.Place == netstate.Host && x.ours(l) {
			x.w[hostID].down(l.Name)
		}
	}
	var errs []error
	for _, r := range slices.Concat(x.elementsOf(want, sweep), x.iptablesOf(want), x.sourcesOf(want), x.onLinks(want), x.linksOf(want)) {
		s, ok := x.w[x.id(r.place)]
		if !ok {
			continue // it went with its namespace
		}
		if err := x.fault("remove " + r.object.Key()); err != nil {
			errs = append(errs, fmt.Errorf("remove %s: %w", r.object.Key(), err))
			continue
		}
		r.do(s)
	}
	return errors.Join(errs...)
}

// onLinks are the objects that are neither nft's nor links.
func (x *transaction) onLinks(want netstate.State) []removal {
	var all []removal
	add := func(o netstate.Object, p netstate.Place, dev string, do func(*space)) {
		if !x.another(want, p, dev) {
			all = append(all, removal{o, p, do})
		}
	}
	for _, f := range want.Filters {
		add(f, f.Place, f.Dev, func(s *space) {
			s.filters = slices.DeleteFunc(s.filters, func(o netstate.Filter) bool { return o.Dev == f.Dev && (o.To == f.To || o.To == "") })
		})
	}
	for _, q := range want.Qdiscs {
		add(q, q.Place, q.Dev, func(s *space) { s.removeQdisc(q) })
	}
	for _, n := range want.Neighbours {
		add(n, n.Place, n.Dev, func(s *space) {
			s.neighbours = slices.DeleteFunc(s.neighbours, func(o netstate.Neighbour) bool { return o.Dev == n.Dev && o.Addr == n.Addr })
		})
	}
	for _, r := range want.Rules {
		if !r.Shared {
			add(r, r.Place, "", func(s *space) {
				s.rules = slices.DeleteFunc(s.rules, func(o netstate.Rule) bool { return sameRule(r, o) })
			})
		}
	}
	for _, r := range want.Routes {
		if !r.Shared && !r.Absent {
			add(r, r.Place, r.Dev, func(s *space) {
				s.routes = slices.DeleteFunc(s.routes, func(o netstate.Route) bool { return sameRoute(r, o) && o.Via == r.Via })
			})
		}
	}
	for _, a := range want.Addrs {
		if !a.Shared && !a.Absent {
			add(a, a.Place, a.Dev, func(s *space) {
				s.addrs = slices.DeleteFunc(s.addrs, func(o netstate.Addr) bool { return o.Dev == a.Dev && o.Prefix == a.Prefix })
			})
		}
	}
	return all
}

// removeQdisc removes a qdisc; an ingress qdisc takes its filters along.
func (s *space) removeQdisc(q netstate.Qdisc) {
	s.qdiscs = slices.DeleteFunc(s.qdiscs, func(o netstate.Qdisc) bool { return sameQdisc(q, o) && q.Kind == o.Kind })
	if q.Kind == "ingress" {
		s.filters = slices.DeleteFunc(s.filters, func(f netstate.Filter) bool { return f.Dev == q.Dev })
	}
}

func (x *transaction) linksOf(want netstate.State) []removal {
	var all []removal
	for _, l := range want.Links {
		if x.ours(l) {
			all = append(all, removal{l, l.Place, func(*space) { x.w.delete(x.id(l.Place), l.Name) }})
		}
	}
	return all
}

// elementsOf are the elements of a state that carry its owner's mark, and with sweep all others that do, in
// any set of its tables, declared there or not.
func (x *transaction) elementsOf(want netstate.State, sweep bool) []removal {
	var all []removal
	for _, have := range x.w[hostID].elements {
		named := slices.ContainsFunc(want.Elements, func(e netstate.Element) bool { return sameElement(e, have) })
		swept := sweep && slices.ContainsFunc(want.Tables, func(t netstate.Table) bool {
			return t.Family == have.Family && t.Name == have.Table
		})
		if have.Owner == want.Owner && (named || swept) {
			all = append(all, x.element(have))
		}
	}
	return all
}

func (x *transaction) element(e netstate.Element) removal {
	return removal{e, netstate.Host, func(s *space) {
		s.elements = slices.DeleteFunc(s.elements, func(o netstate.Element) bool { return sameElement(e, o) })
	}}
}

// ours reports whether a link that a state names is there and was made for the owner. One whose name
// is the hash of the owner and that is nobody's is what a killed attempt left.
func (x *transaction) ours(l netstate.Link) bool {
	if l.Shared || l.Kind == "" || x.owner.IsZero() {
		return false
	}
	_, have, err := x.dev(l.Place, l.Name)
	if err != nil {
		return false
	}
	killed := have.owner.IsZero() && l.Place == netstate.Host && strings.HasSuffix(l.Name, x.owner.HostName(""))
	return have.owner == x.owner || killed
}

// another reports whether the device is not the one that the state means: the state makes a
// device of that name, and the one that is there somebody else made.
func (x *transaction) another(want netstate.State, p netstate.Place, dev string) bool {
	return slices.ContainsFunc(want.Links, func(l netstate.Link) bool {
		return l.Place == p && l.Name == dev && l.Kind != "" && !l.Shared && !x.ours(l)
	})
}

// Collect implements planned.Kernel.
func (m *Memory) Collect(ctx context.Context, network string, valid []netstate.Owner, dryRun bool) ([]netstate.Freed, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, fmt.Errorf("collect %s: %w", network, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.fault("collect " + network); err != nil {
		return nil, fmt.Errorf("collect %s: %w", network, err)
	}
	x := &transaction{w: m.spaces, paths: m.paths, fault: m.fault, firewalld: m.firewalld}
	host := m.spaces[hostID]
	dead := func(o netstate.Owner) bool {
		return !o.IsZero() && o.Network == network && !slices.Contains(valid, o)
	}
	var freed []netstate.Freed
	var errs []error
	free := func(o netstate.Owner, r removal) {
		if !dryRun {
			if err := m.fault("remove " + r.object.Key()); err != nil {
				errs = append(errs, fmt.Errorf("remove %s: %w", r.object.Key(), err))
				return
			}
			r.do(host)
		}
		freed = append(freed, netstate.Freed{Object: r.object.String(), Mark: o.Mark(), Owner: o})
	}
	for _, e := range slices.Clone(host.elements) {
		if e.Table == tableName && dead(e.Owner) {
			free(e.Owner, x.element(e))
		}
	}
	for _, r := range slices.Clone(host.iptRules) {
		if dead(r.Owner) {
			free(r.Owner, iptablesRule(r))
		}
	}
	if !dryRun {
		host.iptChains = slices.DeleteFunc(host.iptChains, func(c netstate.IptablesChain) bool { return dead(c.Owner) })
		host.noted = slices.DeleteFunc(host.noted, func(n noted) bool { return dead(n.Owner) && n.found })
	}
	for _, n := range slices.Clone(host.noted) {
		if dead(n.Owner) && !n.found {
			free(n.Owner, x.sourceOf(n))
		}
	}
	for _, name := range host.names() {
		if l, ok := host.links[name]; ok && dead(l.owner) {
			free(l.owner, removal{x.seen(netstate.Host, name), netstate.Host, func(*space) { x.w.delete(hostID, name) }})
		}
	}
	slices.SortFunc(freed, func(a, b netstate.Freed) int { return strings.Compare(a.Object, b.Object) })
	return freed, errors.Join(errs...)
}

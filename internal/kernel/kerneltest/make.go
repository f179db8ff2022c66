package kerneltest

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/cleat-cni/cleat/netstate"
)

func (x *transaction) makeAddr(a netstate.Addr) error {
	s, l, err := x.dev(a.Place, a.Dev)
	if err != nil {
		return err
	}
	if a.Absent {
		s.addrs = slices.DeleteFunc(s.addrs, func(o netstate.Addr) bool { return o.Dev == a.Dev && o.Prefix == a.Prefix })
		return nil
	}
	a.Place = ""
	if a.Prefix.Addr().Is6() && s.mtu(a.Dev) < minMTU6 {
		return fmt.Errorf("IPv6 needs an MTU of %d, the link has %d", minMTU6, s.mtu(a.Dev))
	}
	if a.Prefix.Addr().Is6() && s.sysctls["net/ipv6/conf/"+l.Name+"/disable_ipv6"] == "1" {
		return errors.New("permission denied: IPv6 is off on the link")
	}
	if slices.ContainsFunc(s.addrs, func(have netstate.Addr) bool { return sameAddr(a, have) }) {
		if a.Shared {
			return nil
		}
		return netstate.ErrExist
	}
	a.Shared, a.DAD = false, false // words of the wish, that nothing there has
	s.addrs = append(s.addrs, a)
	return nil
}

// sameAddr reports whether the kernel takes two addresses for one: IPv6 by the address,
// IPv4 by address and length.
func sameAddr(a, b netstate.Addr) bool {
	if a.Dev != b.Dev || a.Prefix.Addr() != b.Prefix.Addr() {
		return false
	}
	return a.Prefix.Addr().Is6() || a.Prefix == b.Prefix
}

func (x *transaction) makeRoute(r netstate.Route) error {
	s, err := x.space(r.Place)
	if err != nil {
		return err
	}
	if r.Dev == "" {
		r.Dev = s.devTo(r)
	}
	_, l, err := x.dev(r.Place, r.Dev)
	if err != nil {
		return err
	}
	if l.Down {
		return errors.New("network is down")
	}
	if r.Src.IsValid() && !s.isLocal(r.Src) {
		return fmt.Errorf("source %s is no address of this namespace", r.Src)
	}
	if r.Via.IsValid() {
		if err := s.checkGateway(r); err != nil {
			return err
		}
	} else if r.Scope == 0 && r.Dst.Addr().Is4() {
		r.Scope = scopeLink
	}
	if slices.ContainsFunc(s.routes, func(have netstate.Route) bool { return equalRoute(have, r) }) {
		if r.Shared {
			return nil
		}
		return netstate.ErrExist
	}
	r.Place, r.Shared = "", false
	s.routes = slices.Insert(s.routes, 0, r)
	return nil
}

// equalRoute reports whether the kernel refuses one beside the other. IPv6 looks at the way alone, IPv4 at
// all that goes with it; another way to the same destination is another route.
func equalRoute(a, b netstate.Route) bool {
	way := sameRoute(a, b) && a.Via == b.Via
	if a.Dst.Addr().Is6() {
		return way
	}
	return way && a.Scope == b.Scope && a.Src == b.Src && a.MTU == b.MTU && a.AdvMSS == b.AdvMSS && a.OnLink == b.OnLink
}

// devTo is the device that the gateway of a route which names none is reached by; "" is none.
func (s *space) devTo(r netstate.Route) string {
	if c, ok := s.way(r.Via, r.InTable(), ""); ok {
		return c.Dev
	}
	return ""
}

// way finds the route that covers an address: in the main table or the one given, over dev or,
// with "", any.
func (s *space) way(ip netip.Addr, table int, dev string) (netstate.Route, bool) {
	var best *netstate.Route
	all := append(s.connected(), s.routes...)
	for i, c := range all {
		if !c.Dst.Contains(ip) || (dev != "" && c.Dev != dev) || (c.InTable() != netstate.MainTable && c.InTable() != table) {
			continue
		}
		if best == nil || c.Dst.Bits() > best.Dst.Bits() {
			best = &all[i]
		}
	}
	if best == nil {
		return netstate.Route{}, false
	}
	return *best, true
}

// connected are the routes that the kernel makes for the addresses of links that are up.
func (s *space) connected() []netstate.Route {
	var list []netstate.Route
	for _, a := range s.addrs {
		if r, ok := a.SubnetRoute(); ok && !s.links[a.Dev].Down {
			list = append(list, r)
		}
	}
	return list
}

// dropRoute takes the routes of a destination and priority from a link, those that came with an address too.
func (x *transaction) dropRoute(r netstate.Route) error {
	s, _, err := x.dev(r.Place, r.Dev)
	if err != nil {
		return err
	}
	s.routes = slices.DeleteFunc(s.routes, func(o netstate.Route) bool { return sameRoute(r, o) })
	for i, a := range s.addrs {
		if comes, ok := a.SubnetRoute(); ok && sameRoute(r, comes) {
			s.addrs[i].NoPrefixRoute = true
		}
	}
	return nil
}

const scopeLink = 253

func (s *space) isLocal(ip netip.Addr) bool {
	return slices.ContainsFunc(s.addrs, func(a netstate.Addr) bool { return a.Prefix.Addr() == ip })
}

// checkGateway has the rules of Linux for a next hop: an on-link route of the same device covers
// it, unless OnLink says to do without. In IPv6 it is not our own; in IPv4 it may be.
func (s *space) checkGateway(r netstate.Route) error {
	if r.Via.Is4() && r.Scope >= scopeLink {
		return fmt.Errorf("gateway %s: a route of scope %d has none", r.Via, r.Scope)
	}
	if r.Via.Is6() && s.isLocal(r.Via) {
		return fmt.Errorf("gateway %s is an address of this namespace", r.Via)
	}
	if r.OnLink || (r.Via.Is6() && r.Via.IsLinkLocalUnicast()) {
		return nil
	}
	// What itself goes by a gateway, or is of global scope in IPv4, leads no further.
	c, ok := s.way(r.Via, r.InTable(), r.Dev)
	if !ok || c.Via.IsValid() || (r.Via.Is4() && c.Scope < scopeLink) {
		return fmt.Errorf("gateway %s is unreachable", r.Via)
	}
	return nil
}

func (x *transaction) makeRule(r netstate.Rule) error {
	s, err := x.space(r.Place)
	if err != nil {
		return err
	}
	if r.Priority == 0 {
		// As Linux chooses it: before all rules but that of the local table.
		r.Priority = lastPriority
		for _, have := range s.rules {
			if ofIPv6(have) == ofIPv6(r) {
				r.Priority = min(r.Priority, have.Priority)
			}
		}
		r.Priority--
	}
	if slices.ContainsFunc(s.rules, func(have netstate.Rule) bool { return sameRule(r, have) }) {
		if r.Shared {
			return nil
		}
		return netstate.ErrExist
	}
	r.Place, r.Shared, r.Table = "", false, cmp.Or(r.Table, netstate.MainTable)
	s.rules = append(s.rules, r)
	return nil
}

// ofIPv6 reports whether a rule is one of IPv6.
func ofIPv6(r netstate.Rule) bool {
	return r.From.IsValid() && r.From.Addr().Is6() || r.To.IsValid() && r.To.Addr().Is6()
}

// lastPriority is that of the rule of the main table.
const lastPriority = 32766

func (x *transaction) makeNeighbour(n netstate.Neighbour) error {
	s, _, err := x.dev(n.Place, n.Dev)
	if err != nil {
		return err
	}
	n.Place = ""
	if slices.ContainsFunc(s.neighbours, func(have netstate.Neighbour) bool {
		return have.Dev == n.Dev && have.Addr == n.Addr
	}) {
		return netstate.ErrExist
	}
	s.neighbours = append(s.neighbours, n)
	return nil
}

func (x *transaction) makeSysctl(v netstate.Sysctl) error {
	s, err := x.space(v.Place)
	if err != nil {
		return err
	}
	if !s.hasSysctl(v.Name) {
		if v.Optional {
			return nil
		}
		return netstate.ErrNotExist
	}
	s.sysctls[v.Name] = v.Value
	return nil
}

// hasSysctl reports whether a value is there: one of an interface is with it, and of all others Memory
// takes every name below the folders that it knows for one.
func (s *space) hasSysctl(name string) bool {
	dev, ok := sysctlDev(name)
	if !ok || dev == "all" || dev == "default" {
		return true
	}
	_, ok = s.links[dev]
	return ok
}

func (x *transaction) makeQdisc(q netstate.Qdisc) error {
	s, _, err := x.dev(q.Place, q.Dev)
	if err != nil {
		return err
	}
	q.Place = ""
	if slices.ContainsFunc(s.qdiscs, func(have netstate.Qdisc) bool { return sameQdisc(q, have) }) {
		return netstate.ErrExist
	}
	s.qdiscs = append(s.qdiscs, q)
	return nil
}

// sameQdisc reports whether both sit in one place. There is one ingress qdisc a device, whatever
// its parent is said to be.
func sameQdisc(a, b netstate.Qdisc) bool {
	if a.Dev != b.Dev || (a.Kind == "ingress") != (b.Kind == "ingress") {
		return false
	}
	return a.Kind == "ingress" || a.Parent == b.Parent
}

func (x *transaction) makeFilter(f netstate.Filter) error {
	s, _, err := x.dev(f.Place, f.Dev)
	if err != nil {
		return err
	}
	if _, _, err := x.dev(f.Place, f.To); err != nil {
		return err
	}
	f.Place = ""
	if !slices.ContainsFunc(s.qdiscs, func(q netstate.Qdisc) bool { return q.Dev == f.Dev && q.Kind == "ingress" }) {
		return fmt.Errorf("ingress qdisc of %s: %w", f.Dev, netstate.ErrNotExist)
	}
	if slices.Contains(s.filters, f) {
		return netstate.ErrExist
	}
	s.filters = append(s.filters, f)
	return nil
}

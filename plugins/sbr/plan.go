package sbr

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/attached"
	"github.com/cleat-cni/cleat/netstate"
	"github.com/cleat-cni/cleat/planned"
)

// firstTable is the number from which on a free table is looked for, as the reference plugin does.
const firstTable = 100

// planner collects the plan of one attachment.
type planner struct {
	conf   Config
	in     planned.Input
	seen   netstate.Facts
	ips    []cni.IP
	main   []netstate.Route // that lead over the interface, in the main table
	tables []int            // of ips
	moved  []netstate.Route // those of main that are in a table by now
	state  netstate.State
	notes  []string
}

func plan(c Config, in planned.Input, seen netstate.Facts) (planned.Plan, error) {
	p := &planner{conf: c, in: in, seen: seen, state: netstate.State{Owner: in.Owner()}}
	if in.Verb == cni.VerbDel {
		p.left()
		return planned.Plan{State: p.state}, nil
	}
	if in.Prev == nil || len(in.Prev.IPs) == 0 {
		return planned.Plan{}, invalid("prevResult has no address: there is nothing to route by").
			WithHint("give the plugin that makes the interface an ipam section")
	}
	p.ips = addresses(attached.IPs(in.Prev, in.IfName))
	for _, ip := range p.ips {
		p.tables = append(p.tables, p.table(ip))
	}
	for i, ip := range p.ips {
		p.state.Rules = append(p.state.Rules, netstate.Rule{Place: netstate.Pod, From: single(ip.Address.Addr()), Table: p.tables[i]})
	}
	if c.table == 0 {
		p.findMain()
		for i, ip := range p.ips {
			p.fill(ip, p.tables[i])
		}
		p.clearMain()
	}
	return planned.Plan{State: p.state, Notes: p.notes}, nil
}

func single(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }

// table is the table of an address: for CHECK the one that its rule leads to, or, if that is gone, one with routes over the interface; else
// a free one.
func (p *planner) table(ip cni.IP) int {
	if p.conf.table != 0 {
		return p.conf.table
	}
	if p.in.Verb == cni.VerbCheck {
		for _, r := range p.seen.Rules {
			if r.Place == netstate.Pod && r.From == single(ip.Address.Addr()) && !r.To.IsValid() && isOwn(r.Table) {
				return r.Table
			}
		}
		for _, r := range p.seen.RoutesOver(netstate.Pod, p.in.IfName) {
			if t := r.InTable(); isOwn(t) && r.Dst.Addr().Is4() == ip.Address.Addr().Is4() && !slices.Contains(p.tables, t) {
				return t
			}
		}
	}
	next := firstTable
	if n := len(p.tables); n > 0 {
		next = max(next, slices.Max(p.tables)+1)
	}
	return p.seen.FreeTable(next)
}

// isOwn reports whether a table may be one that was chosen here.
func isOwn(table int) bool {
	return table >= firstTable && (table < netstate.DefaultTable || table > netstate.LocalTable)
}

// findMain finds the routes over the interface that are to be moved, nearest first. The way to link-local addresses is the interface's own: its
// addresses are of no table's. CHECK, before which they were moved, goes by what plugins before made, as far as it is told, and by what prevResult
// lists: what else is in the main table by then somebody added.
func (p *planner) findMain() {
	for _, r := range p.over(netstate.MainTable) {
		if !r.Dst.Addr().IsLinkLocalUnicast() && (r.Planned || p.in.Verb != cni.VerbCheck) {
			p.main = append(p.main, r)
		}
	}
	for _, r := range p.in.Prev.Routes {
		if p.in.Verb != cni.VerbCheck || r.Table.Set || !r.GW.IsValid() {
			continue
		}
		listed := netstate.Route{Place: netstate.Pod, Dst: r.Dst.Masked(), Via: r.GW, Dev: p.in.IfName, Priority: r.Priority, MTU: r.MTU, AdvMSS: r.AdvMSS}
		known := slices.ContainsFunc(p.main, func(o netstate.Route) bool { return sameWay(o, listed) })
		if !known && slices.ContainsFunc(p.ips, func(ip cni.IP) bool { return ip.Address.Contains(r.GW) }) {
			p.main = append(p.main, listed)
		}
	}
	slices.SortStableFunc(p.main, func(a, b netstate.Route) int {
		switch {
		case a.Via.IsValid() == b.Via.IsValid():
			return 0
		case b.Via.IsValid():
			return -1
		}
		return 1
	})
}

// over are the routes over the interface that were seen in a table.
func (p *planner) over(table int) []netstate.Route {
	return slices.DeleteFunc(p.seen.RoutesOver(netstate.Pod, p.in.IfName), func(r netstate.Route) bool { return r.InTable() != table })
}

// sameWay reports whether two routes over the interface are one to the kernel, but for their tables and gateways.
func sameWay(a, b netstate.Route) bool { return a.Dst == b.Dst && a.Metric() == b.Metric() }

// fill gives an address's table the routes of the main one that are for it, and a default route.
func (p *planner) fill(ip cni.IP, table int) {
	a := ip.Address.Addr()
	gw := p.conf.gateway(a)
	var routes []netstate.Route
	for _, r := range p.main {
		if !p.isFor(r, ip) || gw.IsValid() && isDefault(r) {
			continue
		}
		p.moved = append(p.moved, r)
		r.Table, r.Connected, r.Planned, r.Shared = table, false, false, false
		// Two addresses of one subnet bring the way to it twice.
		if i := slices.IndexFunc(routes, func(o netstate.Route) bool { return sameWay(o, r) && o.Via == r.Via }); i >= 0 {
			if r.Src == a {
				routes[i] = r
			}
			continue
		}
		routes = append(routes, r)
	}
	if gw.IsValid() { // what stands in the main table is not used any more
		p.moved = append(p.moved, slices.DeleteFunc(slices.Clone(p.main), func(r netstate.Route) bool { return !isDefault(r) || !p.isFor(r, ip) })...)
	} else {
		gw = ip.Gateway
	}
	switch {
	case slices.ContainsFunc(routes, isDefault):
	case gw.IsValid():
		routes = append(routes, netstate.Route{Place: netstate.Pod, Dst: netip.PrefixFrom(unspecified(a), 0), Via: gw, Dev: p.in.IfName, Table: table,
			OnLink: !ip.Address.Contains(gw) && !reaches(slices.Concat(routes, p.over(table)), gw)})
	default:
		p.notes = append(p.notes, fmt.Sprintf("no gateway is known for what comes from %s: it leaves by the main table unless %s leads there itself", a, p.in.IfName))
	}
	p.state.Routes = append(p.state.Routes, routes...)
}

// isFor reports whether a route of the main table is for what comes from an address: it is of the subnet of its source or its gateway, or
// of no address's.
func (p *planner) isFor(r netstate.Route, ip cni.IP) bool {
	if r.Dst.Addr().Is4() != ip.Address.Addr().Is4() {
		return false
	}
	for _, hint := range []netip.Addr{r.Src, r.Via} {
		of := func(o cni.IP) bool { return o.Address.Contains(hint) }
		// An IPv4 route may lead through an IPv6 router, which is of no address's subnet here.
		if hint.IsValid() && hint.Is4() == r.Dst.Addr().Is4() && !of(ip) && slices.ContainsFunc(p.ips, of) {
			return false
		}
	}
	return true
}

// isDefault reports whether a route is the default one that the kernel takes first.
func isDefault(r netstate.Route) bool {
	return r.Dst.Bits() == 0 && r.Metric() == netstate.Route{Dst: r.Dst}.Metric()
}

func unspecified(a netip.Addr) netip.Addr {
	if a.Is4() {
		return netip.IPv4Unspecified()
	}
	return netip.IPv6Unspecified()
}

// reaches reports whether one of the routes leads to a gateway. One with a link-local address is on the link in any case.
func reaches(routes []netstate.Route, gw netip.Addr) bool {
	return gw.Is6() && gw.IsLinkLocalUnicast() ||
		slices.ContainsFunc(routes, func(r netstate.Route) bool { return !r.Via.IsValid() && r.Dst.Contains(gw) })
}

// clearMain takes what was moved out of the main table, but for the ways to subnets where they get hints.
func (p *planner) clearMain() {
	var hints []netstate.Route
	if p.conf.hints {
		hints = p.hints()
	}
	for _, r := range p.moved {
		onLink := r.Dst.Addr().Is4() && r.Scope >= netstate.ScopeLink
		if p.conf.hints && onLink {
			continue
		}
		gone := netstate.Route{Place: netstate.Pod, Dst: r.Dst, Dev: p.in.IfName, Priority: r.Priority, Absent: true}
		if !slices.Contains(p.state.Routes, gone) && !slices.ContainsFunc(hints, func(h netstate.Route) bool { return sameWay(h, gone) }) {
			p.state.Routes = append(p.state.Routes, gone)
		}
	}
}

// hints are the ways to the subnets that the main table gets, each with the first address of its subnet as the source. IPv4 has such a one with
// the address already.
func (p *planner) hints() []netstate.Route {
	var all []netstate.Route
	for _, ip := range p.ips {
		subnet := ip.Address.Masked()
		has := func(r netstate.Route) bool { return r.Dst == subnet && r.Src.IsValid() && !r.Via.IsValid() }
		if ip.Address.IsSingleIP() || slices.ContainsFunc(p.main, has) || slices.ContainsFunc(all, has) {
			continue
		}
		hint := netstate.Route{Place: netstate.Pod, Dst: subnet, Dev: p.in.IfName, Src: ip.Address.Addr()}
		if subnet.Addr().Is4() {
			hint.Scope = netstate.ScopeLink
		}
		all = append(all, hint)
	}
	p.state.Routes = append(p.state.Routes, all...)
	return all
}

// left is what there is to be removed: the rules for the addresses of the interface, and the routes of the tables that they lead to.
func (p *planner) left() {
	mine := map[netip.Addr]bool{}
	for _, a := range attached.Addresses(p.in.Prev, p.in.IfName) {
		mine[a.Addr()] = true
	}
	for _, a := range p.seen.AddrsOf(netstate.Pod, p.in.IfName) {
		mine[a.Prefix.Addr()] = true
	}
	for _, r := range p.seen.Rules {
		table := p.conf.table == r.Table || p.conf.table == 0 && isOwn(r.Table) || p.conf.anyTable
		if r.Place == netstate.Pod && r.From.IsSingleIP() && mine[r.From.Addr()] && !r.To.IsValid() && table {
			p.state.Rules = append(p.state.Rules, r)
		}
	}
	for _, r := range p.seen.RoutesOver(netstate.Pod, p.in.IfName) {
		led := slices.ContainsFunc(p.state.Rules, func(rule netstate.Rule) bool { return rule.Table == r.InTable() })
		if led && p.conf.table == 0 && isOwn(r.InTable()) {
			p.state.Routes = append(p.state.Routes, r)
		}
	}
}

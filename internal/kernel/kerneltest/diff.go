package kerneltest

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cleat-cni/cleat/netstate"
)

// seen is a link as Observe shows it.
func (x *transaction) seen(p netstate.Place, name string) netstate.Link {
	s := x.w[x.id(p)]
	l := s.links[name].Link
	l.Place, l.MTU = p, s.mtu(name)
	return l
}

// diff compares a state with what is there. What the state leaves to the kernel is not compared.
func (x *transaction) diff(want netstate.State) ([]netstate.Difference, error) {
	var list []netstate.Difference
	for _, o := range want.Objects() {
		s, err := x.space(netstate.PlaceOf(o))
		if err != nil {
			return nil, fmt.Errorf("compare %s: %w", o.Key(), err)
		}
		expect := o.String()
		if isAbsent(o) {
			expect = ""
		}
		if have := x.text(s, want, o); have != expect {
			list = append(list, netstate.Difference{Object: o.Key(), Want: expect, Have: have})
		}
	}
	return list, nil
}

// isAbsent reports whether an object of a state must not be there.
func isAbsent(o netstate.Object) bool {
	switch o := o.(type) {
	case netstate.Addr:
		return o.Absent
	case netstate.Route:
		return o.Absent
	}
	return false
}

// text is the line of what is there in the place of want, an object of the state in, with the words that only a wish has, such as
// shared; "" if nothing is there.
func (x *transaction) text(s *space, in netstate.State, want netstate.Object) string {
	switch o := want.(type) {
	case netstate.Link:
		return x.linkText(s, o)
	case netstate.Sysctl:
		return s.sysctlText(o)
	case netstate.Addr:
		if a, ok := first(s.addrs, func(a netstate.Addr) bool { return a.Dev == o.Dev && a.Prefix == o.Prefix }); ok {
			a.Place, a.Shared, a.DAD, a.Absent = o.Place, o.Shared, o.DAD, o.Absent
			// Its connected route is whoever's who made it, or may be elsewhere.
			if o.Shared || o.AnyTable && s.leadsTo(a) {
				a.NoPrefixRoute = o.NoPrefixRoute
			}
			return a.String()
		}
	case netstate.Route:
		if r, ok := s.bestRoute(o); ok && (!o.AnyTable || r.InTable() == o.InTable()) {
			return routeText(o, r)
		} else if ok {
			return o.String()
		}
		if r, ok := first(s.connected(), func(r netstate.Route) bool { return sameRoute(o, r) }); ok && o.Absent {
			return routeText(o, r)
		}
	case netstate.Rule:
		if slices.ContainsFunc(s.rules, func(r netstate.Rule) bool { return sameRule(o, r) }) {
			return o.String()
		}
	case netstate.Neighbour:
		if n, ok := first(s.neighbours, func(n netstate.Neighbour) bool { return n.Dev == o.Dev && n.Addr == o.Addr }); ok {
			n.Place = o.Place
			return n.String()
		}
	case netstate.Qdisc:
		if q, ok := first(s.qdiscs, func(q netstate.Qdisc) bool { return sameQdisc(o, q) }); ok {
			q.Place = o.Place
			return q.String()
		}
	case netstate.Filter:
		if f, ok := first(s.filters, func(f netstate.Filter) bool { return f.Dev == o.Dev && f.To == o.To }); ok {
			f.Place = o.Place
			return f.String()
		}
		if f, ok := first(s.filters, func(f netstate.Filter) bool { return f.Dev == o.Dev && f.To == "" }); ok {
			f.Place = o.Place
			return f.String()
		}
	case netstate.Element:
		if e, ok := first(s.elements, func(e netstate.Element) bool { return sameElement(o, e) }); ok {
			if e.Owner.Beside(o.Owner) {
				return o.String()
			}
			return e.String()
		}
	case netstate.IptablesChain:
		return s.chainText(o)
	case netstate.IptablesRule:
		return s.ruleText(in, o)
	case netstate.Source:
		if x.firewalld && slices.Contains(s.sources, bare(o)) {
			return o.String()
		}
	case netstate.Lease, netstate.Flow:
		return o.String() // neither is the kernel's to have
	default:
		return s.nftText(o)
	}
	return ""
}

// sysctlText is the line of a value that was set. An optional one that is not there is as it should be.
func (s *space) sysctlText(want netstate.Sysctl) string {
	if value, ok := s.sysctls[want.Name]; ok {
		want.Value = value
		return want.String()
	}
	if want.Optional && !s.hasSysctl(want.Name) {
		return want.String()
	}
	return ""
}

// routeText is the line of want with what it states replaced by what is there.
func routeText(want, have netstate.Route) string {
	text := want
	text.Via, text.Absent = have.Via, false
	// IPv6 knows no scope, and IPv4 chooses one for a route without a gateway.
	if want.Dst.Addr().Is4() && (want.Scope != 0 || have.Scope != scopeLink || want.Via.IsValid()) {
		text.Scope = have.Scope
	}
	if want.Src.IsValid() {
		text.Src = have.Src
	}
	if want.MTU != 0 {
		text.MTU = have.MTU
	}
	if want.AdvMSS != 0 {
		text.AdvMSS = have.AdvMSS
	}
	text.OnLink = want.OnLink && have.OnLink
	return text.String()
}

// leadsTo reports whether a route in some table leads to the subnet of an address, over its link.
func (s *space) leadsTo(a netstate.Addr) bool {
	return slices.ContainsFunc(s.routes, func(r netstate.Route) bool { return r.Dev == a.Dev && r.Dst == a.Prefix.Masked() && !r.Via.IsValid() })
}

// bestRoute is the route that want describes: by its gateway, if one has it, else the first.
func (s *space) bestRoute(want netstate.Route) (netstate.Route, bool) {
	if r, ok := first(s.routes, func(r netstate.Route) bool { return sameRoute(want, r) && r.Via == want.Via }); ok {
		return r, true
	}
	return first(s.routes, func(r netstate.Route) bool { return sameRoute(want, r) })
}

func first[T any](list []T, match func(T) bool) (T, bool) {
	if i := slices.IndexFunc(list, match); i >= 0 {
		return list[i], true
	}
	var zero T
	return zero, false
}

// nftText is the line of a table, set, chain or rule that is there.
func (s *space) nftText(want netstate.Object) string {
	for _, t := range s.tables {
		for _, have := range t.Objects() {
			if have.Key() == want.Key() {
				return have.String()
			}
		}
	}
	return ""
}

// sameRoute reports whether have is the route that want describes: where it leads, not what
// goes along it.
func sameRoute(want, have netstate.Route) bool {
	dev := want.Dev == "" || have.Dev == want.Dev
	return dev && have.Dst == want.Dst && (have.InTable() == want.InTable() || want.AnyTable) && have.Metric() == want.Metric()
}

// sameRule reports whether have is the rule that want describes; any priority will do if it asks for
// none.
func sameRule(want, have netstate.Rule) bool {
	priority := want.Priority == 0 || want.Priority == have.Priority
	return priority && want.From == have.From && want.To == have.To && cmp.Or(want.Table, netstate.MainTable) == have.Table
}

// isImpostor reports whether have only has the name of a pod's veth, whose other end is a link on the host.
func (x *transaction) isImpostor(want netstate.Link, have link) bool {
	return want.Kind == "veth" && want.Place == netstate.Pod && want.Peer != "" && want.PeerRef().Place == netstate.Host && x.pod != hostID &&
		have.peer != end{hostID, want.Peer}
}

// linkText is the line of a link that is there, with the words that the wish has.
func (x *transaction) linkText(s *space, want netstate.Link) string {
	have, ok := s.links[want.Name]
	if !ok || x.isImpostor(want, have) {
		return ""
	}
	text := want
	if want.Kind != "" {
		text.Kind = have.Kind
	}
	// A shared link keeps what it has, and other programs may change the host's end of a veth.
	made, drifts := want.Shared && want.Kind != "", want.Place == netstate.Host && want.Kind == "veth"
	if want.MAC != "" && !made && !drifts {
		text.MAC = have.MAC
	}
	if want.MTU != 0 && !made {
		text.MTU = s.mtu(want.Name)
	}
	if want.Master != "" {
		text.Master, text.Port = have.Master, have.Port
	}
	if want.VLANs != nil {
		text.VLANs = have.VLANs
	}
	text.Bridge.VLANFiltering = want.Bridge.VLANFiltering && have.Bridge.VLANFiltering
	text.NoIPv6 = want.NoIPv6 && (have.NoIPv6 || s.mtu(want.Name) < minMTU6)
	text.ARPNotify = want.ARPNotify && have.ARPNotify
	text.Promisc, text.NoPromisc = want.Promisc && have.Promisc, want.NoPromisc && !have.Promisc
	if want.AllMulti != "" {
		text.AllMulti = cmp.Or(have.AllMulti, netstate.Off)
	}
	if want.TxQLen != 0 {
		text.TxQLen = cmp.Or(have.TxQLen, defaultTxQLen)
	}
	text.Down = have.Down
	return text.String()
}

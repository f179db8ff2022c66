package netstate

import (
	"cmp"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// String is the canonical text of the state: one object a line, in the order of
// Objects, each line ended by a newline.
func (s State) String() string {
	var b strings.Builder
	for _, o := range s.Objects() {
		b.WriteString(o.String())
		b.WriteByte('\n')
	}
	return b.String()
}

// Objects returns all objects of the state, kind by kind. An nft table is followed by its
// sets, its chains and their rules as objects of their own.
func (s State) Objects() []Object {
	var all []Object
	all = appendObjects(all, s.Leases)
	all = appendObjects(all, s.Links)
	all = appendObjects(all, s.Sysctls)
	all = appendObjects(all, s.Addrs)
	all = appendObjects(all, s.Routes)
	all = appendObjects(all, s.Rules)
	all = appendObjects(all, s.Neighbours)
	all = appendObjects(all, s.Qdiscs)
	all = appendObjects(all, s.Filters)
	for _, t := range s.Tables {
		all = append(all, t.Objects()...)
	}
	all = appendObjects(all, s.Elements)
	all = appendObjects(all, s.IptablesChains)
	all = appendObjects(all, s.IptablesRules)
	all = appendObjects(all, s.Sources)
	return appendObjects(all, s.Flows)
}

func appendObjects[T Object](all []Object, list []T) []Object {
	for _, o := range list {
		all = append(all, o)
	}
	return all
}

// IsEmpty reports whether the state holds no object.
func (s State) IsEmpty() bool { return len(s.Objects()) == 0 }

// lineSize is room for most lines.
const lineSize = 96

// line builds a canonical line word by word.
type line struct{ b strings.Builder }

func newLine(p Place, words ...string) *line {
	l := &line{}
	l.b.Grow(lineSize)
	l.b.WriteString(string(p))
	for range len(Host) - len(p) {
		l.b.WriteByte(' ') // both places have one width, so that the columns of a listing stand
	}
	l.add(words...)
	return l
}

func (l *line) add(words ...string) {
	for _, w := range words {
		l.b.WriteByte(' ')
		l.b.WriteString(w)
	}
}

// word adds name and value, if value is not its type's zero.
func word[T comparable](l *line, name string, value T) {
	var zero T
	if value == zero {
		return
	}
	switch v := any(value).(type) { // the usual ones, without reflection
	case string:
		l.add(name, v)
	case int:
		l.add(name, strconv.Itoa(v))
	default:
		l.add(name, fmt.Sprint(value))
	}
}

func (l *line) flag(on bool, name string) {
	if on {
		l.add(name)
	}
}

func (l *line) String() string { return l.b.String() }

// Key is `host link cni0`.
func (o Link) Key() string { return newLine(o.Place, "link", o.Name).String() }

// String is the canonical line.
func (o Link) String() string {
	l := newLine(o.Place, "link", o.Name)
	word(l, "kind", o.Kind)
	word(l, "mac", o.MAC)
	word(l, "mtu", o.MTU)
	if o.Peer != "" {
		l.add("peer", string(o.PeerPlace)+"/"+o.Peer)
	}
	word(l, "master", o.Master)
	l.flag(o.Port.Hairpin, "hairpin")
	l.flag(o.Port.Isolated, "isolated")
	l.flag(o.Bridge.VLANFiltering, "vlan_filtering")
	for _, v := range o.VLANs {
		l.add("vlan", v.String())
	}
	l.flag(o.NoIPv6, "noipv6")
	l.flag(o.ARPNotify, "arp_notify")
	l.flag(o.Promisc, "promisc")
	l.flag(o.NoPromisc, "nopromisc")
	word(l, "allmulti", o.AllMulti)
	word(l, "txqlen", o.TxQLen)
	l.flag(o.Down, "down")
	l.flag(o.Shared, "shared")
	return l.String()
}

// String is 5, 5-9, with /pvid and /untagged after it.
func (v VLAN) String() string {
	s := fmt.Sprint(v.From)
	if v.To != v.From {
		s += fmt.Sprintf("-%d", v.To)
	}
	if v.PVID {
		s += "/pvid"
	}
	if v.Untagged {
		s += "/untagged"
	}
	return s
}

// Key is `pod addr 10.88.0.5/16 dev eth0`.
func (o Addr) Key() string {
	return newLine(o.Place, "addr", o.Prefix.String(), "dev", o.Dev).String()
}

// String is the canonical line.
func (o Addr) String() string {
	l := newLine(o.Place, "addr", o.Prefix.String(), "dev", o.Dev)
	l.flag(o.DAD, "dad")
	l.flag(o.NoPrefixRoute, "noprefixroute")
	l.flag(o.Absent, "absent")
	l.flag(o.Shared, "shared")
	return l.String()
}

// Key is destination, table, priority and device.
func (o Route) Key() string {
	l := newLine(o.Place, "route", o.Dst.String())
	word(l, "table", o.Table)
	word(l, "priority", o.Priority)
	word(l, "dev", o.Dev)
	return l.String()
}

// String is the canonical line.
func (o Route) String() string {
	l := newLine(o.Place, "route", o.Dst.String())
	wordAddr(l, "via", o.Via)
	word(l, "dev", o.Dev)
	wordAddr(l, "src", o.Src)
	word(l, "table", o.Table)
	word(l, "scope", o.Scope)
	word(l, "priority", o.Priority)
	word(l, "mtu", o.MTU)
	word(l, "advmss", o.AdvMSS)
	l.flag(o.OnLink, "onlink")
	l.flag(o.Absent, "absent")
	l.flag(o.Shared, "shared")
	return l.String()
}

func wordAddr(l *line, name string, a netip.Addr) {
	if a.IsValid() {
		l.add(name, a.String())
	}
}

// Key is the whole rule: the kernel tells rules apart by all of it.
func (o Rule) Key() string {
	o.Shared = false
	return o.String()
}

// String is the canonical line.
func (o Rule) String() string {
	l := newLine(o.Place, "rule")
	word(l, "priority", o.Priority)
	if o.From.IsValid() {
		l.add("from", o.From.String())
	}
	if o.To.IsValid() {
		l.add("to", o.To.String())
	}
	word(l, "table", o.Table)
	l.flag(o.Shared, "shared")
	return l.String()
}

// Key is `pod neighbour 10.88.0.1 dev eth0`.
func (o Neighbour) Key() string {
	return newLine(o.Place, "neighbour", o.Addr.String(), "dev", o.Dev).String()
}

// String is the canonical line.
func (o Neighbour) String() string {
	l := newLine(o.Place, "neighbour", o.Addr.String(), "dev", o.Dev)
	word(l, "mac", o.MAC)
	return l.String()
}

// Key is `host sysctl net/ipv4/ip_forward`.
func (o Sysctl) Key() string { return newLine(o.Place, "sysctl", o.Name).String() }

// String is the canonical line.
func (o Sysctl) String() string {
	l := newLine(o.Place, "sysctl", o.Name, "value", o.Value)
	l.flag(o.AfterUp, "after_up")
	l.flag(o.Optional, "optional")
	l.flag(o.Shared, "shared")
	return l.String()
}

// Key is the qdisc's place: device and parent.
func (o Qdisc) Key() string {
	l := newLine(o.Place, "qdisc", "dev", o.Dev)
	l.add("parent", fmt.Sprintf("%x", o.Parent))
	return l.String()
}

// String is the canonical line; rate in bytes a second, burst and limit in bytes.
func (o Qdisc) String() string {
	l := newLine(o.Place, "qdisc", "dev", o.Dev)
	l.add("parent", fmt.Sprintf("%x", o.Parent), "kind", o.Kind)
	if o.Handle != 0 {
		l.add("handle", fmt.Sprintf("%x", o.Handle))
	}
	word(l, "rate", o.Rate)
	word(l, "burst", o.Burst)
	word(l, "limit", o.Limit)
	return l.String()
}

// Key is the whole filter.
func (o Filter) Key() string { return o.String() }

// String is the canonical line.
func (o Filter) String() string {
	return newLine(o.Place, "filter", "dev", o.Dev, "redirect", cmp.Or(o.To, "nothing")).String()
}

// Key is `host nft table inet cleat`.
func (o Table) Key() string { return o.String() }

// String is the line of the table itself.
func (o Table) String() string {
	return newLine(Host, "nft", "table", o.Family, o.Name).String()
}

// Objects returns the table, its sets, its chains and their rules.
func (o Table) Objects() []Object {
	all := []Object{o}
	for _, s := range o.Sets {
		all = append(all, TableSet{o.Family, o.Name, s})
	}
	for _, c := range o.Chains {
		all = append(all, TableChain{o.Family, o.Name, c})
		for _, r := range c.Rules {
			all = append(all, TableRule{o.Family, o.Name, c.Name, r})
		}
	}
	return all
}

// TableSet is the declaration of a set or map as an object of its own.
type TableSet struct {
	Family, Table string
	Set           Set
}

// Key is `host nft table inet cleat set masq4`.
func (o TableSet) Key() string {
	return newLine(Host, "nft", "table", o.Family, o.Table, setOrMap(o.Set.Data), o.Set.Name).String()
}

// String is the canonical line.
func (o TableSet) String() string {
	s := o.Key() + " type " + concat(o.Set.Key)
	if len(o.Set.Data) > 0 {
		s += " : " + concat(o.Set.Data)
	}
	return s
}

// TableChain is a chain, without its rules, as an object of its own.
type TableChain struct {
	Family, Table string
	Chain         Chain
}

// Key is `host nft table inet cleat chain postrouting`.
func (o TableChain) Key() string {
	return newLine(Host, "nft", "table", o.Family, o.Table, "chain", o.Chain.Name).String()
}

// String is the canonical line.
func (o TableChain) String() string {
	s := o.Key()
	if o.Chain.Hook != "" {
		s += fmt.Sprintf(" type %s hook %s priority %d", o.Chain.Type, o.Chain.Hook, o.Chain.Priority)
	}
	return s
}

// TableRule is a rule of a chain as an object of its own.
type TableRule struct {
	Family, Table, Chain string
	Rule                 string
}

// Key is the whole rule.
func (o TableRule) Key() string { return o.String() }

// String is the canonical line.
func (o TableRule) String() string {
	return newLine(Host, "nft", "table", o.Family, o.Table, "chain", o.Chain, "rule", o.Rule).String()
}

// Key is table, set and the element's own key.
func (o Element) Key() string {
	return newLine(Host, "nft", "table", o.Family, o.Table, setOrMap(o.Data), o.Set,
		"element", concat(o.Match)).String()
}

// String is the canonical line.
func (o Element) String() string {
	s := o.Key()
	if len(o.Data) > 0 {
		s += " : " + concat(o.Data)
	}
	if !o.Owner.IsZero() {
		s += " owner " + o.Owner.Mark()
	}
	return s
}

func setOrMap(data []string) string {
	if len(data) > 0 {
		return "map"
	}
	return "set"
}

func concat(parts []string) string { return strings.Join(parts, " . ") }

// Key is `host firewalld zone trusted source 10.88.0.5/32`.
func (o Source) Key() string {
	what := "any"
	if o.Prefix.IsValid() {
		what = o.Prefix.String()
	}
	return newLine(Host, "firewalld", "zone", o.Zone, "source", what).String()
}

// String is the canonical line.
func (o Source) String() string {
	s := o.Key()
	if !o.Owner.IsZero() {
		s += " owner " + o.Owner.Mark()
	}
	return s
}

// Key is the flow.
func (o Flow) Key() string { return o.String() }

// String is the canonical line.
func (o Flow) String() string {
	family := "ip"
	if o.IPv6 {
		family = "ip6"
	}
	if o.Protocol == "" && o.Port == 0 {
		return newLine(Host, "flow", "none", family, "of", o.Addr.String()).String()
	}
	l := newLine(Host, "flow", "none", family, o.Protocol)
	wordAddr(l, "daddr", o.Addr)
	l.add("dport", fmt.Sprint(o.Port))
	return l.String()
}

// Key is `host lease 10.88.0.5 network n`.
func (o Lease) Key() string {
	return newLine(Host, "lease", o.Addr.String(), "network", o.Network).String()
}

// String is the canonical line.
func (o Lease) String() string {
	l := newLine(Host, "lease", o.Addr.String(), "network", o.Network)
	word(l, "store", o.Store)
	if !o.Owner.IsZero() {
		l.add("owner", o.Owner.Mark())
	}
	return l.String()
}

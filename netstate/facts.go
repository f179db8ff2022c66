package netstate

import "slices"

// Query says what a planner needs to know about the kernel before it plans.
type Query struct {
	Links []Ref // these links, with their addresses
	// Peers: of those of Links that are veths in the pod also the other ends, as far as they are on the host. Then Link.Peer names it.
	Peers  bool
	Uplink bool // the host's interface of the default route (IPv4 first)
	// UplinkIfMissing: Uplink is only needed where one of Links is missing.
	UplinkIfMissing bool
	// Routing: the routes over these links in all tables but the local one, without those of router advertisements; the rules of the
	// links' places; and which tables are used in the pod.
	Routing []Ref
	Sysctls []Sysctl // these values, by place and name
	Files   []string // the content of these files of the host
	// NFTables: whether this kernel has nf_tables. It is answered for a DEL too.
	NFTables bool
	// AtDel: all is answered for a DEL too, as far as it is there still.
	AtDel bool
	// Elements: which of these are there and their owner's. Tables declare their sets.
	Elements []Element
	Tables   []Table
	// Forward: which families have a chain FORWARD in iptables' table filter.
	Forward bool
	// Firewalld: whether firewalld answers on the system bus.
	Firewalld bool
	// PodID: which namespace the pod's is.
	PodID bool
}

// Ref names a link.
type Ref struct {
	Place Place
	Name  string
}

// Facts is what was seen: links and addresses that a Query asked for and that exist.
type Facts struct {
	Links  []Link
	Addrs  []Addr
	Routes []Route // as Query.Routing asks for them
	Rules  []Rule  // that look a table up by addresses
	// UsedTables are the numbers of the pod's tables that a rule, a route or a VRF uses, in order.
	UsedTables []int
	Uplink     Link              // zero when the host has no default route
	Sysctls    []Sysctl          // those that exist and can be read
	Files      map[string]string // by path, those that exist
	// NoNFTables: it was asked, and this kernel has no nf_tables.
	NoNFTables bool
	Elements   []Element // those that are there
	// Forward are the families, ip and ip6, of which it was asked and is true.
	Forward []string
	// Firewalld: it was asked, and firewalld answers.
	Firewalld bool
	// PodID is a number that no other namespace has in this boot; "" if it was not asked or the kernel has none (before Linux 5.14).
	PodID string
}

// Link returns the link of that name, if it was seen.
func (f Facts) Link(p Place, name string) (Link, bool) {
	i := slices.IndexFunc(f.Links, func(l Link) bool { return l.Place == p && l.Name == name })
	if i < 0 {
		return Link{}, false
	}
	return f.Links[i], true
}

// Sysctl returns the value of that name, if it was seen.
func (f Facts) Sysctl(p Place, name string) (string, bool) {
	i := slices.IndexFunc(f.Sysctls, func(s Sysctl) bool { return s.Place == p && s.Name == name })
	if i < 0 {
		return "", false
	}
	return f.Sysctls[i].Value, true
}

// HasElement reports whether the element was seen.
func (f Facts) HasElement(e Element) bool {
	return slices.ContainsFunc(f.Elements, func(o Element) bool { return o.Key() == e.Key() })
}

// AddrsOf returns the addresses that were seen on the link.
func (f Facts) AddrsOf(p Place, dev string) []Addr {
	var list []Addr
	for _, a := range f.Addrs {
		if a.Place == p && a.Dev == dev {
			list = append(list, a)
		}
	}
	return list
}

// RoutesOver returns the routes that were seen over the link.
func (f Facts) RoutesOver(p Place, dev string) []Route {
	var list []Route
	for _, r := range f.Routes {
		if r.Place == p && r.Dev == dev {
			list = append(list, r)
		}
	}
	return list
}

// FreeTable returns the first number from first on of a table that nothing uses in the pod.
func (f Facts) FreeTable(first int) int {
	for slices.Contains(f.UsedTables, first) {
		first++
	}
	return first
}

// WantsUplink reports whether the uplink is asked for, when the links that were asked for are in f as far as
// they exist. One that is down may be in the making, and counts as missing.
func (q Query) WantsUplink(f Facts) bool {
	if !q.UplinkIfMissing || q.Uplink {
		return q.Uplink
	}
	return len(f.Links) < len(q.Links) || slices.ContainsFunc(f.Links, func(l Link) bool { return l.Down })
}

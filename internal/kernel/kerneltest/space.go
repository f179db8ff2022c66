package kerneltest

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cleat-cni/cleat/netstate"
)

// space is a network namespace. Objects in it have no Place. All values are replaced, never
// changed in what they point to, so that a clone is cheap.
type space struct {
	path       string // as text in Dump
	links      map[string]link
	addrs      []netstate.Addr
	routes     []netstate.Route // without the connected ones, which follow from the addresses
	rules      []netstate.Rule
	neighbours []netstate.Neighbour
	sysctls    map[string]string // those that were set
	qdiscs     []netstate.Qdisc
	filters    []netstate.Filter
	tables     []netstate.Table
	elements   []netstate.Element
	iptChains  []netstate.IptablesChain // without those that every table has
	iptRules   []netstate.IptablesRule  // of all chains
	sources    []netstate.Source        // in zones of firewalld, which knows no owners
	noted      []noted                  // whose they are
}

// link is an interface: Down is as it is, Peer and PeerPlace stand in peer.
type link struct {
	netstate.Link
	owner netstate.Owner // zero is nobody
	peer  end
}

// end is one end of a veth pair.
type end struct {
	id   int
	name string
}

func newSpace(path string) *space {
	return &space{
		path:    path,
		links:   map[string]link{"lo": {Link: netstate.Link{Name: "lo", MTU: 65536, Down: true}}},
		sysctls: map[string]string{},
	}
}

func (s *space) clone() *space {
	c := *s
	c.links = maps.Clone(s.links)
	c.addrs = slices.Clone(s.addrs)
	c.routes = slices.Clone(s.routes)
	c.rules = slices.Clone(s.rules)
	c.neighbours = slices.Clone(s.neighbours)
	c.sysctls = maps.Clone(s.sysctls)
	c.qdiscs = slices.Clone(s.qdiscs)
	c.filters = slices.Clone(s.filters)
	c.tables = slices.Clone(s.tables)
	c.elements = slices.Clone(s.elements)
	c.iptChains = slices.Clone(s.iptChains)
	c.iptRules = slices.Clone(s.iptRules)
	c.sources = slices.Clone(s.sources)
	c.noted = slices.Clone(s.noted)
	return &c
}

// mac is the address of a link that was given none: the same for the same name, as
// goldens need it.
func (s *space) mac(name string) string {
	h := sha256.Sum256([]byte(s.path + " " + name))
	return fmt.Sprintf("02:%x:%x:%x:%x:%x", h[:1], h[1:2], h[2:3], h[3:4], h[4:5])
}

// mtu is the link's MTU. A bridge that was given none has the smallest of its ports.
func (s *space) mtu(name string) int {
	l := s.links[name]
	if l.MTU != 0 {
		return l.MTU
	}
	mtu := 0
	for _, port := range s.links {
		if port.Master == name && (mtu == 0 || port.MTU < mtu) {
			mtu = port.MTU
		}
	}
	if mtu == 0 {
		return defaultMTU
	}
	return mtu
}

// down takes the link down. As in Linux its routes go, and its IPv6 addresses.
func (s *space) down(name string) {
	l := s.links[name]
	if l.Down {
		return
	}
	l.Down = true
	s.links[name] = l
	s.routes = slices.DeleteFunc(s.routes, func(r netstate.Route) bool { return r.Dev == name })
	s.dropIPv6(name)
}

// dropIPv6 takes the IPv6 addresses and routes of a link, as Linux does when it goes down or its MTU
// gets too small.
func (s *space) dropIPv6(name string) {
	s.addrs = slices.DeleteFunc(s.addrs, func(a netstate.Addr) bool {
		return a.Dev == name && a.Prefix.Addr().Is6()
	})
	s.routes = slices.DeleteFunc(s.routes, func(r netstate.Route) bool {
		return r.Dev == name && r.Dst.Addr().Is6()
	})
}

// forget removes whatever hangs on the link.
func (s *space) forget(name string) {
	delete(s.links, name)
	for port, l := range s.links {
		if l.Master == name {
			l.Master, l.Port, l.VLANs = "", netstate.Port{}, nil
			s.links[port] = l
		}
	}
	s.addrs = slices.DeleteFunc(s.addrs, func(a netstate.Addr) bool { return a.Dev == name })
	s.routes = slices.DeleteFunc(s.routes, func(r netstate.Route) bool { return r.Dev == name })
	s.neighbours = slices.DeleteFunc(s.neighbours, func(n netstate.Neighbour) bool { return n.Dev == name })
	s.qdiscs = slices.DeleteFunc(s.qdiscs, func(q netstate.Qdisc) bool { return q.Dev == name })
	s.filters = slices.DeleteFunc(s.filters, func(f netstate.Filter) bool { return f.Dev == name })
	for i := range s.filters {
		if s.filters[i].To == name {
			s.filters[i].To = ""
		}
	}
	maps.DeleteFunc(s.sysctls, func(key, _ string) bool {
		dev, ok := sysctlDev(key)
		return ok && dev == name
	})
}

// sysctlDev returns the interface that a sysctl is of: net/ipv4/conf/<dev>/<name>.
func sysctlDev(key string) (string, bool) {
	p := strings.Split(key, "/")
	if len(p) != 5 || (p[2] != "conf" && p[2] != "neigh") {
		return "", false
	}
	return p[3], true
}

// world is all namespaces by number.
type world map[int]*space

// delete deletes a link with its peer and all that hangs on both. Missing is success.
func (w world) delete(id int, name string) {
	l, ok := w[id].links[name]
	if !ok {
		return
	}
	w[id].forget(name)
	if l.peer.id != noID {
		w[l.peer.id].forget(l.peer.name)
	}
}

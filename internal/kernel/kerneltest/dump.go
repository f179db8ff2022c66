package kerneltest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cleat-cni/cleat/netstate"
)

// Dump returns all that exists as sorted lines of netstate, namespace by namespace under its path. Connected routes and
// what nobody set stand in it no more than in a state; the other end of a veth is named with its
// namespace's path.
func (m *Memory) Dump() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var b strings.Builder
	for _, id := range slices.SortedFunc(maps.Keys(m.spaces), func(x, y int) int { return x - y }) {
		fmt.Fprintf(&b, "netns %s\n%s", m.spaces[id].path, m.dump(id))
	}
	return b.String()
}

// DumpOf is the part of Dump for the namespace at path; "" is the host's.
func (m *Memory) DumpOf(path string) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if path == "" {
		return m.dump(hostID), nil
	}
	id, err := m.find(path)
	if err != nil {
		return "", fmt.Errorf("dump namespace %s: %w", path, err)
	}
	return m.dump(id), nil
}

func (m *Memory) dump(id int) string {
	s := m.spaces[id]
	place := netstate.Pod
	if id == hostID {
		place = netstate.Host
	}
	var lines []string
	for _, name := range s.names() {
		l := s.links[name].Link
		l.Place, l.MTU = place, s.mtu(name)
		if peer := s.links[name].peer; peer.id != noID {
			l.Peer, l.PeerPlace = peer.name, netstate.Place(m.spaces[peer.id].path)
		}
		line := l.String()
		if o := s.links[name].owner; !o.IsZero() {
			line += " owner " + o.Mark()
		}
		lines = append(lines, line)
	}
	for _, key := range slices.Sorted(maps.Keys(s.sysctls)) {
		lines = append(lines, netstate.Sysctl{Place: place, Name: key, Value: s.sysctls[key]}.String())
	}
	for _, o := range s.objects(place).Objects() {
		lines = append(lines, o.String())
	}
	slices.Sort(lines)
	var b strings.Builder
	for _, line := range lines {
		b.WriteString(line + "\n")
	}
	return b.String()
}

func (s *space) names() []string { return slices.Sorted(maps.Keys(s.links)) }

// objects is the namespace as a state, without links and sysctls, at a place.
func (s *space) objects(p netstate.Place) netstate.State {
	c := s.clone()
	for i := range c.addrs {
		c.addrs[i].Place = p
	}
	for i := range c.routes {
		c.routes[i].Place = p
	}
	for i := range c.rules {
		c.rules[i].Place = p
	}
	for i := range c.neighbours {
		c.neighbours[i].Place = p
	}
	for i := range c.qdiscs {
		c.qdiscs[i].Place = p
	}
	for i := range c.filters {
		c.filters[i].Place = p
	}
	return netstate.State{
		Addrs: c.addrs, Routes: c.routes, Rules: c.rules, Neighbours: c.neighbours,
		Qdiscs: c.qdiscs, Filters: c.filters, Tables: c.tables, Elements: c.elements,
		IptablesChains: c.iptChains, IptablesRules: c.iptRules, Sources: append(c.sources, c.notes()...),
	}
}

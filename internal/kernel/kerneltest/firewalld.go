package kerneltest

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cleat-cni/cleat/netstate"
)

// noted is a source with one of those who have it.
type noted struct {
	netstate.Source
	found bool // somebody else had bound it before
}

// zones are those that firewalld has.
var zones = []string{"internal", "public", "trusted"}

// bare is a source as firewalld knows it.
func bare(o netstate.Source) netstate.Source {
	o.Owner = netstate.Owner{}
	return o
}

func (s *space) notes() []netstate.Source {
	var list []netstate.Source
	for _, n := range s.noted {
		list = append(list, n.Source)
	}
	return list
}

// StartFirewalld starts firewalld, without a source in its zones, after an end if it runs.
func (m *Memory) StartFirewalld() { m.setFirewalld(true) }

// StopFirewalld ends it.
func (m *Memory) StopFirewalld() { m.setFirewalld(false) }

func (m *Memory) setFirewalld(on bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.firewalld = on
	m.spaces[hostID].sources = nil
}

// AddSource puts an address into a zone by hand.
func (m *Memory) AddSource(o netstate.Source) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.spaces[hostID].sources = append(m.spaces[hostID].sources, bare(o))
}

// SourcesOf are the addresses in a zone, sorted.
func (m *Memory) SourcesOf(zone string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []string
	for _, o := range m.spaces[hostID].sources {
		if o.Zone == zone {
			list = append(list, o.Prefix.String())
		}
	}
	slices.Sort(list)
	return list
}

// inFirewalld is the error about a source that firewalld, which runs or not, can't have.
func inFirewalld(o netstate.Source, runs bool) error {
	switch {
	case !runs:
		return errors.New("firewalld does not run")
	case !slices.Contains(zones, o.Zone):
		return fmt.Errorf("zone %s: %w", o.Zone, netstate.ErrNotExist)
	}
	return nil
}

// bindSource notes whose a source is, and binds it.
func (x *transaction) bindSource(o netstate.Source) error {
	if err := inFirewalld(o, x.firewalld); err != nil {
		return err
	}
	host := x.w[hostID]
	other := func(have netstate.Source) bool { return have.Prefix == o.Prefix && have.Zone != o.Zone }
	if slices.ContainsFunc(host.sources, other) {
		return errors.New("another zone has the source")
	}
	there := slices.Contains(host.sources, bare(o))
	n := noted{Source: o, found: there}
	for i, have := range host.noted {
		switch {
		case bare(have.Source) != bare(o):
		case there:
			n.found = have.found
		default:
			host.noted[i].found = false
		}
	}
	if !there {
		host.sources = append(host.sources, bare(o))
	}
	n.Owner = x.owner
	if !slices.ContainsFunc(host.noted, func(have noted) bool { return have.Source == n.Source }) {
		host.noted = append(host.noted, n)
	}
	return nil
}

// sourcesOf are what the owner has in firewalld, if the state names anything there, and what it names that nobody noted.
func (x *transaction) sourcesOf(want netstate.State) []removal {
	if len(want.Sources) == 0 {
		return nil
	}
	var all []removal
	host := x.w[hostID]
	for _, n := range host.noted {
		if n.Owner == want.Owner {
			all = append(all, x.sourceOf(n))
		}
	}
	for _, o := range want.Sources {
		if !slices.ContainsFunc(host.noted, func(n noted) bool { return bare(n.Source) == bare(o) }) {
			all = append(all, removal{o, netstate.Host, func(s *space) { s.unbind(o) }})
		}
	}
	return all
}

// sourceOf takes a source from one who has it.
func (x *transaction) sourceOf(n noted) removal {
	return removal{n.Source, netstate.Host, func(s *space) {
		s.noted = slices.DeleteFunc(s.noted, func(o noted) bool { return o == n })
		kept := slices.ContainsFunc(s.noted, func(o noted) bool { return bare(o.Source) == bare(n.Source) })
		if !n.found && !kept {
			s.unbind(n.Source)
		}
	}}
}

func (s *space) unbind(o netstate.Source) {
	s.sources = slices.DeleteFunc(s.sources, func(have netstate.Source) bool { return have == bare(o) })
}

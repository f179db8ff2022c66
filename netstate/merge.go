package netstate

import (
	"cmp"
	"slices"
	"strings"
)

// Merge returns the states as one, in order, as when a list of plugins is applied in
// one pass. An object that several state alike stands once; a table that several use has the sets, chains and rules
// of all. The owner is the first state's.
func Merge(states ...State) State {
	var all State
	if len(states) > 0 {
		all.Owner = states[0].Owner
	}
	all.Leases = union(states, func(s *State) []Lease { return s.Leases }, itself)
	all.Links = foldAdjusted(union(states, func(s *State) []Link { return s.Links }, Link.String))
	all.Addrs = union(states, func(s *State) []Addr { return s.Addrs }, itself)
	all.Routes = union(states, func(s *State) []Route { return s.Routes }, itself)
	all.Rules = union(states, func(s *State) []Rule { return s.Rules }, itself)
	all.Neighbours = union(states, func(s *State) []Neighbour { return s.Neighbours }, itself)
	all.Qdiscs = union(states, func(s *State) []Qdisc { return s.Qdiscs }, itself)
	all.Filters = union(states, func(s *State) []Filter { return s.Filters }, itself)
	all.Elements = union(states, func(s *State) []Element { return s.Elements }, formOf)
	all.IptablesChains = union(states, func(s *State) []IptablesChain { return s.IptablesChains }, IptablesChain.String)
	all.IptablesRules = union(states, func(s *State) []IptablesRule { return s.IptablesRules }, IptablesRule.String)
	all.Sources = union(states, func(s *State) []Source { return s.Sources }, itself)
	all.Flows = union(states, func(s *State) []Flow { return s.Flows }, itself)
	for _, s := range states {
		all.Sysctls = latest(all.Sysctls, s.Sysctls)
		for _, t := range s.Tables {
			all.Tables = mergeTable(all.Tables, t)
		}
	}
	if slices.ContainsFunc(all.Routes, func(r Route) bool { return r.Absent }) {
		all.Routes = latestRoutes(all.Routes)
		all.Addrs = withoutRoutes(all.Addrs, all.Routes)
	}
	return all
}

// latestRoutes lets the later one of two routes count of which one must be there and the other must not.
func latestRoutes(routes []Route) []Route {
	var kept []Route
	for i, r := range routes {
		overruled := func(later Route) bool { return later.Absent != r.Absent && later.sameWay(r) }
		if !slices.ContainsFunc(routes[i+1:], overruled) {
			kept = append(kept, r)
		}
	}
	return kept
}

// withoutRoutes has addresses come without the routes to their subnets that must not be there: one that is never made need not go.
func withoutRoutes(addrs []Addr, routes []Route) []Addr {
	addrs = slices.Clone(addrs)
	for i, a := range addrs {
		comes, ok := a.SubnetRoute()
		if ok && slices.ContainsFunc(routes, func(r Route) bool { return r.Absent && r.sameWay(comes) }) {
			addrs[i].NoPrefixRoute = true
		}
	}
	return addrs
}

// foldAdjusted gives what only adjusts a link to the one that makes it, so that it is made as it shall be, or to the first that adjusts it.
func foldAdjusted(links []Link) []Link {
	var kept []Link
	for _, l := range links {
		first := !slices.ContainsFunc(kept, func(o Link) bool { return o.takes(l) })
		made := slices.ContainsFunc(links, func(o Link) bool { return o.Kind != "" && o.takes(l) })
		if !l.adjusts() || first && !made {
			kept = append(kept, l)
		}
	}
	for _, l := range links {
		i := slices.IndexFunc(kept, func(o Link) bool { return o.takes(l) })
		if !l.adjusts() || i < 0 {
			continue
		}
		m := &kept[i]
		m.MAC, m.MTU = cmp.Or(l.MAC, m.MAC), cmp.Or(l.MTU, m.MTU)
		m.AllMulti, m.TxQLen = cmp.Or(l.AllMulti, m.AllMulti), cmp.Or(l.TxQLen, m.TxQLen)
		m.Promisc, m.NoPromisc = l.Promisc || m.Promisc && !l.NoPromisc, l.NoPromisc || m.NoPromisc && !l.Promisc
	}
	return kept
}

// adjusts reports whether o changes a link that is there, for its owner.
func (o Link) adjusts() bool { return o.Kind == "" && !o.Shared }

// takes reports whether what adjusts l is part of o.
func (o Link) takes(l Link) bool { return o.Ref() == l.Ref() && (o.Kind != "" || o.adjusts()) }

// latest appends values; of two for one name the later counts. One that is set before the links are up stays beside one that is set
// afterwards: what comes up in between needs it.
func latest(all, more []Sysctl) []Sysctl {
	for _, s := range more {
		all = slices.DeleteFunc(slices.Clone(all), func(o Sysctl) bool {
			return o.sets(s) && o != s && (o.AfterUp || !s.AfterUp)
		})
	}
	for _, s := range more {
		if !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all
}

// sets reports whether o is about the same value as s.
func (o Sysctl) sets(s Sysctl) bool { return o.Place == s.Place && o.Name == s.Name }

// Settled is what there is to be seen of s once all of it is made: of values that are set one after the other the last, also
// where a link is made with another.
func (s State) Settled() State {
	settled := s
	settled.Sysctls, settled.Links = nil, slices.Clone(s.Links)
	for i, v := range s.Sysctls {
		replaces := func(o Sysctl) bool { return o.sets(v) && (o.AfterUp || !v.AfterUp) }
		if !slices.ContainsFunc(s.Sysctls[i+1:], replaces) {
			settled.Sysctls = append(settled.Sysctls, v)
		}
	}
	facts := Facts{Sysctls: settled.Sysctls}
	for i := range settled.Links {
		l := &settled.Links[i]
		if value, ok := facts.Sysctl(l.Place, "net/ipv4/conf/"+l.Name+"/arp_notify"); ok && value == "0" {
			l.ARPNotify = false
		}
		mode, moded := facts.Sysctl(l.Place, "net/ipv6/conf/"+l.Name+"/addr_gen_mode")
		off, set := facts.Sysctl(l.Place, "net/ipv6/conf/"+l.Name+"/disable_ipv6")
		if moded && mode != addrGenModeNone || set && off == "0" {
			l.NoIPv6 = false
		}
	}
	return settled
}

// addrGenModeNone is the value of addr_gen_mode that gives no address (IN6_ADDR_GEN_MODE_NONE): one of the two ways in which [Link.NoIPv6]
// is made so.
const addrGenModeNone = "1"

// union is a kind of objects of all states, each that stands there in just the same form once. form is all that there is of one.
func union[T any, F comparable](states []State, of func(*State) []T, form func(T) F) []T {
	var all []T
	var held map[F]bool
	for i := range states {
		for _, o := range of(&states[i]) {
			if held == nil {
				held = make(map[F]bool)
			}
			if f := form(o); !held[f] {
				held[f] = true
				all = append(all, o)
			}
		}
	}
	return all
}

func itself[T comparable](o T) T { return o }

// elementForm is an element as a value that can be compared.
type elementForm struct {
	family, table, set, match, data string
	owner                           Owner
	lives                           string
}

func formOf(e Element) elementForm {
	const between = "\x00" // no value holds it
	return elementForm{e.Family, e.Table, e.Set, strings.Join(e.Match, between), strings.Join(e.Data, between), e.Owner, e.Lives}
}

func mergeTable(all []Table, t Table) []Table {
	i := slices.IndexFunc(all, func(o Table) bool { return o.Family == t.Family && o.Name == t.Name })
	if i < 0 {
		return append(all, t)
	}
	have := all[i]
	have.Sets, have.Chains = slices.Clone(have.Sets), slices.Clone(have.Chains)
	for _, s := range t.Sets {
		if !slices.ContainsFunc(have.Sets, func(o Set) bool { return o.Name == s.Name }) {
			have.Sets = append(have.Sets, s)
		}
	}
	for _, c := range t.Chains {
		j := slices.IndexFunc(have.Chains, func(o Chain) bool { return o.Name == c.Name })
		if j < 0 {
			have.Chains = append(have.Chains, c)
			continue
		}
		have.Chains[j].Rules = slices.Clone(have.Chains[j].Rules)
		for _, r := range c.Rules {
			if !slices.Contains(have.Chains[j].Rules, r) {
				have.Chains[j].Rules = append(have.Chains[j].Rules, r)
			}
		}
	}
	all[i] = have
	return all
}

package netstate

import (
	"cmp"
	"slices"
)

// Merge returns the states as one, in order, as when a list of plugins is applied in
// one pass. An object that several state alike stands once; a table that several use has the sets, chains and rules
// of all. The owner is the first state's.
func Merge(states ...State) State {
	var all State
	for i, s := range states {
		if i == 0 {
			all.Owner = s.Owner
		}
		all.Leases = union(all.Leases, s.Leases)
		all.Links = union(all.Links, s.Links)
		all.Sysctls = latest(all.Sysctls, s.Sysctls)
		all.Addrs = union(all.Addrs, s.Addrs)
		all.Routes = union(all.Routes, s.Routes)
		all.Rules = union(all.Rules, s.Rules)
		all.Neighbours = union(all.Neighbours, s.Neighbours)
		all.Qdiscs = union(all.Qdiscs, s.Qdiscs)
		all.Filters = union(all.Filters, s.Filters)
		all.Elements = union(all.Elements, s.Elements)
		all.IptablesChains = union(all.IptablesChains, s.IptablesChains)
		all.IptablesRules = union(all.IptablesRules, s.IptablesRules)
		all.Sources = union(all.Sources, s.Sources)
		all.Flows = union(all.Flows, s.Flows)
		for _, t := range s.Tables {
			all.Tables = mergeTable(all.Tables, t)
		}
	}
	all.Links = foldAdjusted(all.Links)
	return all
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
			return o.Key() == s.Key() && o.String() != s.String() && (o.AfterUp || !s.AfterUp)
		})
	}
	return union(all, more)
}

// Settled is what there is to be seen of s once all of it is made: of values that are set one after the other the last, also
// where a link is made with another.
func (s State) Settled() State {
	settled := s
	settled.Sysctls, settled.Links = nil, slices.Clone(s.Links)
	for i, v := range s.Sysctls {
		replaces := func(o Sysctl) bool { return o.Key() == v.Key() && (o.AfterUp || !v.AfterUp) }
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
		if value, ok := facts.Sysctl(l.Place, "net/ipv6/conf/"+l.Name+"/addr_gen_mode"); ok && value != addrGenModeNone {
			l.NoIPv6 = false
		}
	}
	return settled
}

// addrGenModeNone is the value of addr_gen_mode that [Link.NoIPv6] sets (IN6_ADDR_GEN_MODE_NONE).
const addrGenModeNone = "1"

// union appends the objects of more that all does not hold in just the same form.
func union[T Object](all, more []T) []T {
	if len(more) == 0 {
		return all
	}
	held := make(map[string]bool, len(all)+len(more))
	for _, o := range all {
		held[o.String()] = true
	}
	for _, o := range more {
		if text := o.String(); !held[text] {
			held[text] = true
			all = append(all, o)
		}
	}
	return all
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

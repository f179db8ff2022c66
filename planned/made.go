package planned

import (
	"slices"

	"github.com/cleat-cni/cleat/netstate"
)

// withMade is seen as it will be once a state of an earlier step is made: with those elements of it that q asks for, and with its part of the
// routing.
func withMade(seen netstate.Facts, q netstate.Query, s netstate.State) netstate.Facts {
	for _, e := range q.Elements {
		same := func(o netstate.Element) bool { return o.Key() == e.Key() && o.Owner == e.Owner }
		if !seen.HasElement(e) && slices.ContainsFunc(s.Elements, same) {
			seen.Elements = append(slices.Clone(seen.Elements), e)
		}
	}
	if len(q.Routing) > 0 {
		seen = withRouting(seen, q.Routing, s)
	}
	return seen
}

// withRouting is seen with the routes, rules and tables of s.
func withRouting(seen netstate.Facts, links []netstate.Ref, s netstate.State) netstate.Facts {
	asked := func(p netstate.Place, dev string) bool {
		return slices.Contains(links, netstate.Ref{Place: p, Name: dev})
	}
	used := slices.Clone(seen.UsedTables)
	over := netstate.State{Routes: seen.Routes, Rules: seen.Rules}
	var more netstate.State
	for _, r := range s.Routes {
		if r.Place == netstate.Pod && !r.Absent {
			used = append(used, r.InTable())
		}
		if asked(r.Place, r.Dev) {
			r.Table, r.Planned = r.InTable(), true
			more.Routes = append(more.Routes, r)
		}
	}
	for _, a := range s.Addrs {
		if r, ok := a.SubnetRoute(); ok && asked(a.Place, a.Dev) {
			r.Table, r.Planned = r.InTable(), true
			more.Routes = append(more.Routes, r)
		}
	}
	for _, r := range s.Rules {
		if r.Place == netstate.Pod {
			used = append(used, r.Table)
		}
		if slices.ContainsFunc(links, func(ref netstate.Ref) bool { return ref.Place == r.Place }) {
			more.Rules = append(more.Rules, r)
		}
	}
	merged := netstate.Merge(over, more)
	seen.Routes = slices.DeleteFunc(merged.Routes, func(r netstate.Route) bool { return r.Absent })
	seen.Rules = merged.Rules
	slices.Sort(used)
	seen.UsedTables = slices.Compact(used)
	return seen
}

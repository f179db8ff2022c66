package kerneltest

import (
	"slices"

	"github.com/cleat-cni/cleat/netstate"
)

// observeRouting adds what netstate.Query.Routing asks for.
func (x *transaction) observeRouting(links []netstate.Ref, f *netstate.Facts) {
	for _, p := range []netstate.Place{netstate.Host, netstate.Pod} {
		asked := slices.DeleteFunc(slices.Clone(links), func(ref netstate.Ref) bool { return ref.Place != p })
		s, ok := x.w[x.id(p)]
		if !ok || len(asked) == 0 {
			continue
		}
		// Those that every namespace has look up the local, the main and the default table.
		used := []int{netstate.LocalTable, netstate.MainTable, netstate.DefaultTable}
		for _, r := range s.rules {
			used = append(used, r.Table)
			r.Place = p
			f.Rules = append(f.Rules, r)
		}
		for _, r := range append(s.connected(), s.routes...) {
			used = append(used, r.InTable())
			r.Place, r.Table = p, r.InTable()
			if slices.Contains(asked, netstate.Ref{Place: p, Name: r.Dev}) {
				f.Routes = append(f.Routes, r)
			}
		}
		if p == netstate.Pod {
			slices.Sort(used)
			f.UsedTables = slices.Compact(used)
		}
	}
}

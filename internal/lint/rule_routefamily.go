package lint

import (
	"net/netip"

	"github.com/cleat-cni/cleat/cni"
)

// routeFamily finds routes of a family that the pod has no address of.
func routeFamily() Rule {
	return Rule{
		ID: "L405", Name: "route-family",
		Why: "Without an address of its family a route carries nothing, and many kernels refuse it.",
		check: func(r *run) {
			for s := range r.steps() {
				if !s.gives() {
					continue
				}
				has := map[bool]bool{}
				for _, n := range s.subnets() {
					has[n.Start.Is4()] = true
				}
				used := map[*cni.Tree]bool{}
				for _, route := range s.pool.Routes {
					at := s.written(route.Dst, used)
					if !has[route.Dst.Addr().Is4()] {
						r.value(s.doc, at, Warning, "a route to %s, and pods get no IPv%s address", route.Dst, family(route.Dst)).
							hint("remove it, or give a range of IPv%s", family(route.Dst))
					}
				}
			}
		},
	}
}

func family(p netip.Prefix) string {
	if p.Addr().Is4() {
		return "4"
	}
	return "6"
}

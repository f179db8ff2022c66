package lint

import (
	"net/netip"
	"slices"
	"strconv"

	"github.com/cleat-cni/cleat/internal/hostnet"
	"github.com/cleat-cni/cleat/netstate"
)

// hostOverlap finds networks whose addresses the host reaches somewhere else.
func hostOverlap() Rule {
	return Rule{
		ID: "L605", Name: "host-overlap",
		Why: "The host has a route for such addresses that leads away from the pods, or loses its way to what is there: a " +
			"VPN, a cluster's network, the network of the machine itself.",
		check: func(r *run) {
			for _, n := range r.subnets() {
				own := n.step.hostLinks()
				for _, route := range r.node.host.Routes {
					if route.Dst.Bits() == 0 || !route.Dst.Overlaps(n.Subnet) || slices.Contains(own, route.Dev) || r.isPods(route, n.Subnet) {
						continue
					}
					r.value(n.step.doc, n.at, Warning, "%s overlaps %s, which this host reaches by %s", n.Subnet, route.Dst, route.Dev).
						hint("take a range that the host has no other route to")
					break
				}
			}
		},
	}
}

// hostLinks are the interfaces of the host that the step makes.
func (s *step) hostLinks() []string {
	var names []string
	for _, l := range s.plan.State.Links {
		if l.Place == netstate.Host {
			names = append(names, l.Name)
		}
	}
	return names
}

// isPods reports whether a route leads to pods of the network: to one address of it, or by an interface that some network of the folder makes.
func (r *run) isPods(route hostnet.Route, p netip.Prefix) bool {
	if route.Dst.IsSingleIP() && p.Contains(route.Dst.Addr()) {
		return true
	}
	for s := range r.steps() {
		if slices.Contains(s.hostLinks(), route.Dev) {
			return true
		}
	}
	return false
}

func decimal(n int) string { return strconv.Itoa(n) }

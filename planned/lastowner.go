package planned

import (
	"context"
	"net/netip"
	"slices"

	"github.com/cleat-cni/cleat/netstate"
)

// ofPodAddrs selects the connections of the addresses that a state gives to the pod: those of the last owner when it comes, its own when
// it goes. A repair must not have them, since its pod goes on.
func ofPodAddrs(s netstate.State) []netstate.Flow {
	var flows []netstate.Flow
	for _, a := range s.Addrs {
		if ip := a.Prefix.Addr(); a.Place == netstate.Pod && !a.Shared && !a.Absent && ip.IsGlobalUnicast() {
			flows = append(flows, flowsOf(ip))
		}
	}
	return flows
}

// known marks the pod's links whose addresses every pod here that had them last had with the same MAC: it follows from the address, and the
// address is of a store of this machine. Of others the last owner may have been elsewhere, or have had another MAC.
func known(s netstate.State, plans []Plan) {
	leased := func(ip netip.Addr) bool {
		return slices.ContainsFunc(plans, func(p Plan) bool {
			return slices.ContainsFunc(p.State.Leases, func(l netstate.Lease) bool { return l.Addr == ip })
		})
	}
	for i := range s.Links {
		l := &s.Links[i]
		l.Known = l.Place == netstate.Pod && !slices.ContainsFunc(s.Addrs, func(a netstate.Addr) bool {
			ip := a.Prefix.Addr()
			return a.Place == netstate.Pod && a.Dev == l.Name && !(ip.Is4() && l.MAC == netstate.MACFromIPv4(ip) && leased(ip))
		})
	}
}

func flowsOf(ip netip.Addr) netstate.Flow { return netstate.Flow{Addr: ip, IPv6: ip.Is6()} }

// forgetLast has the kernel forget the connections of addresses that have become free. That it can't is logged: who has one next is told
// apart by its ADD too.
func (e *Engine) forgetLast(ctx context.Context, leases []netstate.Lease) {
	if len(leases) == 0 {
		return
	}
	var s netstate.State
	for _, l := range leases {
		s.Flows = append(s.Flows, flowsOf(l.Addr))
	}
	session, err := e.kernel.Open(ctx, "", false)
	if err == nil {
		defer session.Close()
		err = session.Remove(ctx, s, false)
	}
	if err != nil {
		e.log.Warn("connections of freed addresses are still known", "why", err)
	}
}

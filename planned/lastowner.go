package planned

import (
	"context"
	"net/netip"

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

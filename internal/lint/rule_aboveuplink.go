package lint

import "github.com/cleat-cni/cleat/netstate"

// aboveUplink finds interfaces whose packets are too large for the way out.
func aboveUplink() Rule {
	return Rule{
		ID: "L604", Name: "mtu-above-uplink",
		Why: "Packets that are larger than the host's way out are cut into pieces, or dropped where that is forbidden: " +
			"connections open, and then hang. 0, or no mtu at all, takes that of the way out.",
		check: func(r *run) {
			up, ok := r.node.host.Uplink()
			if !ok {
				return
			}
			for s := range r.steps() {
				t := member(s.node, "mtu")
				if t == nil || !s.rehearsed {
					continue
				}
				for _, l := range s.plan.State.Links {
					if l.Place == netstate.Pod && l.MTU > up.MTU && string(t.Raw) == decimal(l.MTU) && s.leadsOut() {
						r.value(s.doc, t, Warning, "mtu %d is above that of %s, the host's way out, which has %d", l.MTU, up.Name, up.MTU).
							hint("write %d, or leave mtu out", up.MTU)
					}
				}
			}
		},
	}
}

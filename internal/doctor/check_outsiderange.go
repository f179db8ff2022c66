package doctor

import "net/netip"

// outsideRange looks for pods whose addresses their network has no more.
func outsideRange() Check {
	return Check{
		Name: "outside-range", Looks: "addresses of living attachments that are in no range of their network",
		Why: "The network's range was changed while pods ran: they keep the old addresses and routes, and masquerading and " +
			"gateway are those of the new range.",
		Mend:  "attach those pods again",
		Good:  "all pods have addresses of their network",
		Needs: ofState,
		find: func(f *Facts) []Result {
			var names []string
			for _, a := range f.living() {
				subnets := f.subnetsOf(a.Network)
				if len(subnets) == 0 || a.Result == nil {
					continue
				}
				for _, ip := range a.Result.IPs {
					if addr := ip.Address.Addr(); !anyHolds(subnets, addr) && !addr.IsLoopback() {
						names = append(names, addr.String()+" of "+a.Network+"/"+a.ContainerID)
					}
				}
			}
			return some(names, "in no range of the network", Remedy{})
		},
	}
}

// subnetsOf are the networks that a network gives addresses of.
func (f *Facts) subnetsOf(network string) []netip.Prefix {
	var all []netip.Prefix
	for _, s := range f.Steps {
		if s.Network == network {
			all = append(all, s.subnets()...)
		}
	}
	return all
}

func anyHolds(list []netip.Prefix, a netip.Addr) bool {
	for _, p := range list {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

package doctor

import "net/netip"

// duplicateAddresses looks for addresses that two pods have.
func duplicateAddresses() Check {
	return Check{
		Name: "duplicate-addresses", Looks: "addresses in the records of more than one living attachment",
		Why: "One of both is unreachable, at random: two networks that give the same range, or a folder of leases that was " +
			"lost.",
		Mend:  "attach one of both again (cleat del, cleat add), and keep the ranges of networks apart",
		Good:  "no address is given twice",
		Needs: ofState,
		find: func(f *Facts) []Result {
			var all []Result
			owner := map[netip.Addr]string{}
			for _, a := range f.living() {
				if a.Result == nil {
					continue
				}
				name := a.Network + "/" + a.ContainerID + "/" + a.IfName
				for _, ip := range a.Result.IPs {
					addr := ip.Address.Addr()
					if addr.IsLoopback() || addr.IsLinkLocalUnicast() {
						continue
					}
					if first := owner[addr]; first != "" && first != name {
						all = append(all, failed("%s belongs to %s and to %s", addr, first, name))
					}
					owner[addr] = name
				}
			}
			return all
		},
	}
}

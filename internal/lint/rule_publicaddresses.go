package lint

import "net/netip"

// publicAddresses finds ranges of addresses that belong to others.
func publicAddresses() Rule {
	return Rule{
		ID: "L407", Name: "public-addresses",
		Why: "Addresses that are not private belong to somebody on the internet, whom pods then can't reach; 172.32.0.0/16 is " +
			"easily taken for private. It is right for a network that owns its addresses.",
		check: func(r *run) {
			for _, n := range r.subnets() {
				a := n.Subnet.Addr()
				if a.IsPrivate() || a.IsLinkLocalUnicast() || isSpecial(n.Subnet) {
					continue
				}
				r.value(n.step.doc, n.at, Info, "%s is not private", n.Subnet).
					hint("private are 10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16, 100.64.0.0/10 and fd00::/8")
			}
		},
	}
}

// isSpecial reports whether a network is for use between providers and their customers (RFC 6598), for tests (RFC 2544) or for documentation (RFC 5737, 3849).
func isSpecial(p netip.Prefix) bool {
	for _, text := range []string{"100.64.0.0/10", "198.18.0.0/15", "192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32"} {
		special := netip.MustParsePrefix(text)
		if special.Contains(p.Addr()) && special.Bits() <= p.Bits() {
			return true
		}
	}
	return false
}

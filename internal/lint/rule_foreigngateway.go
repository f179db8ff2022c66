package lint

// foreignGateway finds gateways outside of the subnet.
func foreignGateway() Rule {
	return Rule{
		ID: "L403", Name: "foreign-gateway",
		Why: "A gateway that is not in the pod's subnet is mostly mistyped. It is allowed, since a host may answer for all " +
			"addresses, or be reached by a link-local one.",
		check: func(r *run) {
			for _, n := range r.subnets() {
				g := n.Gateway
				if !g.IsValid() || n.Subnet.Contains(g) || g.IsLinkLocalUnicast() {
					continue
				}
				at := n.at
				if written := sibling(n.at, "gateway"); written != nil {
					at = written
				}
				r.value(n.step.doc, at, Warning, "the gateway %s is not in %s", g, n.Subnet).
					hint("write an address of the subnet, unless the gateway answers for all")
			}
		},
	}
}

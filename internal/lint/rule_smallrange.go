package lint

// smallRange finds networks that run out of addresses.
func smallRange() Rule {
	return Rule{
		ID: "L402", Name: "small-range",
		Why: "A node that runs more pods than the network has addresses leaves the last ones without: 'no free address'. A " +
			"kubelet runs up to 110 pods, or what its maxPods says; --max-pods tells how many it is here, and without that " +
			"this is no more than advice.",
		check: func(r *run) {
			severity := Info
			if r.cfg.MaxPods > 0 {
				severity = Warning
			}
			for s := range r.steps() {
				all := s.subnets()
				for _, set := range s.pool.Pool.Sets {
					n := 0
					for _, rg := range set {
						n += size(rg, r.maxPods())
					}
					if n < r.maxPods() && len(set) > 0 {
						r.value(s.doc, all[0].at, severity, "%s gives %d addresses, and a node runs up to %d pods", set[0].Subnet, n, r.maxPods()).
							hint("take a larger range, add one to the set, or run no more pods")
					}
					all = all[len(set):]
				}
			}
		},
	}
}

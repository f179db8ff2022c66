package lint

import "github.com/cleat-cni/cleat/netstate"

// noDefaultRoute finds masquerading for pods that have no way out.
func noDefaultRoute() Rule {
	return Rule{
		ID: "L404", Name: "no-default-route",
		Why: "Masquerading is for packets that leave the pod's subnet, and without a default route none does: a pod reaches " +
			"its neighbours and nothing else.",
		check: func(r *run) {
			for s := range r.steps() {
				t := member(s.node, "ipMasq")
				if t == nil || string(t.Raw) != "true" || !s.rehearsed || !s.gives() || s.leadsOut() {
					continue
				}
				f := r.key(s.doc, t, Warning, "pods are masqueraded, and have no default route")
				if _, has := s.keys.Key("isDefaultGateway"); has {
					f.hint(`write "isDefaultGateway": true, or "routes": [{"dst": "0.0.0.0/0"}] in ipam`)
				} else {
					f.hint(`write "routes": [{"dst": "0.0.0.0/0"}] in ipam`)
				}
			}
		},
	}
}

// gives reports whether it is known which addresses pods get.
func (s *step) gives() bool { return len(s.pool.Pool.Sets)+len(s.pool.Fixed) > 0 }

// leadsOut reports whether a default route is planned.
func (s *step) leadsOut() bool {
	for _, r := range s.plan.State.Routes {
		if r.Place == netstate.Pod && r.Dst.Bits() == 0 {
			return true
		}
	}
	return false
}

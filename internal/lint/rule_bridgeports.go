package lint

import "github.com/cleat-cni/cleat/netstate"

// mostPorts is how many ports the kernel lets a bridge have: BR_MAX_PORTS, less the number that is none.
const mostPorts = 1023

// bridgePorts finds bridges that pods will not find a port on.
func bridgePorts() Rule {
	return Rule{
		ID: "L310", Name: "bridge-ports",
		Why: "A bridge of Linux has 1,023 ports, and each pod takes one. The next pod fails, though there are addresses left.",
		check: func(r *run) {
			need := map[string]int{}
			for s := range r.steps() {
				for _, l := range s.plan.State.Links {
					if l.Kind != "bridge" || l.Place != netstate.Host {
						continue
					}
					need[l.Name] += r.maxPods()
					have, _ := r.node.host.Link(l.Name)
					switch {
					case need[l.Name] > mostPorts:
						r.value(s.doc, s.typAt, Warning, "the bridge %s has %d ports, and %d pods want one", l.Name, mostPorts, need[l.Name]).
							hint("give half of them a bridge of another network")
					case have.Ports >= mostPorts*9/10:
						r.value(s.doc, s.typAt, Warning, "the bridge %s has %d of %d ports in use here", l.Name, have.Ports, mostPorts).
							hint("cleat gc removes those that no pod has; another network takes another bridge")
					}
				}
			}
		},
	}
}

// maxPods is how many pods a network has to do for.
func (r *run) maxPods() int {
	if r.cfg.MaxPods > 0 {
		return r.cfg.MaxPods
	}
	return DefaultMaxPods
}

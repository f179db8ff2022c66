package doctor

import (
	"strings"

	"github.com/cleat-cni/cleat/netstate"
)

// reversePath looks for strict filters of source addresses where packets come in by other ways.
func reversePath() Check {
	return Check{
		Name: "reverse-path", Looks: "net.ipv4.conf.*.rp_filter of interfaces of the host that are the master of pods' interfaces",
		Why: "With 1 a packet is dropped whose source is reached by another interface. For a pod on a second network that is " +
			"the rule, and nothing says why it is not answered.",
		Mend: "sysctl -w net.ipv4.conf.IFACE.rp_filter=2",
		Good: "no strict filter of source addresses is in the way",
		find: func(f *Facts) []Result {
			var all []Result
			for _, s := range f.Steps {
				for _, l := range s.Plan.State.Links {
					if l.Place != netstate.Pod || l.Kind == "" || l.Kind == "veth" || l.Master == "" {
						continue
					}
					if f.sysctl("net/ipv4/conf/"+l.Master+"/rp_filter") == "1" || f.sysctl("net/ipv4/conf/all/rp_filter") == "1" {
						all = append(all, warning("%s, on which pods of the network %s stand, drops packets by their source "+
							"(rp_filter is 1)", l.Master, s.Network).
							with("sysctl -w net.ipv4.conf.%s.rp_filter=2", strings.ReplaceAll(l.Master, ".", "/")))
					}
				}
			}
			return all
		},
	}
}

package portmap

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/attached"
	"github.com/cleat-cni/cleat/netstate"
	"github.com/cleat-cni/cleat/planned"
)

func plan(c Config, in planned.Input, seen netstate.Facts) (planned.Plan, error) {
	s := netstate.State{Owner: in.Owner()}
	gone, iptables := in.Verb == cni.VerbDel, c.backend.UsesIptables(seen)
	if len(c.mappings) == 0 {
		// Without mappings nothing is touched. But a runtime that forgets on DEL what it
		// asked for on ADD must not leave mappings behind: they are found by their owner.
		if gone && !c.asked {
			place(&s, iptables)
		}
		return planned.Plan{State: s}, nil
	}
	pods := podAddresses(in)
	if len(pods) == 0 {
		if !gone {
			return planned.Plan{}, invalid("prevResult gives %s no address that ports could lead to", in.IfName)
		}
		place(&s, iptables)
		for _, a := range []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()} {
			s.Flows = append(s.Flows, flows(c, netstate.FamilyOf(a))...)
		}
		return planned.Plan{State: s}, nil
	}
	var notes []string
	if in.Verb == cni.VerbAdd {
		var err error
		if notes, err = unservable(c.mappings, pods); err != nil {
			return planned.Plan{}, err
		}
	}
	loopback := c.snat && reachableOnLoopback(c, pods)
	if loopback {
		openLoopback(&s, in)
	}
	if iptables {
		publishByRules(&s, c, pods, loopback, attached.Lives(in.Prev, in.NetNS))
	} else {
		publish(&s, c, pods, loopback, attached.Lives(in.Prev, in.NetNS))
	}
	for _, pod := range pods {
		s.Flows = append(s.Flows, flows(c, netstate.FamilyOf(pod.Addr()))...)
	}
	return planned.Plan{State: s, Notes: notes}, nil
}

// unservable looks for mappings of a family that the pod has no address of. One of all the host's addresses of that family is told of; one
// of a single address is an error, since it was meant to lead somewhere.
func unservable(mappings []mapping, pods []netip.Prefix) (notes []string, err error) {
	for i, m := range mappings {
		if slices.ContainsFunc(pods, func(p netip.Prefix) bool { return m.serves(netstate.FamilyOf(p.Addr())) }) {
			continue
		}
		family, all := "IPv4", "0.0.0.0"
		if m.v6 {
			family, all = "IPv6", "::"
		}
		if m.hostIP.IsValid() {
			return nil, invalid("portMappings[%d]: hostIP %s is %s, and the pod has no address of that family", i, m.hostIP, family)
		}
		notes = append(notes, fmt.Sprintf("portMappings[%d]: port %d/%s of %s leads nowhere: the pod has no %s address", i, m.hostPort, m.protocol, all, family))
	}
	return notes, nil
}

// place says where mappings may be that are not known any more.
func place(s *netstate.State, iptables bool) {
	if iptables {
		s.IptablesChains = netstate.IptablesPlaces("nat", portsChain)
	} else {
		s.Tables = []netstate.Table{emptyTable()}
	}
}

// podAddresses returns the first IPv4 and the first IPv6 address of the attachment's interface.
func podAddresses(in planned.Input) []netip.Prefix {
	var all []netip.Prefix
	for _, p := range attached.Addresses(in.Prev, in.IfName) {
		if !slices.ContainsFunc(all, func(o netip.Prefix) bool { return o.Addr().Is4() == p.Addr().Is4() }) {
			all = append(all, p)
		}
	}
	return all
}

// reachableOnLoopback reports whether a mapping is for the host's 127.0.0.0/8.
func reachableOnLoopback(c Config, pods []netip.Prefix) bool {
	return slices.ContainsFunc(pods, func(p netip.Prefix) bool { return p.Addr().Is4() }) &&
		slices.ContainsFunc(c.mappings, func(m mapping) bool {
			return m.v4 && (!m.hostIP.IsValid() || m.hostIP.IsLoopback())
		})
}

// flows are what connection tracking remembers of a family's UDP mappings. A sender that never pauses would
// keep such an entry, and with it the pod before, for ever.
func flows(c Config, f netstate.Family) []netstate.Flow {
	var all []netstate.Flow
	for _, m := range c.mappings {
		if m.protocol == "udp" && m.serves(f) {
			all = append(all, netstate.Flow{Protocol: "udp", Addr: m.hostIP, IPv6: f.V6, Port: m.hostPort})
		}
	}
	return all
}

// openLoopback lets the host's own connections from 127.0.0.1 out to the pod.
func openLoopback(s *netstate.State, in planned.Input) {
	for _, dev := range attached.TowardPod(attached.HostInterfaces(in.Prev)) {
		s.Sysctls = append(s.Sysctls, netstate.Sysctl{
			Place: netstate.Host, Name: "net/ipv4/conf/" + dev + "/route_localnet", Value: "1", Shared: true,
		})
	}
}

package firewall

import (
	"net/netip"
	"slices"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/attached"
	"github.com/cleat-cni/cleat/netstate"
	"github.com/cleat-cni/cleat/planned"
)

// pod is what the rules of an attachment are about.
type pod struct {
	addrs []netip.Addr
	// behind are the interfaces on the host by which packets between the pod and others than its bridge's ports pass: the
	// bridge and its VLAN interface, or the pod's own veth.
	behind []string
	ports  []string // the pod's ports on the bridge
	lives  string
}

func plan(c Config, in planned.Input, seen netstate.Facts) (planned.Plan, error) {
	s := netstate.State{Owner: in.Owner()}
	iptables := c.backend.UsesIptables(seen)
	p := podOf(in)
	if c.policy != open && len(p.behind) == 0 {
		switch in.Verb {
		case cni.VerbDel:
		case cni.VerbStatus: // there is no attachment, and the rules are the same for whatever names
			p.behind, p.ports = []string{"cni0"}, []string{in.Owner().HostName("veth")}
		default:
			return planned.Plan{}, invalid("ingressPolicy %q: prevResult has no interface on the host", c.policy).
				WithHint("put firewall after bridge or ptp; results tell interfaces since cniVersion 0.3.0")
		}
	}
	var err error
	if s.Sources, err = c.inZone(in, p.addrs, seen.Firewalld); err != nil {
		return planned.Plan{}, err
	}
	// What is not known any more is found by its owner, where it may be.
	forgotten := in.Verb == cni.VerbDel
	if len(p.addrs) > 0 || forgotten {
		if iptables {
			byRules(&s, c, p)
		} else {
			bySets(&s, c, p)
			acceptMarked(&s, p, seen)
		}
	}
	if (len(p.ports) > 0 || forgotten) && (c.policy == isolated && !seen.NoNFTables || c.policy == sameBridge && !iptables) {
		atBridge(&s, c, p)
	}
	return planned.Plan{State: s}, nil
}

// podOf reads prevResult; without one all is empty.
func podOf(in planned.Input) pod {
	p := pod{lives: attached.Lives(in.Prev, in.NetNS)}
	for _, addr := range attached.Addresses(in.Prev, in.IfName) {
		p.addrs = append(p.addrs, addr.Addr())
	}
	names := attached.HostInterfaces(in.Prev)
	p.behind = attached.TowardPod(names)
	for _, name := range names {
		if !slices.Contains(p.behind, name) {
			p.ports = append(p.ports, name)
		}
	}
	return p
}

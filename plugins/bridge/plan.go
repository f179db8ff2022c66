package bridge

import (
	"cmp"
	"slices"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/masq"
	"github.com/cleat-cni/cleat/internal/podip"
	"github.com/cleat-cni/cleat/internal/spoof"
	"github.com/cleat-cni/cleat/netstate"
	"github.com/cleat-cni/cleat/planned"
)

// podInterface is the index of the pod's interface in the result.
const podInterface = 2

// planner collects the plan of one attachment.
type planner struct {
	conf  Config
	in    planned.Input
	seen  netstate.Facts
	host  string // the veth on the host
	mtu   int    // of the pod's interface and of the host's
	state netstate.State
	res   cni.Result
}

func plan(c Config, in planned.Input, seen netstate.Facts) (planned.Plan, error) {
	p := &planner{conf: c, in: in, seen: seen, host: in.Owner().HostName("veth")}
	p.state.Owner = in.Owner()
	if err := p.bridge(); err != nil {
		return planned.Plan{}, err
	}
	p.veth()
	if c.layer3 && in.IPAM != nil {
		if err := p.network(); err != nil {
			return planned.Plan{}, err
		}
	} else if c.layer3 && c.masquerade {
		masq.Place(&p.state, c.backend.UsesIptables(seen))
	}
	if c.spoofCheck {
		spoof.Check(&p.state, p.host, p.podMAC())
	}
	if !c.dns.IsZero() {
		p.res.DNS = c.dns
	}
	// On DEL another MAC than that of the result may have been the first: the runtime may not tell any more of one that it asked for.
	was := p.recordedMAC()
	forgotten := c.spoofCheck && in.Verb == cni.VerbDel && was != "" && was != p.podMAC()
	return planned.Plan{State: p.state, Result: &p.res, Sweep: forgotten}, nil
}

// bridge states the bridge. One that exists keeps its MAC, on which the pods' neighbour tables rely, and its
// MTU, unless the pod's frames would not fit.
func (p *planner) bridge() error {
	have, exists := p.seen.Link(netstate.Host, p.conf.bridge)
	if exists && have.Kind != "bridge" {
		return invalid("bridge %s: the interface exists and is no bridge", p.conf.bridge).
			WithHint("name another bridge, or rename the interface")
	}
	br := netstate.Link{
		Place: netstate.Host, Name: p.conf.bridge, Kind: "bridge", Shared: true,
		MAC:     usableMAC(have.MAC, p.conf.bridge),
		MTU:     have.MTU,
		Promisc: p.conf.promisc || have.Promisc,
		Bridge:  netstate.Bridge{VLANFiltering: p.conf.vlan != 0 || len(p.conf.trunk) > 0 || have.Bridge.VLANFiltering},
	}
	fresh := cmp.Or(min(p.seen.Uplink.MTU, podip.MaxMTU), podip.EthernetMTU)
	// A bridge that somebody is just making is down; it has the MTU that it was born with, or is one byte short: the
	// kernel only takes an MTU for settled that was changed.
	settled := exists && !(have.Down && (have.MTU == podip.EthernetMTU || have.MTU == fresh-1))
	if !settled {
		br.MTU = fresh
	}
	if p.mtu = p.conf.mtu; p.mtu == 0 {
		p.mtu = br.MTU
	}
	if !settled || p.mtu > br.MTU {
		br.MTU = p.mtu
	}
	p.state.Links = append(p.state.Links, br)
	p.state.Sysctls = append(p.state.Sysctls, podip.IgnoreAdvertisements(br.Name, true))
	p.res.Interfaces = append(p.res.Interfaces, cni.Interface{Name: br.Name, MAC: br.MAC, MTU: br.MTU})
	return nil
}

// usableMAC is the MAC that an interface of the host has, or the one that it always gets from us.
func usableMAC(have, name string) string {
	if mac, err := netstate.ParseMAC(have); err == nil {
		return mac
	}
	return netstate.MACFor(name)
}

// veth states the pair between bridge and pod.
func (p *planner) veth() {
	host := netstate.Link{
		Place: netstate.Host, Name: p.host, Kind: "veth", MAC: p.in.Owner().MAC("host"), MTU: p.mtu,
		Peer: p.in.IfName, PeerPlace: netstate.Pod, Master: p.conf.bridge,
		Port:  netstate.Port{Hairpin: p.conf.hairpin, Isolated: p.conf.isolated},
		VLANs: p.conf.vlans(), NoIPv6: true,
	}
	pod := netstate.Link{
		Place: netstate.Pod, Name: p.in.IfName, Kind: "veth", MAC: p.podMAC(), MTU: p.mtu,
		Peer: p.host, PeerPlace: netstate.Host, ARPNotify: true, Down: p.conf.down,
	}
	p.state.Links = append(p.state.Links, host, pod)
	p.res.Interfaces = append(p.res.Interfaces,
		cni.Interface{Name: host.Name, MAC: host.MAC, MTU: host.MTU},
		cni.Interface{Name: pod.Name, MAC: pod.MAC, MTU: pod.MTU, Sandbox: p.in.NetNS})
}

func (p *planner) podMAC() string { return podip.MAC(p.conf.mac, p.in.IPAM, p.in.Owner()) }

// vlans are all VLANs of the pod's port; nil leaves what the bridge gives a port. A trunk without
// a vlan has 1 for what comes without a tag.
func (c Config) vlans() []netstate.VLAN {
	if c.vlan == 0 && len(c.trunk) == 0 {
		return nil
	}
	native := c.vlan
	if native == 0 {
		native = 1
	}
	all := []netstate.VLAN{{From: native, To: native, PVID: true, Untagged: true}}
	inTrunk := func(id int) bool {
		return slices.ContainsFunc(c.trunk, func(v netstate.VLAN) bool { return v.From <= id && id <= v.To })
	}
	if c.keepVLAN1 && native != 1 && !inTrunk(1) {
		all = append(all, netstate.VLAN{From: 1, To: 1, Untagged: true})
	}
	for _, v := range c.trunk {
		// The native VLAN has no tag: it is left out of the range that holds it.
		if v.From <= native && native <= v.To {
			if v.From < native {
				all = append(all, netstate.VLAN{From: v.From, To: native - 1})
			}
			v.From = native + 1
		}
		if v.From <= v.To {
			all = append(all, v)
		}
	}
	slices.SortFunc(all, func(a, b netstate.VLAN) int { return a.From - b.From })
	return all
}

// recordedMAC is the MAC of the pod's interface in prevResult; "" if it has none.
func (p *planner) recordedMAC() string {
	if p.in.Prev == nil {
		return ""
	}
	for _, dev := range p.in.Prev.Interfaces {
		if mac, err := netstate.ParseMAC(dev.MAC); err == nil && dev.Name == p.in.IfName && dev.Sandbox != "" {
			return mac
		}
	}
	return ""
}

// network states what the pod needs to talk IP.
func (p *planner) network() error {
	if len(p.in.IPAM.IPs) == 0 {
		return invalid("ipam %s gave no address", p.in.Conf.IPAMType)
	}
	p.res.IPs, p.res.Routes, p.res.DNS = slices.Clone(p.in.IPAM.IPs), slices.Clone(p.in.IPAM.Routes), p.in.IPAM.DNS
	if p.conf.isGateway {
		if err := p.settleGateways(); err != nil {
			return err
		}
	}
	if p.conf.defaultGateway {
		podip.AddDefaultRoutes(&p.res)
	}
	pod := podip.Interface{Name: p.in.IfName, Index: podInterface, MTU: p.mtu, DAD: p.conf.dad}
	if err := podip.Configure(&p.state, &p.res, pod); err != nil {
		return err
	}
	if p.conf.isGateway {
		if err := p.gateway(); err != nil {
			return err
		}
	}
	if p.conf.masquerade {
		masq.Add(&p.state, p.conf.backend.UsesIptables(p.seen), podip.Prefixes(p.res.IPs), "link "+p.host)
	}
	return nil
}

// settleGateways gives the first address of the subnet to addresses without a gateway.
func (p *planner) settleGateways() error {
	for i, ip := range p.res.IPs {
		if ip.Gateway.IsValid() {
			continue
		}
		gw, ok := podip.DefaultGateway(ip.Address)
		if !ok {
			return invalid("isGateway: the subnet of %s has no first address for the gateway", ip.Address).
				WithHint("name a gateway in the ipam section")
		}
		p.res.IPs[i].Gateway = gw
	}
	return nil
}

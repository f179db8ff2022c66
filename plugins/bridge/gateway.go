package bridge

import (
	"net/netip"
	"slices"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/podip"
	"github.com/cleat-cni/cleat/netstate"
)

// gateway makes the bridge, or the VLAN's interface, the pod's gateway.
func (p *planner) gateway() error {
	dev := p.conf.bridge
	if p.conf.hasVLANGateway() {
		if err := p.vlanInterface(); err != nil {
			return err
		}
		dev = p.conf.vlanGateway()
	}
	wanted := p.gatewayAddrs()
	for _, gw := range wanted {
		if err := p.placeGateway(dev, gw, wanted); err != nil {
			return err
		}
	}
	p.state.Sysctls = append(p.state.Sysctls, podip.Forwarding(p.res.IPs)...)
	if !p.conf.dad && podip.HasFamily(p.res.IPs, true) {
		p.state.Sysctls = append(p.state.Sysctls, podip.SkipHostDAD(dev, true))
	}
	return nil
}

// gatewayAddrs are the addresses of the gateway, each once, with the length of the pod's subnet.
func (p *planner) gatewayAddrs() []netip.Prefix {
	var all []netip.Prefix
	for _, ip := range p.res.IPs {
		gw := netip.PrefixFrom(ip.Gateway, ip.Address.Bits())
		if !slices.Contains(all, gw) {
			all = append(all, gw)
		}
	}
	return all
}

// placeGateway puts an address of the gateway on dev. Another one that stands against it, one of the pods' subnet
// from before, is replaced if that's allowed.
func (p *planner) placeGateway(dev string, gw netip.Prefix, wanted []netip.Prefix) error {
	have := p.seen.AddrsOf(netstate.Host, dev)
	there := slices.ContainsFunc(have, func(a netstate.Addr) bool { return a.Prefix == gw })
	for _, old := range have {
		if there || slices.Contains(wanted, old.Prefix) || !excludes(old.Prefix, gw) {
			continue
		}
		if !p.conf.forceAddress {
			return invalid("%s has the address %s, this network's gateway is %s", dev, old.Prefix, gw).
				WithHint("set forceAddress to replace the address, remove it (ip addr del %s dev %s), or name another bridge", old.Prefix, dev)
		}
		gone := netstate.Addr{Place: netstate.Host, Dev: dev, Prefix: old.Prefix, Absent: true, Shared: true}
		if !slices.Contains(p.state.Addrs, gone) {
			p.state.Addrs = append(p.state.Addrs, gone)
		}
	}
	p.state.Addrs = append(p.state.Addrs, netstate.Addr{Place: netstate.Host, Dev: dev, Prefix: gw, Shared: true})
	return nil
}

// excludes reports whether an address that is there and a gateway can't be beside each other:
// IPv4 has one, IPv6 one a subnet. Link-local addresses are the kernel's own.
func excludes(old, gw netip.Prefix) bool {
	if old.Addr().Is4() != gw.Addr().Is4() || old.Addr().IsLinkLocalUnicast() && old.Addr().Is6() {
		return false
	}
	return gw.Addr().Is4() || old.Overlaps(gw)
}

// vlanInterface states the pair whose one end is a port of the bridge in the VLAN and whose
// other end has the gateway's addresses.
func (p *planner) vlanInterface() error {
	name := p.conf.vlanGateway()
	have, exists := p.seen.Link(netstate.Host, name)
	if exists && have.Kind != "veth" {
		return invalid("vlan %d: the interface %s exists and is no veth", p.conf.vlan, name).
			WithHint("rename the interface, or name another bridge")
	}
	gw := netstate.Link{Place: netstate.Host, Name: name, MAC: usableMAC(have.MAC, name), MTU: have.MTU, Shared: true}
	if exists {
		// The end at the bridge is its maker's affair, and may have any name: the pair is taken as it is.
		p.state.Links = append(p.state.Links, gw)
	} else {
		gw.Kind, gw.MTU = "veth", p.state.Links[0].MTU
		gw.Peer, gw.PeerPlace = netstate.Owner{Network: p.conf.bridge, IfName: name}.HostName("veth"), netstate.Host
		p.state.Links = append(p.state.Links, gw, p.vlanPort(gw))
	}
	p.state.Sysctls = append(p.state.Sysctls, podip.IgnoreAdvertisements(name, true))
	p.res.Interfaces = append(p.res.Interfaces, cni.Interface{Name: gw.Name, MAC: gw.MAC, MTU: gw.MTU})
	return nil
}

// vlanPort is the end of the VLAN interface's pair at the bridge. It has the VLAN alone: a trunk is the pod's
// affair.
func (p *planner) vlanPort(gw netstate.Link) netstate.Link {
	own := p.conf
	own.trunk = nil
	return netstate.Link{
		Place: netstate.Host, Name: gw.Peer, Kind: "veth", MAC: netstate.MACFor(gw.Peer), MTU: gw.MTU,
		Peer: gw.Name, PeerPlace: netstate.Host, Master: p.conf.bridge, VLANs: own.vlans(), NoIPv6: true, Shared: true,
	}
}

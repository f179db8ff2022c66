package bridge

import (
	"net/netip"
	"slices"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/netstate"
)

// The kernel's numbers of route scopes and of the main table.
const (
	scopeLink = 253
	mainTable = 254
)

// routes states the pod's routes: those of IPAM, and those to the default gateway.
func (p *planner) routes() {
	p.res.Routes = slices.Clone(p.in.IPAM.Routes)
	if p.conf.defaultGateway {
		p.addDefaults()
	}
	for _, r := range p.res.Routes {
		p.state.Routes = append(p.state.Routes, p.route(r))
	}
}

// addDefaults adds a default route for each family that has none.
func (p *planner) addDefaults() {
	for _, all := range []netip.Prefix{netip.PrefixFrom(netip.IPv4Unspecified(), 0), netip.PrefixFrom(netip.IPv6Unspecified(), 0)} {
		gw := p.firstGateway(all.Addr())
		isDefault := func(r cni.Route) bool {
			return r.Dst == all && (!r.Table.Set || r.Table.Value == mainTable)
		}
		if gw.IsValid() && !slices.ContainsFunc(p.res.Routes, isDefault) {
			p.res.Routes = append(p.res.Routes, cni.Route{Dst: all, GW: gw})
		}
	}
}

// firstGateway is the first gateway of a's family; zero if none has one.
func (p *planner) firstGateway(a netip.Addr) netip.Addr {
	for _, ip := range p.res.IPs {
		if ip.Gateway.IsValid() && ip.Gateway.Is4() == a.Is4() {
			return ip.Gateway
		}
	}
	return netip.Addr{}
}

// route is a route of the result as the kernel should have it. Without a gateway of its own it goes through the
// family's first, if there is one and the scope allows it.
func (p *planner) route(r cni.Route) netstate.Route {
	is4 := r.Dst.Addr().Is4()
	out := netstate.Route{
		Place: netstate.Pod, Dst: r.Dst.Masked(), Via: r.GW, Dev: p.in.IfName,
		Table: r.Table.Value, Priority: r.Priority, MTU: r.MTU, AdvMSS: r.AdvMSS,
	}
	if !out.Via.IsValid() && r.Scope.Value < scopeLink {
		out.Via = p.firstGateway(r.Dst.Addr())
	}
	out.OnLink = out.Via.IsValid() && !p.reaches(out.Via)
	switch {
	case !is4: // IPv6 routes have no scope
	case r.Scope.Set:
		out.Scope = r.Scope.Value
	case !out.Via.IsValid():
		out.Scope = scopeLink
	}
	return out
}

// reaches reports whether the pod reaches a gateway without being told that it is on the link.
func (p *planner) reaches(gw netip.Addr) bool {
	if gw.Is6() && gw.IsLinkLocalUnicast() {
		return true
	}
	return slices.ContainsFunc(p.res.IPs, func(ip cni.IP) bool { return ip.Address.Contains(gw) })
}

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
	for _, f := range []struct {
		all    netip.Addr
		sysctl string
	}{{netip.IPv4Unspecified(), "net/ipv4/ip_forward"}, {netip.IPv6Unspecified(), "net/ipv6/conf/all/forwarding"}} {
		if slices.ContainsFunc(wanted, func(gw netip.Prefix) bool { return gw.Addr().Is4() == f.all.Is4() }) {
			p.state.Sysctls = append(p.state.Sysctls, netstate.Sysctl{Place: netstate.Host, Name: f.sysctl, Value: "1", Shared: true})
		}
	}
	if !p.conf.dad && slices.ContainsFunc(wanted, func(gw netip.Prefix) bool { return gw.Addr().Is6() }) {
		// The host asks for neighbours from its link-local address; while that is probed for duplicates, what is
		// forwarded to the first pod waits, up to two seconds.
		p.state.Sysctls = append(p.state.Sysctls, netstate.Sysctl{
			Place: netstate.Host, Name: "net/ipv6/conf/" + dev + "/accept_dad", Value: "0", Shared: true, Optional: true,
		})
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
	p.ignoreAdvertisements(name)
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

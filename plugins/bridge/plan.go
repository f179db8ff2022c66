package bridge

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/masq"
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
		p.checkSpoofing()
	}
	if !c.dns.IsZero() {
		p.res.DNS = c.dns
	}
	return planned.Plan{State: p.state, Result: &p.res}, nil
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
	fresh := cmp.Or(min(p.seen.Uplink.MTU, maxMTU), ethernetMTU)
	// A bridge that somebody is just making is down; it has the MTU that it was born with, or is one byte short: the
	// kernel only takes an MTU for settled that was changed.
	settled := exists && !(have.Down && (have.MTU == ethernetMTU || have.MTU == fresh-1))
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
	p.ignoreAdvertisements(br.Name)
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

// ignoreAdvertisements keeps pods from giving the host routes by router advertisements.
func (p *planner) ignoreAdvertisements(dev string) {
	p.state.Sysctls = append(p.state.Sysctls, netstate.Sysctl{
		Place: netstate.Host, Name: "net/ipv6/conf/" + dev + "/accept_ra", Value: "0", Shared: true, Optional: true,
	})
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

// podMAC is what is asked for, or tells the pod's IPv4 address, or is the owner's own.
func (p *planner) podMAC() string {
	if p.conf.mac != "" {
		return p.conf.mac
	}
	if p.in.IPAM != nil {
		for _, ip := range p.in.IPAM.IPs {
			if ip.Address.Addr().Is4() {
				return netstate.MACFromIPv4(ip.Address.Addr())
			}
		}
	}
	return p.in.Owner().MAC("pod")
}

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

// checkSpoofing drops, at the bridge, what comes out of the pod with another MAC than its own.
func (p *planner) checkSpoofing() {
	mac := p.podMAC()
	t := netstate.Table{
		Family: "bridge", Name: netstate.TableName,
		Sets: []netstate.Set{
			{Name: "macspoof_ports", Key: []string{"ifname"}},
			{Name: "macspoof_macs", Key: []string{"ifname", "ether_addr"}},
		},
		Chains: []netstate.Chain{{
			Name: "macspoof", Type: "filter", Hook: "prerouting", Priority: -300,
			Rules: []string{
				"iifname . ether saddr @macspoof_macs return",
				"iifname @macspoof_ports drop",
			},
		}},
	}
	p.state.Tables = append(p.state.Tables, t)
	element := func(set string, match ...string) netstate.Element {
		return netstate.Element{
			Family: t.Family, Table: t.Name, Set: set, Match: match, Owner: p.state.Owner, Lives: "link " + p.host,
		}
	}
	p.state.Elements = append(p.state.Elements, element("macspoof_ports", p.host), element("macspoof_macs", p.host, mac))
	// At ADD the runtime may have asked for a MAC that it does not tell of on DEL.
	if was := p.recordedMAC(); p.in.Verb == cni.VerbDel && was != "" && was != mac {
		p.state.Elements = append(p.state.Elements, element("macspoof_macs", p.host, was))
	}
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
	var addrs []netip.Prefix
	for _, ip := range p.in.IPAM.IPs {
		ip, err := p.address(ip)
		if err != nil {
			return err
		}
		p.res.IPs = append(p.res.IPs, ip)
		addrs = append(addrs, ip.Address)
	}
	has6 := slices.ContainsFunc(addrs, func(a netip.Prefix) bool { return a.Addr().Is6() })
	if has6 && p.mtu != 0 && p.mtu < minMTU6 {
		return invalid("mtu %d is too small for IPv6, which needs %d", p.mtu, minMTU6)
	}
	if has6 {
		p.podIPv6()
	}
	p.routes()
	p.res.DNS = p.in.IPAM.DNS
	if p.conf.isGateway {
		if err := p.gateway(); err != nil {
			return err
		}
	}
	if p.conf.masquerade {
		masq.Add(&p.state, p.conf.backend.UsesIptables(p.seen), addrs, "link "+p.host)
	}
	return nil
}

// address states an address of the pod and settles its gateway.
func (p *planner) address(ip cni.IP) (cni.IP, error) {
	a := ip.Address.Addr()
	if !ip.Gateway.IsValid() && p.conf.isGateway {
		ip.Gateway = ip.Address.Masked().Addr().Next()
		if !ip.Address.Contains(ip.Gateway) || ip.Gateway == a {
			return ip, invalid("isGateway: the subnet of %s has no first address for the gateway", ip.Address).
				WithHint("name a gateway in the ipam section")
		}
	}
	if gw := ip.Gateway; gw.IsValid() && gw.Is4() != a.Is4() {
		return ip, invalid("gateway %s of %s is of another family", gw, ip.Address)
	} else if gw == a {
		return ip, invalid("gateway %s is the pod's own address", gw)
	}
	ip.Interface = cni.Some(podInterface)
	p.state.Addrs = append(p.state.Addrs, netstate.Addr{
		Place: netstate.Pod, Dev: p.in.IfName, Prefix: ip.Address, DAD: p.conf.dad && a.Is6(),
	})
	return ip, nil
}

// podIPv6 lets the pod use IPv6 just as it is told, before the interface comes up: no addresses
// and routes out of router advertisements, and none that are not usable yet.
func (p *planner) podIPv6() {
	set := func(dev, name, value string) {
		p.state.Sysctls = append(p.state.Sysctls, netstate.Sysctl{
			Place: netstate.Pod, Name: fmt.Sprintf("net/ipv6/conf/%s/%s", dev, name), Value: value, Shared: dev == "lo",
		})
	}
	set("lo", "disable_ipv6", "0")
	dev := p.in.IfName
	set(dev, "disable_ipv6", "0")
	set(dev, "keep_addr_on_down", "1")
	set(dev, "accept_ra", "0")
	set(dev, "autoconf", "0")
	if p.conf.dad {
		set(dev, "accept_dad", "1")
		set(dev, "enhanced_dad", "1")
	} else {
		set(dev, "accept_dad", "0")
	}
}

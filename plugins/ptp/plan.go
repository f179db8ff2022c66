package ptp

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/masq"
	"github.com/cleat-cni/cleat/internal/podip"
	"github.com/cleat-cni/cleat/netstate"
	"github.com/cleat-cni/cleat/planned"
)

// podInterface is the index of the pod's interface in the result.
const podInterface = 1

// planner collects the plan of one attachment.
type planner struct {
	conf  Config
	in    planned.Input
	seen  netstate.Facts
	host  string // the veth on the host
	mtu   int    // of both ends
	state netstate.State
	res   cni.Result
}

func plan(c Config, in planned.Input, seen netstate.Facts) (planned.Plan, error) {
	p := &planner{conf: c, in: in, seen: seen, host: in.Owner().HostName("veth")}
	p.state.Owner = in.Owner()
	p.mtu = cmp.Or(c.mtu, min(seen.Uplink.MTU, podip.MaxMTU), podip.EthernetMTU)
	p.veth()
	switch {
	case in.IPAM != nil:
		if err := p.network(); err != nil {
			return planned.Plan{}, err
		}
	case c.masquerade:
		masq.Place(&p.state, c.backend.UsesIptables(seen))
	}
	if !c.dns.IsZero() {
		p.res.DNS = c.dns
	}
	return planned.Plan{State: p.state, Result: &p.res}, nil
}

// veth states the pair. The host's end needs a link-local address only to ask for a neighbour by IPv6.
func (p *planner) veth() {
	host := netstate.Link{
		Place: netstate.Host, Name: p.host, Kind: "veth", MAC: p.in.Owner().MAC("host"), MTU: p.mtu,
		Peer: p.in.IfName, PeerPlace: netstate.Pod, NoIPv6: p.in.IPAM == nil || !podip.HasFamily(p.in.IPAM.IPs, true),
	}
	pod := netstate.Link{
		Place: netstate.Pod, Name: p.in.IfName, Kind: "veth", MAC: podip.MAC("", p.in.IPAM, p.in.Owner()), MTU: p.mtu,
		Peer: p.host, PeerPlace: netstate.Host, ARPNotify: true,
	}
	p.state.Links = append(p.state.Links, host, pod)
	p.res.Interfaces = append(p.res.Interfaces,
		cni.Interface{Name: host.Name, MAC: host.MAC, MTU: host.MTU},
		cni.Interface{Name: pod.Name, MAC: pod.MAC, MTU: pod.MTU, Sandbox: p.in.NetNS})
}

// network states what makes the host the pod's router.
func (p *planner) network() error {
	if len(p.in.IPAM.IPs) == 0 {
		return invalid("ipam %s gave no address", p.in.Conf.IPAMType)
	}
	p.res.IPs, p.res.Routes, p.res.DNS = slices.Clone(p.in.IPAM.IPs), slices.Clone(p.in.IPAM.Routes), p.in.IPAM.DNS
	for i, ip := range p.res.IPs {
		if ip.Gateway.IsValid() {
			continue
		}
		gw, ok := podip.DefaultGateway(ip.Address)
		if !ok {
			return invalid("the subnet of %s has no first address for the gateway", ip.Address).WithHint("name a gateway in the ipam section")
		}
		p.res.IPs[i].Gateway = gw
	}
	for _, ip := range p.res.IPs {
		p.podRoutes(ip)
		p.hostSide(ip)
	}
	pod := podip.Interface{Name: p.in.IfName, Index: podInterface, MTU: p.mtu, NoPrefixRoute: true}
	if err := podip.Configure(&p.state, &p.res, pod); err != nil {
		return err
	}
	p.state.Sysctls = append(p.state.Sysctls, podip.IgnoreAdvertisements(p.host, false))
	if podip.HasFamily(p.res.IPs, true) {
		p.state.Sysctls = append(p.state.Sysctls, podip.SkipHostDAD(p.host, false))
	}
	p.state.Sysctls = append(p.state.Sysctls, podip.Forwarding(p.res.IPs)...)
	if p.conf.masquerade {
		masq.Add(&p.state, p.conf.backend.UsesIptables(p.seen), podip.Prefixes(p.res.IPs), "link "+p.host)
	}
	return nil
}

// podRoutes states how the pod reaches its gateway, on the link, and through it the rest of its subnet.
func (p *planner) podRoutes(ip cni.IP) {
	p.route(netstate.Route{Place: netstate.Pod, Dst: single(ip.Gateway), Dev: p.in.IfName, Src: ip.Address.Addr(), Scope: linkScope(ip.Gateway)})
	if !ip.Address.IsSingleIP() {
		p.route(netstate.Route{Place: netstate.Pod, Dst: ip.Address.Masked(), Via: ip.Gateway, Dev: p.in.IfName, Src: ip.Address.Addr()})
	}
}

// hostSide states the gateway on the host's end, and the host's way to the pod.
func (p *planner) hostSide(ip cni.IP) {
	gw := netstate.Addr{Place: netstate.Host, Dev: p.host, Prefix: single(ip.Gateway)}
	if !slices.Contains(p.state.Addrs, gw) {
		p.state.Addrs = append(p.state.Addrs, gw)
	}
	p.route(netstate.Route{Place: netstate.Host, Dst: single(ip.Address.Addr()), Dev: p.host, Scope: linkScope(ip.Gateway)})
}

// route adds a route, unless another address has brought it already: those of one subnet share their gateway.
func (p *planner) route(r netstate.Route) {
	if !slices.ContainsFunc(p.state.Routes, func(have netstate.Route) bool { return have.Key() == r.Key() }) {
		p.state.Routes = append(p.state.Routes, r)
	}
}

func single(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }

// linkScope is the scope of a route without a gateway. IPv6 has none.
func linkScope(a netip.Addr) int {
	if a.Is6() {
		return 0
	}
	return podip.ScopeLink
}

func invalid(format string, args ...any) *cni.Error {
	return cni.Errorf(cni.CodeInvalidConfig, format, args...)
}

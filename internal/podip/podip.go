// Package podip says what a pod's interface needs to talk IP: its MAC, its addresses, the routes through their gateways,
// and the values of the pod's IPv6. Every plugin that makes an interface and takes addresses from an IPAM
// plugin says it by this package, whatever the interface is and whatever is at its other end.
package podip

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/netstate"
)

// Limits of an MTU.
const (
	MinMTU      = 68    // of IPv4 (RFC 791)
	MinMTU6     = 1280  // of IPv6 (RFC 8200)
	MaxMTU      = 65535 // of veth and bridge
	EthernetMTU = 1500
)

// The kernel's numbers of a route's scope and of the main table.
const (
	ScopeLink = 253
	mainTable = 254
)

// Interface is a pod's interface that gets addresses.
type Interface struct {
	Name          string // in the pod
	Index         int    // in the plugin's result
	MTU           int    // 0 is not known
	DAD           bool   // IPv6 addresses are probed for duplicates before they are used
	NoPrefixRoute bool   // the subnets of its addresses are not on the link
}

// CheckMTU refuses an MTU that no interface can have. 0 is not given, and zero says what that means.
func CheckMTU(mtu int, zero string) error {
	if mtu != 0 && (mtu < MinMTU || mtu > MaxMTU) {
		return invalid("mtu %d is not from %d to %d", mtu, MinMTU, MaxMTU).WithHint("0 %s", zero)
	}
	return nil
}

// MAC is the address of a pod's interface: what is asked for, or one that tells the pod's IPv4 address, or the owner's own. given is what
// IPAM gave, nil if nothing is known of it.
func MAC(wanted string, given *cni.Result, o netstate.Owner) string {
	if wanted != "" {
		return wanted
	}
	if given != nil {
		for _, ip := range given.IPs {
			if ip.Address.Addr().Is4() {
				return netstate.MACFromIPv4(ip.Address.Addr())
			}
		}
	}
	return o.MAC("pod")
}

// DefaultGateway is the first address of an address's subnet, which is its gateway where none is named; false if there is
// none beside the address itself.
func DefaultGateway(p netip.Prefix) (netip.Addr, bool) {
	gw := p.Masked().Addr().Next()
	return gw, p.Contains(gw) && gw != p.Addr()
}

// Configure states the addresses and routes of res for interface i, and what the pod's IPv6 needs. It fills in
// whose the addresses are. The errors have code 7.
func Configure(s *netstate.State, res *cni.Result, i Interface) error {
	for n, ip := range res.IPs {
		a, gw := ip.Address.Addr(), ip.Gateway
		switch {
		case gw.IsValid() && gw.Is4() != a.Is4():
			return invalid("gateway %s of %s is of another family", gw, ip.Address)
		case gw == a:
			return invalid("gateway %s is the pod's own address", gw)
		}
		res.IPs[n].Interface = cni.Some(i.Index)
		s.Addrs = append(s.Addrs, netstate.Addr{
			Place: netstate.Pod, Dev: i.Name, Prefix: ip.Address, DAD: i.DAD && a.Is6(), NoPrefixRoute: i.NoPrefixRoute,
		})
	}
	if HasFamily(res.IPs, true) {
		if i.MTU != 0 && i.MTU < MinMTU6 {
			return invalid("mtu %d is too small for IPv6, which needs %d", i.MTU, MinMTU6)
		}
		s.Sysctls = append(s.Sysctls, i.ipv6()...)
	}
	for _, r := range res.Routes {
		s.Routes = append(s.Routes, route(r, res.IPs, i.Name))
	}
	return nil
}

// HasFamily reports whether one of the addresses is of IPv6, or else of IPv4.
func HasFamily(ips []cni.IP, v6 bool) bool {
	return slices.ContainsFunc(ips, func(ip cni.IP) bool { return ip.Address.Addr().Is6() == v6 })
}

// Prefixes are the addresses without their gateways.
func Prefixes(ips []cni.IP) []netip.Prefix {
	var all []netip.Prefix
	for _, ip := range ips {
		all = append(all, ip.Address)
	}
	return all
}

// ipv6 lets the pod use IPv6 just as it is told, before the interface comes up: no addresses
// and routes out of router advertisements, and none that are not usable yet. It tells its neighbours when it comes.
func (i Interface) ipv6() []netstate.Sysctl {
	var all []netstate.Sysctl
	set := func(dev, name, value string) {
		all = append(all, netstate.Sysctl{
			Place: netstate.Pod, Name: fmt.Sprintf("net/ipv6/conf/%s/%s", dev, name), Value: value, Shared: dev == "lo",
		})
	}
	set("lo", "disable_ipv6", "0")
	set(i.Name, "disable_ipv6", "0")
	set(i.Name, "keep_addr_on_down", "1")
	set(i.Name, "ndisc_notify", "1")
	set(i.Name, "accept_ra", "0")
	set(i.Name, "autoconf", "0")
	if i.DAD {
		set(i.Name, "accept_dad", "1")
		set(i.Name, "enhanced_dad", "1")
	} else {
		set(i.Name, "accept_dad", "0")
	}
	return all
}

// AddDefaultRoutes adds a default route through the first gateway for each family that has a gateway and no default
// route.
func AddDefaultRoutes(res *cni.Result) {
	for _, all := range []netip.Prefix{netip.PrefixFrom(netip.IPv4Unspecified(), 0), netip.PrefixFrom(netip.IPv6Unspecified(), 0)} {
		gw := firstGateway(res.IPs, all.Addr())
		isDefault := func(r cni.Route) bool {
			return r.Dst == all && (!r.Table.Set || r.Table.Value == mainTable)
		}
		if gw.IsValid() && !slices.ContainsFunc(res.Routes, isDefault) {
			res.Routes = append(res.Routes, cni.Route{Dst: all, GW: gw})
		}
	}
}

// firstGateway is the first gateway of a's family; zero if none has one.
func firstGateway(ips []cni.IP, a netip.Addr) netip.Addr {
	for _, ip := range ips {
		if ip.Gateway.IsValid() && ip.Gateway.Is4() == a.Is4() {
			return ip.Gateway
		}
	}
	return netip.Addr{}
}

// route is a route of a result as the kernel should have it. Without a gateway of its own it goes through the
// family's first, if there is one and the scope allows it.
func route(r cni.Route, ips []cni.IP, dev string) netstate.Route {
	out := netstate.Route{
		Place: netstate.Pod, Dst: r.Dst.Masked(), Via: r.GW, Dev: dev,
		Table: r.Table.Value, Priority: r.Priority, MTU: r.MTU, AdvMSS: r.AdvMSS,
	}
	if !out.Via.IsValid() && r.Scope.Value < ScopeLink {
		out.Via = firstGateway(ips, r.Dst.Addr())
	}
	out.OnLink = out.Via.IsValid() && !reaches(ips, out.Via)
	switch {
	case r.Dst.Addr().Is6(): // IPv6 routes have no scope
	case r.Scope.Set:
		out.Scope = r.Scope.Value
	case !out.Via.IsValid():
		out.Scope = ScopeLink
	}
	return out
}

// reaches reports whether the pod reaches a gateway without being told that it is on the link.
func reaches(ips []cni.IP, gw netip.Addr) bool {
	if gw.Is6() && gw.IsLinkLocalUnicast() {
		return true
	}
	return slices.ContainsFunc(ips, func(ip cni.IP) bool { return ip.Address.Contains(gw) })
}

// Forwarding lets the host pass packets on for the families of the addresses.
func Forwarding(ips []cni.IP) []netstate.Sysctl {
	var all []netstate.Sysctl
	for _, f := range []struct {
		v6   bool
		name string
	}{{false, "net/ipv4/ip_forward"}, {true, "net/ipv6/conf/all/forwarding"}} {
		if HasFamily(ips, f.v6) {
			all = append(all, netstate.Sysctl{Place: netstate.Host, Name: f.name, Value: "1", Shared: true})
		}
	}
	return all
}

// IgnoreAdvertisements keeps pods from giving the host routes by router advertisements through dev.
func IgnoreAdvertisements(dev string, shared bool) netstate.Sysctl {
	return netstate.Sysctl{
		Place: netstate.Host, Name: "net/ipv6/conf/" + dev + "/accept_ra", Value: "0", Shared: shared, Optional: true,
	}
}

// SkipHostDAD makes the host's link-local address on dev usable at once. The host asks for neighbours from it, and while it
// is probed for duplicates what is forwarded to the first pod waits, up to two seconds.
func SkipHostDAD(dev string, shared bool) netstate.Sysctl {
	return netstate.Sysctl{
		Place: netstate.Host, Name: "net/ipv6/conf/" + dev + "/accept_dad", Value: "0", Shared: shared, Optional: true,
	}
}

func invalid(format string, args ...any) *cni.Error {
	return cni.Errorf(cni.CodeInvalidConfig, format, args...)
}

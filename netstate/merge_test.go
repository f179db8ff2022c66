package netstate_test

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/netstate"
)

// TestMergeAdjusts: what adjusts a link that another state makes is part of it, and the later of two values counts.
func TestMergeAdjusts(t *testing.T) {
	made := netstate.State{Links: []netstate.Link{{Place: netstate.Pod, Name: "eth0", Kind: "veth", MAC: "02:00:00:00:00:01", MTU: 1500, Peer: "veth1", PeerPlace: netstate.Host, Promisc: true}},
		Sysctls: []netstate.Sysctl{{Place: netstate.Pod, Name: "net/a", Value: "0"}}}
	tuned := netstate.State{Links: []netstate.Link{{Place: netstate.Pod, Name: "eth0", MAC: "02:00:00:00:00:07", NoPromisc: true, AllMulti: netstate.On, TxQLen: 5}, {Place: netstate.Pod, Name: "lo", MTU: 1000}},
		Sysctls: []netstate.Sysctl{{Place: netstate.Pod, Name: "net/a", Value: "1"}}}
	const link = "pod  link eth0 kind veth mac 02:00:00:00:00:07 mtu 1500 peer host/veth1 nopromisc allmulti on txqlen 5\npod  link lo mtu 1000\n"
	if got, want := netstate.Merge(made, tuned).String(), link+"pod  sysctl net/a value 1\n"; got != want {
		t.Errorf("merged\n%swant\n%s", got, want)
	}
	if got, want := netstate.Merge(made, made).String(), made.String(); got != want {
		t.Errorf("merged with itself\n%swant\n%s", got, want)
	}
	if want := 1500; made.Links[0].MTU != want || made.Links[0].MAC != "02:00:00:00:00:01" {
		t.Errorf("the state that was merged changed: %s", made)
	}
}

// TestSettled: the last value for a name is what is there in the end. What is set before the links are up is set all the same.
func TestSettled(t *testing.T) {
	made := netstate.State{
		Links: []netstate.Link{
			{Place: netstate.Host, Name: "veth1", Kind: "veth", Peer: "eth0", PeerPlace: netstate.Pod, NoIPv6: true},
			{Place: netstate.Pod, Name: "eth0", Kind: "veth", Peer: "veth1", PeerPlace: netstate.Host, ARPNotify: true},
		},
		Sysctls: []netstate.Sysctl{{Place: netstate.Pod, Name: "net/a", Value: "0"}, {Place: netstate.Host, Name: "net/a", Value: "0"}},
	}
	tuned := netstate.State{Sysctls: []netstate.Sysctl{
		{Place: netstate.Pod, Name: "net/a", Value: "1", AfterUp: true},
		{Place: netstate.Pod, Name: "net/ipv4/conf/eth0/arp_notify", Value: "0", AfterUp: true},
		{Place: netstate.Host, Name: "net/ipv6/conf/veth1/addr_gen_mode", Value: "0", AfterUp: true},
	}}
	again := netstate.State{Sysctls: []netstate.Sysctl{{Place: netstate.Pod, Name: "net/a", Value: "2", AfterUp: true}}}
	const tail = `pod  sysctl net/ipv4/conf/eth0/arp_notify value 0 after_up
host sysctl net/ipv6/conf/veth1/addr_gen_mode value 0 after_up
pod  sysctl net/a value 2 after_up
`
	all := netstate.Merge(made, tuned, again)
	want := `host link veth1 kind veth peer pod/eth0 noipv6
pod  link eth0 kind veth peer host/veth1 arp_notify
pod  sysctl net/a value 0
host sysctl net/a value 0
` + tail
	if diff := cmp.Diff(want, all.String()); diff != "" {
		t.Errorf("merged (-want +got)\n%s", diff)
	}
	want = `host link veth1 kind veth peer pod/eth0
pod  link eth0 kind veth peer host/veth1
host sysctl net/a value 0
` + tail
	if diff := cmp.Diff(want, all.Settled().String()); diff != "" {
		t.Errorf("settled (-want +got)\n%s", diff)
	}
	switched := netstate.State{Links: made.Links, Sysctls: []netstate.Sysctl{
		{Place: netstate.Host, Name: "net/ipv6/conf/veth1/disable_ipv6", Value: "0", AfterUp: true}}}
	if l := switched.Settled().Links[0]; l.NoIPv6 {
		t.Errorf("IPv6 is turned on, and yet it is %s", l)
	}
}

// TestMergeAdjustersOfOne: of several that adjust a link which nobody makes the last counts, and whether it is up is the first's affair.
func TestMergeAdjustersOfOne(t *testing.T) {
	adjuster := func(mtu int, down bool) netstate.State {
		return netstate.State{Links: []netstate.Link{{Place: netstate.Pod, Name: "eth0", MTU: mtu, TxQLen: 7, Down: down}}}
	}
	merged := netstate.Merge(adjuster(1400, false), adjuster(1300, true))
	if got, want := merged.String(), "pod  link eth0 mtu 1300 txqlen 7\n"; got != want {
		t.Errorf("merged %q, want %q", got, want)
	}
}

// TestMergeRoutes: of a route that must be there and must not the later word counts, and an address comes without a route that must not be.
func TestMergeRoutes(t *testing.T) {
	prefix := netip.MustParsePrefix
	addr := func(p string) netstate.Addr {
		return netstate.Addr{Place: netstate.Pod, Dev: "eth0", Prefix: prefix(p)}
	}
	route := func(dst string, priority int, absent bool) netstate.Route {
		return netstate.Route{Place: netstate.Pod, Dst: prefix(dst), Dev: "eth0", Priority: priority, Absent: absent}
	}
	made := netstate.State{Addrs: []netstate.Addr{addr("10.1.0.5/24"), addr("10.2.0.5/32"), addr("fd01::5/64"), addr("fd02::5/64")},
		Routes: []netstate.Route{route("0.0.0.0/0", 0, false), route("0.0.0.0/0", 5, false), route("::/0", 0, false)}}
	moved := netstate.State{Routes: []netstate.Route{route("0.0.0.0/0", 0, true), route("::/0", 1024, true),
		route("10.1.0.0/24", 0, true), route("10.2.0.5/32", 0, true), route("fd01::/64", 256, true), route("fd02::/64", 0, true)}}
	back := netstate.State{Routes: []netstate.Route{route("0.0.0.0/0", 0, false)}}
	for i := range back.Routes {
		back.Routes[i].Table = netstate.MainTable
	}
	const want = `pod  addr 10.1.0.5/24 dev eth0 noprefixroute
pod  addr 10.2.0.5/32 dev eth0
pod  addr fd01::5/64 dev eth0 noprefixroute
pod  addr fd02::5/64 dev eth0
pod  route 0.0.0.0/0 dev eth0 priority 5
pod  route ::/0 dev eth0 priority 1024 absent
pod  route 10.1.0.0/24 dev eth0 absent
pod  route 10.2.0.5/32 dev eth0 absent
pod  route fd01::/64 dev eth0 priority 256 absent
pod  route fd02::/64 dev eth0 absent
pod  route 0.0.0.0/0 dev eth0 table 254
`
	if diff := cmp.Diff(want, netstate.Merge(made, moved, back).String()); diff != "" {
		t.Errorf("merged (-want +got)\n%s", diff)
	}
	if made.Addrs[0].NoPrefixRoute {
		t.Error("the state that was merged changed")
	}
}

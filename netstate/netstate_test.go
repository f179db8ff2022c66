package netstate_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/netstate"
)

var owner = netstate.Owner{Network: "pods", ContainerID: "c1", IfName: "eth0"}

func sample() netstate.State {
	return netstate.State{
		Owner:  owner,
		Leases: []netstate.Lease{{Network: "pods", Addr: netip.MustParseAddr("10.88.0.5"), Store: "/s", Owner: owner}},
		Links: []netstate.Link{
			{Place: netstate.Host, Name: "cni0", Kind: "bridge", MTU: 1500, Shared: true},
			{Place: netstate.Host, Name: "vethx", Kind: "veth", Peer: "eth0", PeerPlace: netstate.Pod, Master: "cni0",
				Port: netstate.Port{Hairpin: true}, VLANs: []netstate.VLAN{{From: 5, To: 5, PVID: true, Untagged: true}, {From: 7, To: 9}}},
		},
		Sysctls: []netstate.Sysctl{{Place: netstate.Host, Name: "net/ipv4/ip_forward", Value: "1", Shared: true}},
		Addrs:   []netstate.Addr{{Place: netstate.Pod, Dev: "eth0", Prefix: netip.MustParsePrefix("10.88.0.5/16")}},
		Routes: []netstate.Route{{Place: netstate.Pod, Dst: netip.MustParsePrefix("0.0.0.0/0"),
			Via: netip.MustParseAddr("10.88.0.1"), Dev: "eth0", MTU: 1400}},
		Rules: []netstate.Rule{{Place: netstate.Pod, From: netip.MustParsePrefix("10.88.0.5/32"), Table: 100, Priority: 7}},
		Tables: []netstate.Table{{Family: "inet", Name: "cleat",
			Sets: []netstate.Set{{Name: "hostports4", Key: []string{"inet_proto", "inet_service"}, Data: []string{"ipv4_addr", "inet_service"}}},
			Chains: []netstate.Chain{{Name: "prerouting", Type: "nat", Hook: "prerouting", Priority: -100,
				Rules: []string{"fib daddr type local accept"}}}}},
		Elements: []netstate.Element{{Family: "inet", Table: "cleat", Set: "hostports4",
			Match: []string{"tcp", "8080"}, Data: []string{"10.88.0.5", "80"}, Owner: owner}},
		IptablesChains: []netstate.IptablesChain{
			{Family: "ip", Table: "nat", Name: "CLEAT-HOSTPORTS"}, {Family: "ip", Table: "nat", Name: "KUBE-SETMASQ", Foreign: true},
			{Family: "ip", Table: "nat", Name: "CLEAT-tcp-8080", Owner: owner}},
		IptablesRules: []netstate.IptablesRule{
			{Family: "ip", Table: "nat", Chain: "PREROUTING", Rule: "-m addrtype --dst-type LOCAL -j CLEAT-HOSTPORTS"},
			{Family: "ip", Table: "nat", Chain: "CLEAT-HOSTPORTS", Rule: "-p tcp --dport 8080 -j CLEAT-tcp-8080", First: true, Owner: owner, Lives: "link veth1"}},
		Sources: []netstate.Source{{Zone: "trusted", Prefix: netip.MustParsePrefix("10.88.0.5/32"), Owner: owner},
			{Zone: "trusted", Prefix: netip.MustParsePrefix("fd00::5/128")}},
		Flows: []netstate.Flow{{Protocol: "udp", Port: 53, Addr: netip.MustParseAddr("192.0.2.1")}},
	}
}

func TestStateText(t *testing.T) {
	mark := owner.Mark()
	want := strings.ReplaceAll(`host lease 10.88.0.5 network pods store /s owner MARK
host link cni0 kind bridge mtu 1500 shared
host link vethx kind veth peer pod/eth0 master cni0 hairpin vlan 5/pvid/untagged vlan 7-9
host sysctl net/ipv4/ip_forward value 1 shared
pod  addr 10.88.0.5/16 dev eth0
pod  route 0.0.0.0/0 via 10.88.0.1 dev eth0 mtu 1400
pod  rule priority 7 from 10.88.0.5/32 table 100
host nft table inet cleat
host nft table inet cleat map hostports4 type inet_proto . inet_service : ipv4_addr . inet_service
host nft table inet cleat chain prerouting type nat hook prerouting priority -100
host nft table inet cleat chain prerouting rule fib daddr type local accept
host nft table inet cleat map hostports4 element tcp . 8080 : 10.88.0.5 . 80 owner MARK
host iptables ip nat chain CLEAT-HOSTPORTS
host iptables ip nat chain KUBE-SETMASQ foreign
host iptables ip nat chain CLEAT-tcp-8080 owner MARK
host iptables ip nat chain PREROUTING rule -m addrtype --dst-type LOCAL -j CLEAT-HOSTPORTS
host iptables ip nat chain CLEAT-HOSTPORTS rule -p tcp --dport 8080 -j CLEAT-tcp-8080 first owner MARK
host firewalld zone trusted source 10.88.0.5/32 owner MARK
host firewalld zone trusted source fd00::5/128
host flow none ip udp daddr 192.0.2.1 dport 53
`, "MARK", mark)
	if diff := cmp.Diff(want, sample().String()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestMerge(t *testing.T) {
	a := sample()
	b := netstate.State{
		Links: a.Links[:1],
		Tables: []netstate.Table{{Family: "inet", Name: "cleat",
			Sets:   []netstate.Set{{Name: "masq4", Key: []string{"ipv4_addr"}}},
			Chains: []netstate.Chain{{Name: "prerouting", Rules: []string{"fib daddr type local accept", "drop"}}}}},
	}
	m := netstate.Merge(a, b)
	if len(m.Links) != 2 {
		t.Errorf("a shared link stands %d times", len(m.Links)-1)
	}
	if got := m.Tables[0]; len(got.Sets) != 2 || len(got.Chains[0].Rules) != 2 {
		t.Errorf("table not merged: %+v", got)
	}
	if len(a.Tables[0].Chains[0].Rules) != 1 {
		t.Error("Merge changed its argument")
	}
	if m := netstate.Merge(a, netstate.State{Sources: slices.Clone(a.Sources[1:])}, a); !slices.Equal(m.Sources, a.Sources) {
		t.Errorf("sources merged: %v", m.Sources)
	}
	if got, want := (netstate.Source{Zone: "x"}).Key(), "host firewalld zone x source any"; got != want {
		t.Errorf("a source of no address is %q, want %q", got, want)
	}
	if m.Owner != owner {
		t.Errorf("owner %v", m.Owner)
	}
}

func TestSysctlDev(t *testing.T) {
	for name, want := range map[string]string{
		"net/ipv4/conf/eth0/arp_filter":     "eth0",
		"net/ipv6/neigh/eth0/gc_stale_time": "eth0",
		"net/ipv4/conf/eth0.5/arp_filter":   "eth0.5",
		"net/ipv4/ip_forward":               "",
		"net/core/somaxconn":                "",
		"net/netfilter/nf_conntrack/x/y":    "",
		"kernel/conf/conf/eth0/arp_filter":  "",
		"net/ipv4/conf":                     "",
	} {
		if dev, ok := (netstate.Sysctl{Name: name}).Dev(); dev != want || ok != (want != "") {
			t.Errorf("%s: %q, %v, want %q", name, dev, ok, want)
		}
	}
}

func TestOwner(t *testing.T) {
	a := netstate.Owner{Network: "a-b", ContainerID: "c", IfName: "eth0"}
	b := netstate.Owner{Network: "a", ContainerID: "b-c", IfName: "eth0"}
	if a.Mark() == b.Mark() || a.HostName("veth") == b.HostName("veth") {
		t.Error("two attachments share a name")
	}
	if n := a.HostName("veth"); len(n) != 15 {
		t.Errorf("host name %q has %d bytes, want 15", n, len(n))
	}
	for _, tc := range []struct {
		name, comment string
		mark          string
		owner         netstate.Owner
		ok            bool
	}{
		{"full", a.Comment(256), a.Mark(), a, true},
		{"mark-only", a.Comment(24), a.Mark(), netstate.Owner{}, true},
		{"foreign", "name: \"net\"", "", netstate.Owner{}, false},
		{"empty", "", "", netstate.Owner{}, false},
		{"upper-case", strings.ToUpper(a.Mark()), "", netstate.Owner{}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			mark, o, ok := netstate.ParseMark(tc.comment)
			if mark != tc.mark || o != tc.owner || ok != tc.ok {
				t.Errorf("ParseMark(%q) = %q, %v, %v", tc.comment, mark, o, ok)
			}
		})
	}
	if !strings.HasPrefix(a.Mark(), netstate.NetworkMark("a-b")+"-") {
		t.Error("a mark does not begin with its network's")
	}
}

func FuzzParseMark(f *testing.F) {
	f.Add(owner.Comment(256))
	f.Add(owner.Mark())
	f.Add("x")
	f.Fuzz(func(t *testing.T, s string) {
		if mark, _, ok := netstate.ParseMark(s); ok && len(mark) != 21 {
			t.Errorf("mark %q", mark)
		}
	})
}

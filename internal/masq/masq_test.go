package masq_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/internal/masq"
	"github.com/cleat-cni/cleat/netstate"
)

func TestAdd(t *testing.T) {
	owner := netstate.Owner{Network: "n", ContainerID: "c", IfName: "eth0"}
	mark := owner.Mark()
	for _, tc := range []struct {
		name  string
		addrs []string
		want  string
	}{
		{name: "no-address", want: "host nft table inet cleat\n"},
		{name: "dual-stack", addrs: []string{"10.88.0.5/16", "fd00:88::5/64"}, want: `host nft table inet cleat
host nft table inet cleat set masq4_16 type ipv4_addr
host nft table inet cleat set masq_local4_16 type ipv4_addr . ipv4_addr
host nft table inet cleat set masq6_64 type ipv6_addr
host nft table inet cleat set masq_local6_64 type ipv6_addr . ipv6_addr
host nft table inet cleat chain masq4_16 type nat hook postrouting priority 100
host nft table inet cleat chain masq4_16 rule ip daddr 224.0.0.0/4 return
host nft table inet cleat chain masq4_16 rule ip saddr . ip daddr & 255.255.0.0 @masq_local4_16 return
host nft table inet cleat chain masq4_16 rule ip saddr @masq4_16 masquerade
host nft table inet cleat chain masq6_64 type nat hook postrouting priority 100
host nft table inet cleat chain masq6_64 rule ip6 daddr ff00::/8 return
host nft table inet cleat chain masq6_64 rule ip6 saddr . ip6 daddr & ffff:ffff:ffff:ffff:: @masq_local6_64 return
host nft table inet cleat chain masq6_64 rule ip6 saddr @masq6_64 masquerade
host nft table inet cleat set masq4_16 element 10.88.0.5 owner ` + mark + `
host nft table inet cleat set masq_local4_16 element 10.88.0.5 . 10.88.0.0 owner ` + mark + `
host nft table inet cleat set masq6_64 element fd00:88::5 owner ` + mark + `
host nft table inet cleat set masq_local6_64 element fd00:88::5 . fd00:88:: owner ` + mark + "\n"},
		{name: "two-of-one-length", addrs: []string{"10.1.0.5/24", "10.2.0.5/24"}, want: `host nft table inet cleat
host nft table inet cleat set masq4_24 type ipv4_addr
host nft table inet cleat set masq_local4_24 type ipv4_addr . ipv4_addr
host nft table inet cleat chain masq4_24 type nat hook postrouting priority 100
host nft table inet cleat chain masq4_24 rule ip daddr 224.0.0.0/4 return
host nft table inet cleat chain masq4_24 rule ip saddr . ip daddr & 255.255.255.0 @masq_local4_24 return
host nft table inet cleat chain masq4_24 rule ip saddr @masq4_24 masquerade
host nft table inet cleat set masq4_24 element 10.1.0.5 owner ` + mark + `
host nft table inet cleat set masq_local4_24 element 10.1.0.5 . 10.1.0.0 owner ` + mark + `
host nft table inet cleat set masq4_24 element 10.2.0.5 owner ` + mark + `
host nft table inet cleat set masq_local4_24 element 10.2.0.5 . 10.2.0.0 owner ` + mark + "\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := netstate.State{Owner: owner}
			var addrs []netip.Prefix
			for _, a := range tc.addrs {
				addrs = append(addrs, netip.MustParsePrefix(a))
			}
			masq.Add(&s, false, addrs, "link veth0")
			if diff := cmp.Diff(tc.want, s.String()); diff != "" {
				t.Errorf("state (-want +got):\n%s", diff)
			}
			for _, e := range s.Elements {
				if e.Owner != owner || e.Lives != "link veth0" {
					t.Errorf("%s: owner %s, lives %q", e.Key(), e.Owner, e.Lives)
				}
			}
		})
	}
}

func TestAddIptables(t *testing.T) {
	owner := netstate.Owner{Network: "n", ContainerID: "c", IfName: "eth0"}
	s := netstate.State{Owner: owner}
	masq.Add(&s, true, []netip.Prefix{netip.MustParsePrefix("10.88.0.5/16"), netip.MustParsePrefix("10.89.0.5/24"),
		netip.MustParsePrefix("fd00:88::5/64")}, "link veth0")
	want := strings.ReplaceAll(`host iptables ip nat chain CLEAT-MASQ
host iptables ip6 nat chain CLEAT-MASQ
host iptables ip nat chain POSTROUTING rule -j CLEAT-MASQ
host iptables ip nat chain CLEAT-MASQ rule -d 224.0.0.0/4 -j RETURN first
host iptables ip nat chain CLEAT-MASQ rule -s 10.88.0.5/32 ! -d 10.88.0.0/16 -j MASQUERADE owner MARK
host iptables ip nat chain CLEAT-MASQ rule -s 10.89.0.5/32 ! -d 10.89.0.0/24 -j MASQUERADE owner MARK
host iptables ip6 nat chain POSTROUTING rule -j CLEAT-MASQ
host iptables ip6 nat chain CLEAT-MASQ rule -d ff00::/8 -j RETURN first
host iptables ip6 nat chain CLEAT-MASQ rule -s fd00:88::5/128 ! -d fd00:88::/64 -j MASQUERADE owner MARK
`, "MARK", owner.Mark())
	if diff := cmp.Diff(want, s.String()); diff != "" {
		t.Errorf("state (-want +got):\n%s", diff)
	}
	for _, r := range s.IptablesRules {
		if r.Owner == owner && r.Lives != "link veth0" {
			t.Errorf("%s: lives %q", r.Key(), r.Lives)
		}
	}
}

func TestPlace(t *testing.T) {
	for _, tc := range []struct {
		name     string
		iptables bool
		want     string
	}{
		{"nftables", false, "host nft table inet cleat\n"},
		{"iptables", true, "host iptables ip nat chain CLEAT-MASQ\nhost iptables ip6 nat chain CLEAT-MASQ\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var s netstate.State
			masq.Place(&s, tc.iptables)
			if diff := cmp.Diff(tc.want, s.String()); diff != "" {
				t.Errorf("state (-want +got):\n%s", diff)
			}
		})
	}
}

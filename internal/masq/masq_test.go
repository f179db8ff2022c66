package masq_test

import (
	"net/netip"
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
			masq.Add(&s, addrs, "link veth0")
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

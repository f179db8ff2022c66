package planned

import (
	"net/netip"
	"testing"

	"github.com/cleat-cni/cleat/netstate"
)

// TestKnown: a link is known by its MAC where that follows from an address of this machine's store, and it has no other address.
func TestKnown(t *testing.T) {
	ip, other, ip6 := netip.MustParseAddr("10.1.0.5"), netip.MustParseAddr("10.1.0.6"), netip.MustParseAddr("fd00::5")
	own := netstate.MACFromIPv4(ip)
	for _, tc := range []struct {
		name   string
		mac    string
		addrs  []netip.Addr
		leased []netip.Addr
		want   bool
	}{
		{"its-own", own, []netip.Addr{ip}, []netip.Addr{ip}, true},
		{"its-own-not-leased", own, []netip.Addr{ip}, nil, false},
		{"another-MAC", "02:00:00:00:00:05", []netip.Addr{ip}, []netip.Addr{ip}, false},
		{"the-kernel's-choice", "", []netip.Addr{ip}, []netip.Addr{ip}, false},
		{"two-addresses", own, []netip.Addr{ip, other}, []netip.Addr{ip, other}, false},
		{"both-families", own, []netip.Addr{ip, ip6}, []netip.Addr{ip, ip6}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := netstate.State{Links: []netstate.Link{
				{Place: netstate.Host, Name: "eth0", Kind: "veth"},
				{Place: netstate.Pod, Name: "eth0", Kind: "veth", MAC: tc.mac},
			}}
			for _, a := range tc.addrs {
				s.Addrs = append(s.Addrs, netstate.Addr{Place: netstate.Pod, Dev: "eth0", Prefix: netip.PrefixFrom(a, 16)})
			}
			plans := make([]Plan, 2)
			for _, a := range tc.leased {
				plans[1].State.Leases = append(plans[1].State.Leases, netstate.Lease{Addr: a})
			}
			known(s, plans)
			if s.Links[1].Known != tc.want || s.Links[0].Known {
				t.Errorf("known %v, and on the host %v, want %v and false", s.Links[1].Known, s.Links[0].Known, tc.want)
			}
		})
	}
}

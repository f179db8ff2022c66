package netstate_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/cleat-cni/cleat/netstate"
)

func TestCheck(t *testing.T) {
	good := func() netstate.State {
		s := sample()
		s.Links = append(s.Links, netstate.Link{Place: netstate.Pod, Name: "eth0", Kind: "veth"})
		return s
	}
	if err := good().Check(); err != nil {
		t.Fatalf("a good state: %v", err)
	}
	pod := netstate.Pod
	for _, tc := range []struct {
		name string
		harm func(*netstate.State)
		says string
	}{
		{"place", func(s *netstate.State) { s.Links[0].Place = "moon" }, "unknown place"},
		{"name", func(s *netstate.State) { s.Links[0].Name = "a/b" }, "no name of an interface"},
		{"kind", func(s *netstate.State) { s.Links[0].Kind = "warp" }, "not supported"},
		{"peer", func(s *netstate.State) { s.Links = []netstate.Link{{Place: pod, Name: "eth0", Kind: "veth"}} }, "needs a peer"},
		{"mtu", func(s *netstate.State) { s.Links[0].MTU = 67 }, "mtu 67"},
		{"mac", func(s *netstate.State) { s.Links[0].MAC = "01:00:00:00:00:00" }, "01:00:00"},
		{"port", func(s *netstate.State) { s.Links[0].Port.Hairpin = true }, "without a master"},
		{"vlan", func(s *netstate.State) { s.Links[1].VLANs[0].To = 4095 }, "vlan"},
		{"sysctl", func(s *netstate.State) { s.Sysctls[0].Name = "kernel/panic" }, "below net/"},
		{"sysctl-dots", func(s *netstate.State) { s.Sysctls[0].Name = "net/../kernel/panic" }, "below net/"},
		{"address", func(s *netstate.State) { s.Addrs[0].Prefix = netip.Prefix{} }, "no valid address"},
		{"route", func(s *netstate.State) { s.Routes[0].Dst = netip.MustParsePrefix("10.0.0.1/8") }, "host bits"},
		{"route-way", func(s *netstate.State) { s.Routes[0].Dev, s.Routes[0].Via = "", netip.Addr{} }, "neither"},
		{"route-mtu", func(s *netstate.State) { s.Routes[0].MTU = 65521 }, "mtu 65521 is not from 0 to 65520"},
		{"route-advmss", func(s *netstate.State) { s.Routes[0].AdvMSS = 65496 }, "advmss 65496 is not from 0 to 65495"},
		{"rule", func(s *netstate.State) { s.Rules[0].Table = -1 }, "range"},
		{"rule-families", func(s *netstate.State) {
			s.Rules[0].From, s.Rules[0].To = netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")
		}, "two families"},
		{"rule-host-bits", func(s *netstate.State) { s.Rules[0].From = netip.MustParsePrefix("10.0.0.1/8") }, "host bits"},
		{"neighbour", func(s *netstate.State) {
			s.Neighbours = []netstate.Neighbour{{Place: pod, Dev: "eth0", MAC: "02:00:00:00:00:01"}}
		}, "no address"},
		{"qdisc", func(s *netstate.State) { s.Qdiscs = []netstate.Qdisc{{Place: pod, Dev: "eth0", Kind: "tbf"}} }, "tbf needs"},
		{"filter", func(s *netstate.State) { s.Filters = []netstate.Filter{{Place: pod, Dev: "eth0"}} }, "no name"},
		{"source-zone", func(s *netstate.State) { s.Sources[0].Zone = "a\nb" }, "no name of a zone"},
		{"source-none", func(s *netstate.State) { s.Sources[0].Prefix = netip.Prefix{} }, "not one address"},
		{"source-subnet", func(s *netstate.State) { s.Sources[1].Prefix = netip.MustParsePrefix("fd00::/64") }, "not one address"},
		{"flow", func(s *netstate.State) { s.Flows[0].Port = 0 }, "port 0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := good()
			tc.harm(&s)
			if err := s.Check(); err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("error %v, want one about %q", err, tc.says)
			}
		})
	}
}

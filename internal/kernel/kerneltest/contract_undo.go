package kerneltest

import (
	"errors"
	"net/netip"
	"slices"
	"testing"

	"github.com/cleat-cni/cleat/netstate"
)

// broken is a change that makes a state impossible to apply.
type broken struct {
	name string
	brk  func(s *netstate.State)
	want error // nil is any
}

// testUndo breaks one object of each kind in turn: whatever the broken state made before is undone, and what
// another attachment has is as it was.
func testUndo(t *testing.T, f Fixture) {
	pods := []string{f.NewPod(), f.NewPod()}
	f.apply(t, pods[0], attachment(1))
	before := f.texts(pods...)
	for _, tc := range slices.Concat(brokenLinks(), brokenRoutes(), brokenTraffic(), brokenLate()) {
		t.Run(tc.name, func(t *testing.T) {
			want := attachment(2)
			tc.brk(&want)
			err := f.try(t, pods[1], want)
			if err == nil {
				t.Error("a broken state was applied")
			}
			if tc.want != nil && !errors.Is(err, tc.want) {
				t.Errorf("Apply = %v, want %v", err, tc.want)
			}
			if _, ok := errors.AsType[*netstate.ObjectError](err); !ok {
				t.Errorf("Apply = %v, which is about no object", err)
			}
			f.same(t, before, pods...)
		})
	}
	f.apply(t, pods[1], attachment(2)) // nothing is in its way
}

func brokenLinks() []broken {
	return []broken{
		{"link-exists", func(s *netstate.State) {
			s.Links = append(s.Links, netstate.Link{Place: netstate.Pod, Name: "lo", Kind: "bridge"})
		}, netstate.ErrExist},
		{"peer-exists", func(s *netstate.State) { s.Links[1].Peer, s.Links = "lo", s.Links[:2] }, netstate.ErrExist},
		{"shared-of-another-kind", func(s *netstate.State) { s.Links[0].Kind = "ifb" }, netstate.ErrExist},
		{"adjusted-link-missing", func(s *netstate.State) {
			s.Links = append(s.Links, netstate.Link{Place: netstate.Pod, Name: "eth7"})
		}, netstate.ErrNotExist},
		{"master-missing", func(s *netstate.State) { s.Links[1].Master = "nobridge" }, netstate.ErrNotExist},
		{"master-no-bridge", func(s *netstate.State) { s.Links[1].Master = "lo" }, nil},
		{"sysctl-missing", func(s *netstate.State) { s.Sysctls[1].Name = "net/ipv4/conf/eth7/arp_notify" }, netstate.ErrNotExist},
		{"addr-link-missing", func(s *netstate.State) { s.Addrs[3].Dev = "eth7" }, netstate.ErrNotExist},
		{"addr-twice", func(s *netstate.State) {
			s.Addrs = append(s.Addrs, s.Addrs[2])
		}, netstate.ErrExist},
	}
}

func brokenRoutes() []broken {
	return []broken{
		{"route-unreachable", func(s *netstate.State) { s.Routes[1].Via = netip.MustParseAddr("fd00:99::1") }, nil},
		{"route-gateway-own", func(s *netstate.State) { s.Routes[1].Via = s.Addrs[3].Prefix.Addr() }, nil},
		{"route-link-down", func(s *netstate.State) { s.Links[2].Down = true }, nil},
		{"route-link-missing", func(s *netstate.State) { s.Routes[1].Dev = "eth7" }, netstate.ErrNotExist},
		{"route-source-foreign", func(s *netstate.State) { s.Routes[0].Src = netip.MustParseAddr("192.0.2.7") }, nil},
		{"route-twice", func(s *netstate.State) { s.Routes = append(s.Routes, s.Routes[0]) }, netstate.ErrExist},
		{"rule-twice", func(s *netstate.State) {
			r := netstate.Rule{Place: netstate.Pod, From: s.Addrs[2].Prefix.Masked(), Table: 100, Priority: 7}
			s.Rules = []netstate.Rule{r, r}
		}, netstate.ErrExist},
		{"neighbour-link-missing", func(s *netstate.State) {
			s.Neighbours = []netstate.Neighbour{{Place: netstate.Pod, Dev: "eth7", Addr: gateway4, MAC: "0a:58:0a:58:00:01"}}
		}, netstate.ErrNotExist},
	}
}

func brokenTraffic() []broken {
	host := attachment(2).Owner.HostName("veth")
	return []broken{
		{"qdisc-link-missing", func(s *netstate.State) {
			s.Qdiscs = []netstate.Qdisc{{Place: netstate.Host, Dev: "eth7", Kind: "ingress", Parent: ingressParent, Handle: ingressHandle}}
		}, netstate.ErrNotExist},
		{"filter-without-ingress", func(s *netstate.State) {
			s.Filters = []netstate.Filter{{Place: netstate.Host, Dev: host, To: bridge}}
		}, nil},
		{"filter-target-missing", func(s *netstate.State) {
			s.Qdiscs = []netstate.Qdisc{{Place: netstate.Host, Dev: host, Kind: "ingress", Parent: ingressParent, Handle: ingressHandle}}
			s.Filters = []netstate.Filter{{Place: netstate.Host, Dev: host, To: "ifb7"}}
		}, netstate.ErrNotExist},
		{"element-set-missing", func(s *netstate.State) { s.Elements[1].Set = "none" }, nil},
		{"element-table-missing", func(s *netstate.State) {
			s.Elements[1].Table = "none"
		}, nil},
		{"element-bad-value", func(s *netstate.State) { s.Elements[1].Match = []string{"eth0"} }, nil},
		{"element-in-use", func(s *netstate.State) { s.Elements[0].Match = attachment(1).Elements[0].Match }, netstate.ErrInUse},
		{"rule-of-no-set", func(s *netstate.State) {
			s.Tables[0].Chains[0].Rules = []string{"ip saddr @none accept"}
		}, nil},
	}
}

// brokenLate are states whose last step fails, when all else was made: a route of the host, which needs the
// way to be open. Objects on links that were there before don't go with a link: each is undone by itself.
func brokenLate() []broken {
	late := func(s *netstate.State) {
		s.Routes = append(s.Routes, netstate.Route{Place: netstate.Host, Dst: netip.MustParsePrefix("198.51.100.0/24"),
			Via: netip.MustParseAddr("203.0.113.1"), Dev: bridge})
	}
	there := attachment(1).Owner.HostName("veth")
	return []broken{
		{"late", late, nil},
		{"late-addr", func(s *netstate.State) {
			s.Addrs = append(s.Addrs,
				netstate.Addr{Place: netstate.Host, Dev: bridge, Prefix: netip.MustParsePrefix("192.0.2.1/24")},
				netstate.Addr{Place: netstate.Host, Dev: bridge, Prefix: netip.MustParsePrefix("fd00:99::1/64")},
				netstate.Addr{Place: netstate.Pod, Dev: "lo", Prefix: netip.MustParsePrefix("192.0.2.2/32")})
			late(s)
		}, nil},
		{"late-addr-absent", func(s *netstate.State) {
			s.Addrs = append(s.Addrs, netstate.Addr{Place: netstate.Host, Dev: bridge, Prefix: netip.PrefixFrom(gateway4, 16), Absent: true, Shared: true})
			s.Addrs = s.Addrs[1:]
			late(s)
		}, nil},
		{"late-route", func(s *netstate.State) {
			s.Routes = append(s.Routes, netstate.Route{Place: netstate.Host, Dst: netip.MustParsePrefix("192.0.2.7/32"), Dev: bridge, Table: 77})
			late(s)
		}, nil},
		{"late-rule-neighbour", func(s *netstate.State) {
			s.Rules = []netstate.Rule{
				{Place: netstate.Host, From: netip.MustParsePrefix("192.0.2.0/24"), Table: 77, Priority: 9},
				{Place: netstate.Pod, To: netip.MustParsePrefix("fd00:99::/64"), Table: 77, Priority: 9},
			}
			s.Neighbours = []netstate.Neighbour{{Place: netstate.Host, Dev: bridge, Addr: netip.MustParseAddr("10.88.0.3"), MAC: "0a:58:0a:58:00:03"}}
			late(s)
		}, nil},
		{"late-traffic", func(s *netstate.State) {
			s.Links = append(s.Links, netstate.Link{Place: netstate.Host, Name: "ifb2", Kind: "ifb"})
			s.Qdiscs = []netstate.Qdisc{
				{Place: netstate.Host, Dev: there, Kind: "tbf", Parent: 0xffffffff, Handle: 0x10000, Rate: 1 << 20, Burst: 1 << 16, Limit: 1 << 17},
				{Place: netstate.Host, Dev: there, Kind: "ingress", Parent: ingressParent, Handle: ingressHandle},
			}
			s.Filters = []netstate.Filter{{Place: netstate.Host, Dev: there, To: "ifb2"}}
			late(s)
		}, nil},
		{"late-sysctl", func(s *netstate.State) {
			s.Sysctls = append(s.Sysctls,
				netstate.Sysctl{Place: netstate.Pod, Name: "net/ipv4/ip_forward", Value: "1"},
				netstate.Sysctl{Place: netstate.Host, Name: "net/ipv4/ip_forward", Value: "0"})
			late(s)
		}, nil},
		{"late-adjusted", func(s *netstate.State) {
			s.Links = append(s.Links,
				netstate.Link{Place: netstate.Pod, Name: "lo", MTU: 9000},
				netstate.Link{Place: netstate.Host, Name: there, MTU: 1300, Promisc: true, Down: true})
			late(s)
		}, nil},
	}
}

package kerneltest

import (
	"context"
	"errors"
	"math"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cleat-cni/cleat/netstate"
)

func testOpen(t *testing.T, f Fixture) {
	gone := f.NewPod()
	f.RemovePod(gone)
	for _, tc := range []struct {
		name, path string
		want       error
	}{
		{"missing", gone, netstate.ErrNotExist},
		{"regular-file", f.NewFile(), netstate.ErrNotNamespace},
		{"host", f.HostPath, netstate.ErrHostNamespace},
		{"pod", f.NewPod(), nil},
		{"none", "", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, err := f.Kernel.Open(t.Context(), tc.path, false)
			if !errors.Is(err, tc.want) {
				t.Errorf("Open = %v, want %v", err, tc.want)
			}
			if err != nil && s != nil {
				t.Error("a session beside an error")
			}
			if err == nil {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func testOpenHost(t *testing.T, f Fixture) {
	s, err := f.Kernel.Open(t.Context(), f.HostPath, true)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	f.AddBridge("", "br9")
	facts, err := s.Observe(t.Context(), netstate.Query{Links: []netstate.Ref{{Place: netstate.Pod, Name: "br9"}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := facts.Link(netstate.Pod, "br9"); !ok {
		t.Error("the pod's namespace is not the host's")
	}
}

func testCancelled(t *testing.T, f Fixture) {
	pod := f.NewPod()
	s := f.open(t, pod)
	before := f.texts(pod)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Apply(ctx, attachment(1)); !errors.Is(err, context.Canceled) {
		t.Errorf("Apply = %v, want %v", err, context.Canceled)
	}
	if _, err := f.Kernel.Open(ctx, pod, false); !errors.Is(err, context.Canceled) {
		t.Errorf("Open = %v, want %v", err, context.Canceled)
	}
	if _, err := f.Kernel.Collect(ctx, network, nil, false); !errors.Is(err, context.Canceled) {
		t.Errorf("Collect = %v, want %v", err, context.Canceled)
	}
	f.same(t, before, pod)
}

func testClosed(t *testing.T, f Fixture) {
	pod := f.NewPod()
	s, err := f.Kernel.Open(t.Context(), pod, false)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time there is nothing to close
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	before := f.texts(pod)
	if err := s.Apply(t.Context(), attachment(1)); err == nil {
		t.Error("a closed session made something in its pod")
	}
	f.same(t, before, pod)
}

func testMakeAndObserve(t *testing.T, f Fixture) {
	pod := f.NewPod()
	want := attachment(1)
	s := f.open(t, pod)
	if err := s.Apply(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	f.expect(t, pod, want)
	host := want.Owner.HostName("veth")
	facts, err := s.Observe(t.Context(), netstate.Query{Links: []netstate.Ref{
		{Place: netstate.Pod, Name: "eth0"},
		{Place: netstate.Host, Name: host},
		{Place: netstate.Host, Name: bridge},
		{Place: netstate.Host, Name: "eth0"},
		{Place: netstate.Pod, Name: bridge},
	}})
	if err != nil {
		t.Fatal(err)
	}
	// The MTU of a bridge that was given none is that of its ports; the MAC the kernel chose is not looked at.
	links := []netstate.Link{
		{Place: netstate.Pod, Name: "eth0", Kind: "veth", MTU: 1400, MAC: "0a:58:0a:58:00:02"},
		{Place: netstate.Host, Name: host, Kind: "veth", MTU: 1400, Master: bridge, Port: netstate.Port{Hairpin: true}},
		{Place: netstate.Host, Name: bridge, Kind: "bridge", MTU: 1400},
	}
	for i := range facts.Links {
		l := &facts.Links[i]
		// arp_notify was set as a sysctl, and not every kernel tells.
		l.Peer, l.PeerPlace, l.VLANs, l.ARPNotify, l.AllMulti, l.TxQLen = "", "", nil, false, "", 0
		if l.Place == netstate.Host {
			if l.MAC == "" {
				t.Errorf("%s has no MAC", l.Name)
			}
			l.MAC = ""
		}
	}
	if diff := cmp.Diff(links, facts.Links, cmpopts.SortSlices(func(a, b netstate.Link) bool { return a.Key() < b.Key() })); diff != "" {
		t.Errorf("links (-want +got)\n%s", diff)
	}
	for _, a := range want.Addrs {
		if !slices.ContainsFunc(facts.Addrs, func(have netstate.Addr) bool {
			return have.Place == a.Place && have.Dev == a.Dev && have.Prefix == a.Prefix
		}) {
			t.Errorf("Observe did not see %s", a)
		}
	}
}

func testUplink(t *testing.T, f Fixture) {
	s := f.open(t, "")
	uplink := func() string {
		t.Helper()
		facts, err := s.Observe(t.Context(), netstate.Query{Uplink: true})
		if err != nil {
			t.Fatal(err)
		}
		return facts.Uplink.Name
	}
	if got := uplink(); got != "" {
		t.Errorf("uplink %q without a default route", got)
	}
	for _, name := range []string{"br4", "br6"} {
		f.AddBridge("", name)
	}
	f.AddAddr("", "br4", netip.MustParsePrefix("192.0.2.2/24"))
	f.AddAddr("", "br6", netip.MustParsePrefix("fd00:99::2/64"))
	for _, tc := range []struct {
		route netstate.Route
		want  string
	}{
		{netstate.Route{Dst: default6, Via: netip.MustParseAddr("fd00:99::1"), Dev: "br6"}, "br6"},
		{netstate.Route{Dst: default4, Via: netip.MustParseAddr("192.0.2.1"), Dev: "br4"}, "br4"},
	} {
		tc.route.Place = netstate.Host
		if err := s.Apply(t.Context(), netstate.State{Owner: attachment(1).Owner, Routes: []netstate.Route{tc.route}}); err != nil {
			t.Fatal(err)
		}
		if got := uplink(); got != tc.want {
			t.Errorf("uplink %q, want %q", got, tc.want)
		}
	}
}

func testGatewayOffSubnet(t *testing.T, f Fixture) {
	pod := f.NewPod()
	want := attachment(1)
	want.Addrs[2].Prefix = netip.MustParsePrefix("10.88.0.2/32")
	want.Routes = []netstate.Route{
		{Place: netstate.Pod, Dst: netip.PrefixFrom(gateway4, 32), Dev: "eth0", Scope: scopeLink},
		{Place: netstate.Pod, Dst: default4, Via: gateway4, Dev: "eth0", MTU: 1300, AdvMSS: 1200, Src: netip.MustParseAddr("10.88.0.2")},
		{Place: netstate.Pod, Dst: netip.MustParsePrefix("192.0.2.0/24"), Via: netip.MustParseAddr("198.51.100.1"), Dev: "eth0", OnLink: true, Table: 100},
		{Place: netstate.Pod, Dst: default6, Via: gateway6, Dev: "eth0", Priority: 50},
	}
	f.apply(t, pod, want)
	f.expect(t, pod, want)
	f.remove(t, pod, want, false)
}

// testTwoDefaults gives a pod two interfaces, each with a default route of its own.
func testTwoDefaults(t *testing.T, f Fixture) {
	pod := f.NewPod()
	first, second := attachment(1), attachmentOf(netstate.Owner{Network: network, ContainerID: "c1", IfName: "net1"}, 2)
	second.Links[1].Peer, second.Links[2].Name = "net1", "net1"
	second.Sysctls = second.Sysctls[:1]
	for i := range second.Routes {
		second.Addrs[i+2].Dev, second.Routes[i].Dev = "net1", "net1"
	}
	f.apply(t, pod, first)
	f.apply(t, pod, second)
	f.expect(t, pod, first)
	f.expect(t, pod, second)
	f.remove(t, pod, first, false)
	f.expect(t, pod, second)
}

func testAgain(t *testing.T, f Fixture) {
	pod := f.NewPod()
	want := attachment(1)
	f.apply(t, pod, want)
	before := f.texts(pod)
	if err := f.try(t, pod, want); !errors.Is(err, netstate.ErrExist) {
		t.Errorf("second Apply = %v, want %v", err, netstate.ErrExist)
	}
	f.same(t, before, pod)
	f.expect(t, pod, want)
	// Another attachment in the same pod wants the same name there.
	other := attachment(2)
	if err := f.try(t, pod, other); !errors.Is(err, netstate.ErrExist) {
		t.Errorf("Apply of another eth0 = %v, want %v", err, netstate.ErrExist)
	}
	f.same(t, before, pod)
}

// An attempt that was killed left its link; the next one for the same owner comes with another pod.
func testMovedPod(t *testing.T, f Fixture) {
	pods := []string{f.NewPod(), f.NewPod()}
	want := attachment(1)
	want.Elements, want.Tables = nil, nil
	empty := f.Text(pods[0])
	f.apply(t, pods[0], want)
	f.apply(t, pods[1], want)
	f.expect(t, pods[1], want)
	if diff := cmp.Diff(empty, f.Text(pods[0])); diff != "" {
		t.Errorf("the first pod is not as before (-want +got)\n%s", diff)
	}
	// One that nobody has marked yet.
	want = attachment(2)
	f.AddBridge("", want.Owner.HostName("veth"))
	before := f.texts()
	if err := f.try(t, pods[0], want); !errors.Is(err, netstate.ErrExist) {
		t.Errorf("Apply = %v, want %v", err, netstate.ErrExist)
	}
	f.same(t, before)
}

func testSharedKept(t *testing.T, f Fixture) {
	f.AddBridge("", bridge)
	f.AddAddr("", bridge, netip.PrefixFrom(gateway4, 16))
	pods := []string{f.NewPod(), f.NewPod()}
	for i, pod := range pods {
		f.apply(t, pod, attachment(i+1))
	}
	for i, pod := range pods {
		f.expect(t, pod, attachment(i+1))
		f.remove(t, pod, attachment(i+1), false)
	}
	facts, err := f.open(t, "").Observe(t.Context(), netstate.Query{Links: []netstate.Ref{{Place: netstate.Host, Name: bridge}}})
	if err != nil {
		t.Fatal(err)
	}
	if len(facts.Links) != 1 || len(facts.AddrsOf(netstate.Host, bridge)) < 2 {
		t.Errorf("the bridge and its addresses were not kept: %v", facts)
	}
	f.expect(t, "", netstate.State{Tables: []netstate.Table{table()}})
}

// A shared link that is there is brought to what the state says; what it does not say stays.
func testSharedBrought(t *testing.T, f Fixture) {
	f.AddBridge("", bridge)
	want := netstate.State{Owner: attachment(1).Owner, Links: []netstate.Link{
		{Place: netstate.Host, Name: bridge, Kind: "bridge", MTU: 1300, MAC: "0a:58:0a:58:00:01", Promisc: true, Shared: true},
	}}
	f.expect(t, "", want, want.Links[0].Key())
	f.apply(t, "", want)
	f.expect(t, "", want)
	plain := want
	plain.Links = []netstate.Link{{Place: netstate.Host, Name: bridge, Kind: "bridge", Shared: true}}
	f.apply(t, "", plain)
	f.expect(t, "", plain)
	f.expect(t, "", want)
	facts, err := f.open(t, "").Observe(t.Context(), netstate.Query{Links: []netstate.Ref{{Place: netstate.Host, Name: bridge}}})
	if err != nil {
		t.Fatal(err)
	}
	if l, _ := facts.Link(netstate.Host, bridge); l.MTU != 1300 || l.MAC != want.Links[0].MAC || !l.Promisc {
		t.Errorf("the bridge is %s, want %s", l, want.Links[0])
	}
}

// A port with an MTU too small for IPv6 takes the bridge's IPv6 addresses, for all.
func testSmallMTU(t *testing.T, f Fixture) {
	pods := []string{f.NewPod(), f.NewPod()}
	f.apply(t, pods[0], attachment(1))
	small := attachment(2)
	small.Links[1].MTU, small.Links[2].MTU = 1000, 1000
	small.Links[1].NoIPv6 = true // as it is then, without being set
	small.Addrs = []netstate.Addr{small.Addrs[0], small.Addrs[2]}
	small.Routes = small.Routes[:1]
	f.apply(t, pods[1], small)
	f.expect(t, pods[1], small)
	f.expect(t, pods[0], attachment(1), attachment(1).Addrs[1].Key())
	small.Addrs = append(small.Addrs, attachment(2).Addrs[3])
	f.remove(t, pods[1], small, false)
	if err := f.try(t, pods[1], small); err == nil {
		t.Error("a link with an MTU of 1000 got an IPv6 address")
	}
}

// An address that must not be there is taken away, and stays away.
func testAbsent(t *testing.T, f Fixture) {
	f.AddBridge("", bridge)
	old := netip.PrefixFrom(gateway4, 16)
	f.AddAddr("", bridge, old)
	want := netstate.State{Owner: attachment(1).Owner, Addrs: []netstate.Addr{
		{Place: netstate.Host, Dev: bridge, Prefix: old, Absent: true},
		{Place: netstate.Host, Dev: bridge, Prefix: netip.MustParsePrefix("10.88.0.254/16"), Shared: true},
	}}
	list, err := f.open(t, "").Diff(t.Context(), want)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 2 || list[0].Object != want.Addrs[0].Key() || list[0].Want != "" || list[0].Have == "" {
		t.Errorf("Diff = %+v, want the address that has to go, then the one that has to come", list)
	}
	f.apply(t, "", want)
	f.expect(t, "", want)
	f.apply(t, "", want)
	f.remove(t, "", want, false)
	f.expect(t, "", want)
}

// What is shared belongs to nobody from the moment it is there: another attachment may use it by the
// time that the one which made it fails.
func testSharedSurvivesUndo(t *testing.T, f Fixture) {
	pod := f.NewPod()
	want := attachment(1)
	want.Routes[0].Via = netip.MustParseAddr("203.0.113.1")
	if err := f.try(t, pod, want); err == nil {
		t.Fatal("a route through an unreachable gateway was made")
	}
	facts, err := f.open(t, "").Observe(t.Context(), netstate.Query{Links: []netstate.Ref{{Place: netstate.Host, Name: bridge}}})
	if err != nil {
		t.Fatal(err)
	}
	if len(facts.Links) != 1 {
		t.Error("the shared bridge was undone")
	}
	f.apply(t, pod, attachment(1))
}

const (
	ingressParent = 0xfffffff1 // TC_H_INGRESS
	ingressHandle = 0xffff0000
)

// What can be told from the state alone is told first, whatever else is wrong.
func testRefusedBeforeMade(t *testing.T, f Fixture) {
	pod := f.NewPod()
	f.apply(t, pod, attachment(1))
	before := f.texts(pod)
	for _, tc := range []struct {
		name, word string // word stands in the error
		brk        func(s *netstate.State)
	}{
		{"unknown-kind", "warp", func(s *netstate.State) {
			s.Links = append(s.Links, netstate.Link{Place: netstate.Host, Name: "x0", Kind: "warp"})
		}},
		{"unknown-place", "moon", func(s *netstate.State) { s.Links[2].Place = "moon" }},
		{"bad-name", "a/b", func(s *netstate.State) { s.Links[2].Name = "a/b" }},
		{"long-name", "abcdefghijklmnop", func(s *netstate.State) { s.Links[2].Name = "abcdefghijklmnop" }},
		{"bad-mac", "0a:58", func(s *netstate.State) { s.Links[2].MAC = "0a:58" }},
		{"no-address", "addr", func(s *netstate.State) { s.Addrs[2].Prefix = netip.Prefix{} }},
		{"no-destination", "route", func(s *netstate.State) { s.Routes[0].Dst = netip.Prefix{} }},
		{"table-over-32-bits", "route", func(s *netstate.State) { s.Routes[0].Table = math.MaxInt }},
		{"two-families", "10.88.0.1", func(s *netstate.State) { s.Routes[1].Via = gateway4 }},
		{"sysctl-root", "kernel/none_such", func(s *netstate.State) { s.Sysctls[1].Name = "kernel/none_such" }},
		{"sysctl-escape", "..", func(s *netstate.State) { s.Sysctls[1].Name = "net/ipv4/../../kernel/none_such" }},
		{"qdisc-kind", "warp", func(s *netstate.State) {
			s.Qdiscs = []netstate.Qdisc{{Place: netstate.Pod, Dev: "eth0", Kind: "warp"}}
		}},
		{"table-family", "warp", func(s *netstate.State) { s.Tables[0].Family = "warp" }},
		{"set-type", "warp", func(s *netstate.State) { s.Tables[0].Sets[1].Key = []string{"warp"} }},
		{"chain-hook", "warp", func(s *netstate.State) { s.Tables[0].Chains[1].Hook = "warp" }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			want := attachment(1) // which is there: the wrong error would be ErrExist
			tc.brk(&want)
			err := f.try(t, pod, want)
			if err == nil || errors.Is(err, netstate.ErrExist) {
				t.Errorf("Apply = %v, want what is wrong with the state", err)
			}
			if err != nil && !strings.Contains(err.Error(), tc.word) {
				t.Errorf("Apply = %q, which does not name %q", err, tc.word)
			}
			f.same(t, before, pod)
		})
	}
}

func testWithoutPod(t *testing.T, f Fixture) {
	before := f.texts()
	if err := f.try(t, "", attachment(1)); err == nil {
		t.Error("objects of a pod were made without one")
	}
	f.remove(t, "", attachment(1), true)
	host := attachment(1)
	host.Links, host.Sysctls, host.Addrs, host.Routes, host.Tables, host.Elements = nil, nil, nil, nil, nil, nil
	if err := f.try(t, "", host); err != nil {
		t.Errorf("Apply of nothing = %v", err)
	}
	f.same(t, before)
}

func testAdjusted(t *testing.T, f Fixture) {
	pod := f.NewPod()
	want := netstate.State{Owner: attachment(1).Owner, Links: []netstate.Link{{Place: netstate.Pod, Name: "lo"}}}
	f.expect(t, pod, want, want.Links[0].Key())
	f.apply(t, pod, want)
	f.expect(t, pod, want)
	f.apply(t, pod, want) // there is nothing to be in its way
	broken := want
	broken.Links = append(slices.Clone(want.Links), netstate.Link{Place: netstate.Pod, Name: "eth7"})
	before := f.texts(pod)
	if err := f.try(t, pod, broken); !errors.Is(err, netstate.ErrNotExist) {
		t.Errorf("Apply = %v, want %v", err, netstate.ErrNotExist)
	}
	f.same(t, before, pod)
	f.remove(t, pod, want, false)
	if text := f.Text(pod); !strings.Contains(text, "lo") {
		t.Errorf("lo was removed:\n%s", text)
	}
}

// testOnLinkObjects makes the kinds that attachment lacks.
func testOnLinkObjects(t *testing.T, f Fixture) {
	pod := f.NewPod()
	f.apply(t, pod, attachment(1))
	before := f.texts(pod)
	host := attachment(1).Owner.HostName("veth")
	want := netstate.State{
		Owner: attachment(1).Owner,
		Links: []netstate.Link{{Place: netstate.Host, Name: "ifb1", Kind: "ifb"}},
		Routes: []netstate.Route{
			{Place: netstate.Pod, Dst: netip.MustParsePrefix("192.0.2.0/24"), Via: gateway4, Dev: "eth0", Table: 100},
			{Place: netstate.Host, Dst: netip.MustParsePrefix("198.51.100.7/32"), Dev: host, Scope: scopeLink},
		},
		Rules: []netstate.Rule{
			{Place: netstate.Pod, From: netip.MustParsePrefix("10.88.0.2/32"), Table: 100, Priority: 7},
			{Place: netstate.Pod, To: netip.MustParsePrefix("fd00:99::/64"), Table: 100},
		},
		Sysctls:    []netstate.Sysctl{{Place: netstate.Pod, Name: "net/ipv4/conf/eth7/arp_notify", Value: "1", Optional: true}},
		Neighbours: []netstate.Neighbour{{Place: netstate.Pod, Dev: "eth0", Addr: gateway4, MAC: "0a:58:0a:58:00:01"}},
		Qdiscs: []netstate.Qdisc{
			{Place: netstate.Host, Dev: host, Kind: "tbf", Parent: 0xffffffff, Handle: 0x10000, Rate: 1 << 20, Burst: 1 << 16, Limit: 1 << 17},
			{Place: netstate.Host, Dev: host, Kind: "ingress", Parent: ingressParent, Handle: ingressHandle},
		},
		Filters: []netstate.Filter{{Place: netstate.Host, Dev: host, To: "ifb1"}},
	}
	f.apply(t, pod, want)
	f.expect(t, pod, want)
	if f.texts(pod) == before {
		t.Error("an independent look finds nothing new")
	}
	f.remove(t, pod, want, false)
	f.same(t, before, pod)
	f.remove(t, pod, want, false)
}

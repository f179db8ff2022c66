package kernel

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/cleat-cni/cleat/internal/netns"
	"github.com/cleat-cni/cleat/internal/sandbox"
	"github.com/cleat-cni/cleat/netstate"
)

var (
	testGateway = netip.MustParsePrefix("10.88.255.254/16")
	anyIPv4     = netip.MustParsePrefix("0.0.0.0/0")
	anyIPv6     = netip.MustParsePrefix("::/0")
)

// bridgeState is what bridge, host-local and portmap want for attachment n, of IPv4 alone.
func bridgeState(n int) netstate.State {
	s := testState(n, 1024+n)
	host := s.Owner.HostName("veth")
	for i := range s.Elements {
		s.Elements[i].Lives = "link " + host
	}
	s.Links = []netstate.Link{
		{Place: netstate.Host, Name: "cni0", Kind: "bridge", Shared: true},
		{Place: netstate.Host, Name: host, Kind: "veth", MTU: 1500, Peer: "eth0", PeerPlace: netstate.Pod,
			Master: "cni0", Port: netstate.Port{Hairpin: true}},
		{Place: netstate.Pod, Name: "eth0", Kind: "veth", MTU: 1500, MAC: netstate.MACFor("test", fmt.Sprint(n)),
			Peer: host, PeerPlace: netstate.Host},
	}
	s.Sysctls = []netstate.Sysctl{{Place: netstate.Host, Name: "net/ipv4/ip_forward", Value: "1", Shared: true}}
	addr := netip.AddrFrom4([4]byte{10, 88, byte(n / 256), byte(n % 256)})
	s.Addrs = []netstate.Addr{
		{Place: netstate.Host, Dev: "cni0", Prefix: testGateway, Shared: true},
		{Place: netstate.Pod, Dev: "eth0", Prefix: netip.PrefixFrom(addr, 16)},
	}
	s.Routes = []netstate.Route{{Place: netstate.Pod, Dst: anyIPv4, Via: testGateway.Addr(), Dev: "eth0"}}
	return s
}

// testKernel is a Kernel whose host is a namespace of the test.
func testKernel(t testing.TB) *Kernel {
	t.Helper()
	k, err := New(Config{Host: sandbox.Namespace(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	})
	return k
}

// openPod opens a session in the pod, which is closed before the Kernel.
func openPod(t testing.TB, k *Kernel, pod *netns.Handle) *Session {
	t.Helper()
	path := ""
	if pod != nil {
		path = pod.Path()
	}
	s, err := k.Open(t.Context(), path, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// seeBridge is the question that a bridge's planner asks.
var seeBridge = netstate.Query{Links: []netstate.Ref{{Place: netstate.Host, Name: "cni0"}}}

// add is what an ADD asks of a Kernel.
func add(t testing.TB, s *Session, st netstate.State) {
	t.Helper()
	if _, err := s.Observe(t.Context(), seeBridge); err != nil {
		t.Fatal(err)
	}
	if err := s.Apply(t.Context(), st); err != nil {
		t.Fatal(err)
	}
}

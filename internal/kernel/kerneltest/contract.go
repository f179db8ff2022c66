package kerneltest

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/netstate"
	"github.com/cleat-cni/cleat/planned"
)

// Fixture is a kernel under test, with what a person could do on the machine by hand. Its functions fail
// the test on an error. A path of "" is the host's namespace.
type Fixture struct {
	Kernel    planned.Kernel
	HostPath  string        // the host's own namespace
	NewPod    func() string // makes a namespace
	RemovePod func(path string)
	NewFile   func() string // makes a path that is no namespace

	// By hand, so that what is made belongs to nobody.
	AddBridge func(path, name string) // up
	AddAddr   func(path, dev string, p netip.Prefix)
	DelLink   func(path, name string)
	DelRoute  func(path string, dst netip.Prefix)

	// Text lists what is in a namespace, sorted, in a way of its own that the kernel under test has no part in. What
	// the kernel fills in by itself (counters, link-local addresses, indexes, derived routes) it leaves out.
	Text func(path string) string
}

// Contract holds a kernel to what planned.Kernel promises and to what Linux does. newFixture returns
// a kernel of its own, with a fresh host namespace, each time.
func Contract(t *testing.T, newFixture func(t *testing.T) Fixture) {
	t.Helper()
	for _, tc := range []struct {
		name string
		run  func(t *testing.T, f Fixture)
	}{
		{"open", testOpen},
		{"open-host", testOpenHost},
		{"cancelled", testCancelled},
		{"closed", testClosed},
		{"make-and-observe", testMakeAndObserve},
		{"peers", testPeers},
		{"impostor", testImpostor},
		{"pod-id", testPodID},
		{"lost-redirect", testLostRedirect},
		{"modes", testModes},
		{"uplink", testUplink},
		{"gateway-off-subnet", testGatewayOffSubnet},
		{"two-defaults", testTwoDefaults},
		{"routing", testRouting},
		{"routing-merged", testRoutingMerged},
		{"routing-undone", testRoutingUndone},
		{"again", testAgain},
		{"moved-pod", testMovedPod},
		{"shared-kept", testSharedKept},
		{"shared-brought", testSharedBrought},
		{"absent", testAbsent},
		{"small-mtu", testSmallMTU},
		{"shared-survives-undo", testSharedSurvivesUndo},
		{"undo", testUndo},
		{"refused-before-made", testRefusedBeforeMade},
		{"without-pod", testWithoutPod},
		{"adjusted-link", testAdjusted},
		{"on-link-objects", testOnLinkObjects},
		{"diff", testDiff},
		{"diff-changes", testDiffChanges},
		{"remove", testRemove},
		{"remove-pod-gone", testRemovePodGone},
		{"remove-foreign", testRemoveForeign},
		{"remove-other-owner", testRemoveOtherOwner},
		{"remove-twin-name", testRemoveHostTwin},
		{"element-conflict", testElementConflict},
		{"element-of-the-container", testElementBeside},
		{"element-dead-owner", testElementDeadOwner},
		{"element-undone", testElementUndone},
		{"element-netns", testElementNetNS},
		{"element-seen", testElementSeen},
		{"sweep", testSweep},
		{"collect", testCollect},
		{"collect-none-valid", testCollectNoneValid},
		{"supports", testSupports},
		{"concurrent", testConcurrent},
		{"concurrent-same", testConcurrentSame},
	} {
		t.Run(tc.name, func(t *testing.T) { tc.run(t, newFixture(t)) })
	}
}

// The network of the contract: a bridge with a gateway address of each family, and in nft a map of
// published ports and a set.
const (
	network = "pods"
	bridge  = "cni0"
)

var (
	gateway4 = netip.MustParseAddr("10.88.0.1")
	gateway6 = netip.MustParseAddr("fd00:88::1")
	default4 = netip.MustParsePrefix("0.0.0.0/0")
	default6 = netip.MustParsePrefix("::/0")
)

// attachment is the n-th attachment, n from 1 to 200, of the network: all that the usual plugins ask
// for. Every other kind of object is added by the tests of it.
func attachment(n int) netstate.State {
	owner := netstate.Owner{Network: network, ContainerID: fmt.Sprintf("c%d", n), IfName: "eth0"}
	return attachmentOf(owner, n)
}

func attachmentOf(owner netstate.Owner, n int) netstate.State {
	host := owner.HostName("veth")
	ip4 := netip.AddrFrom4([4]byte{10, 88, 0, byte(n + 1)})
	ip6 := netip.MustParseAddr(fmt.Sprintf("fd00:88::%x", n+1))
	return netstate.State{
		Owner: owner,
		Links: []netstate.Link{
			{Place: netstate.Host, Name: bridge, Kind: "bridge", Shared: true},
			{Place: netstate.Host, Name: host, Kind: "veth", MTU: 1400, Peer: "eth0", PeerPlace: netstate.Pod,
				Master: bridge, Port: netstate.Port{Hairpin: true}},
			{Place: netstate.Pod, Name: "eth0", Kind: "veth", MTU: 1400, Peer: host, PeerPlace: netstate.Host,
				MAC: fmt.Sprintf("0a:58:0a:58:00:%02x", n+1)},
		},
		Sysctls: []netstate.Sysctl{
			{Place: netstate.Host, Name: "net/ipv4/ip_forward", Value: "1", Shared: true},
			{Place: netstate.Pod, Name: "net/ipv4/conf/eth0/arp_notify", Value: "1"},
		},
		Addrs: []netstate.Addr{
			{Place: netstate.Host, Dev: bridge, Prefix: netip.PrefixFrom(gateway4, 16), Shared: true},
			{Place: netstate.Host, Dev: bridge, Prefix: netip.PrefixFrom(gateway6, 64), Shared: true},
			{Place: netstate.Pod, Dev: "eth0", Prefix: netip.PrefixFrom(ip4, 16)},
			{Place: netstate.Pod, Dev: "eth0", Prefix: netip.PrefixFrom(ip6, 64)},
		},
		Routes: []netstate.Route{
			{Place: netstate.Pod, Dst: default4, Via: gateway4, Dev: "eth0"},
			{Place: netstate.Pod, Dst: default6, Via: gateway6, Dev: "eth0"},
		},
		Tables: []netstate.Table{table()},
		Elements: []netstate.Element{
			published(owner, 8000+n, ip4),
			{Family: "inet", Table: "cleat", Set: "masq4", Match: []string{ip4.String()}, Owner: owner, Lives: "link " + host},
		},
	}
}

// published is a host's port that leads to an address.
func published(owner netstate.Owner, port int, to netip.Addr) netstate.Element {
	return netstate.Element{
		Family: "inet", Table: "cleat", Set: "hostports4",
		Match: []string{"tcp", fmt.Sprint(port)}, Data: []string{to.String(), "80"},
		Owner: owner, Lives: "link " + owner.HostName("veth"),
	}
}

func table() netstate.Table {
	return netstate.Table{
		Family: "inet", Name: "cleat",
		Sets: []netstate.Set{
			{Name: "hostports4", Key: []string{"inet_proto", "inet_service"}, Data: []string{"ipv4_addr", "inet_service"}},
			{Name: "masq4", Key: []string{"ipv4_addr"}},
		},
		Chains: []netstate.Chain{
			{Name: "marked", Rules: []string{"ip saddr @masq4 accept"}},
			{Name: "postrouting", Type: "nat", Hook: "postrouting", Priority: 100, Rules: []string{"ip saddr @masq4 masquerade"}},
		},
	}
}

// open returns a session that ends with the test.
func (f Fixture) open(t *testing.T, pod string) planned.Session {
	t.Helper()
	s, err := f.Kernel.Open(t.Context(), pod, false)
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

// apply makes a state in a pod, and the session ends at once.
func (f Fixture) apply(t *testing.T, pod string, want netstate.State) {
	t.Helper()
	if err := f.try(t, pod, want); err != nil {
		t.Fatal(err)
	}
}

func (f Fixture) try(t *testing.T, pod string, want netstate.State) error {
	t.Helper()
	s, err := f.Kernel.Open(t.Context(), pod, false)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	return s.Apply(t.Context(), want)
}

func (f Fixture) remove(t *testing.T, pod string, want netstate.State, sweep bool) {
	t.Helper()
	s, err := f.Kernel.Open(t.Context(), pod, false)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Remove(t.Context(), want, sweep); err != nil {
		t.Fatal(err)
	}
}

// texts is all of the namespaces as text.
func (f Fixture) texts(paths ...string) string {
	var all strings.Builder
	for _, p := range append([]string{""}, paths...) {
		all.WriteString("netns " + p + "\n" + f.Text(p))
	}
	return all.String()
}

// same fails the test if the text of the namespaces is not what it was.
func (f Fixture) same(t *testing.T, before string, paths ...string) {
	t.Helper()
	if diff := cmp.Diff(before, f.texts(paths...)); diff != "" {
		t.Errorf("the namespaces are not as before (-want +got)\n%s", diff)
	}
}

// differences are the keys of what Diff finds.
func (f Fixture) differences(t *testing.T, pod string, want netstate.State) []string {
	t.Helper()
	s, err := f.Kernel.Open(t.Context(), pod, false)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	list, err := s.Diff(t.Context(), want)
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, d := range list {
		keys = append(keys, d.Object)
	}
	return keys
}

// expect fails the test if Diff does not find just these.
func (f Fixture) expect(t *testing.T, pod string, want netstate.State, keys ...string) {
	t.Helper()
	got := f.differences(t, pod, want)
	slices.Sort(keys)
	slices.Sort(got)
	if diff := cmp.Diff(keys, got); diff != "" {
		t.Errorf("differences (-want +got)\n%s", diff)
	}
}

// onlyElements is a state of some elements, to ask whether they are there.
func onlyElements(list ...netstate.Element) netstate.State {
	return netstate.State{Owner: list[0].Owner, Tables: []netstate.Table{table()}, Elements: list}
}

package kernel

import (
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/internal/netns"
	"github.com/cleat-cni/cleat/internal/sandbox"
	"github.com/cleat-cni/cleat/netstate"
)

// look runs a program in a namespace and returns what it prints.
func look(t testing.TB, ns *netns.Handle, name string, args ...string) string {
	t.Helper()
	var out []byte
	err := ns.Do(func() error {
		var err error
		out, err = exec.Command(name, args...).CombinedOutput()
		return err
	})
	if err != nil {
		t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// wantWords checks that text holds each of words.
func wantWords(t *testing.T, text string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("%q is not in\n%s", w, text)
		}
	}
}

// wantSame checks that the state is as stated, and that a state with nothing but a link more is told apart.
func wantSame(t *testing.T, s *Session, st netstate.State) {
	t.Helper()
	diffs, err := s.Diff(t.Context(), st)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]netstate.Difference(nil), diffs); d != "" {
		t.Errorf("differences (-want +got)\n%s", d)
	}
}

func mustMake(t *testing.T, s *Session, st netstate.State) {
	t.Helper()
	if err := s.Apply(t.Context(), st); err != nil {
		t.Fatal(err)
	}
}

func mustRemove(t *testing.T, s *Session, st netstate.State) {
	t.Helper()
	if err := s.Remove(t.Context(), st, false); err != nil {
		t.Fatal(err)
	}
}

// An ADD beside others is seven messages of rtnetlink, and three of them are the pod's.
func TestMessagesOfAnAttachment(t *testing.T) {
	t.Parallel()
	k := testKernel(t)
	add(t, openPod(t, k, sandbox.Namespace(t)), bridgeState(1))
	s := openPod(t, k, sandbox.Namespace(t))
	before := k.Stats().Rtnetlink
	add(t, s, bridgeState(2))
	if n := k.Stats().Rtnetlink - before; n != 7 {
		t.Errorf("ADD took %d messages, want 7: two to look, veth, address, up, route, host's end", n)
	}
	before = k.Stats().Rtnetlink
	mustRemove(t, s, bridgeState(2))
	if n := k.Stats().Rtnetlink - before; n != 3 {
		t.Errorf("DEL took %d messages, want 3: look, down, delete", n)
	}
}

// The answer to a deletion comes 15 to 20 ms after the link is gone.
func TestRemoveDoesNotWaitForReclaim(t *testing.T) {
	t.Parallel()
	k := testKernel(t)
	pod := sandbox.Namespace(t)
	s := openPod(t, k, pod)
	best := time.Hour
	for range 5 {
		add(t, s, bridgeState(1))
		start := time.Now()
		mustRemove(t, s, bridgeState(1))
		best = min(best, time.Since(start))
		if strings.Contains(look(t, pod, "ip", "-br", "link"), "eth0") {
			t.Fatal("the pod's end is still there")
		}
	}
	if best > 10*time.Millisecond {
		t.Errorf("the fastest of five took %v: it waited for the kernel's answer", best)
	}
}

// Without notices a deletion ends with the kernel's answer.
func TestRemoveWithoutNotices(t *testing.T) {
	t.Parallel()
	k := testKernel(t)
	s := openPod(t, k, sandbox.Namespace(t))
	add(t, s, bridgeState(1))
	n, err := k.host.listen()
	if err != nil {
		t.Fatal(err)
	}
	if err := n.close(); err != nil {
		t.Fatal(err)
	}
	mustRemove(t, s, bridgeState(1))
	wantGone(t, k, bridgeState(1))
}

func wantGone(t *testing.T, k *Kernel, st netstate.State) {
	t.Helper()
	if out := look(t, k.host.ns, "ip", "-br", "link"); strings.Contains(out, st.Owner.HostName("veth")) {
		t.Errorf("the host's end is still there:\n%s", out)
	}
}

func TestManyAttachmentsAtOnce(t *testing.T) {
	t.Parallel()
	k := testKernel(t)
	const many = 64
	pods := make([]*netns.Handle, many)
	for i := range pods {
		pods[i] = sandbox.Namespace(t)
	}
	var wg sync.WaitGroup
	for i, pod := range pods {
		wg.Go(func() {
			s, err := k.Open(t.Context(), pod.Path(), false)
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			st := bridgeState(i + 2)
			if err := s.Apply(t.Context(), st); err != nil {
				t.Error(err)
				return
			}
			if diffs, err := s.Diff(t.Context(), st); err != nil || len(diffs) > 0 {
				t.Errorf("differences %v, %v", diffs, err)
			}
			if i%2 == 0 {
				if err := s.Remove(t.Context(), st, true); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	out := look(t, k.host.ns, "ip", "-br", "link", "show", "master", "cni0")
	if n := strings.Count(out, "\n"); n != many/2 {
		t.Errorf("%d ports are left, want %d", n, many/2)
	}
	freed, err := k.Collect(t.Context(), "net", []netstate.Owner{testOwner(3)}, false)
	if err != nil {
		t.Fatal(err)
	}
	if want := (many/2 - 1) * 3; len(freed) != want { // a link and two elements each
		t.Errorf("%d objects were collected, want %d", len(freed), want)
	}
	if out := look(t, k.host.ns, "ip", "-br", "link", "show", "master", "cni0"); strings.Count(out, "\n") != 1 {
		t.Errorf("ports after collection:\n%s", out)
	}
}

// A bridge keeps its address whatever ports come and go.
func TestBridgeKeepsItsMAC(t *testing.T) {
	t.Parallel()
	k := testKernel(t)
	s := openPod(t, k, sandbox.Namespace(t))
	st := bridgeState(1)
	st.Links[1].MAC = "02:00:00:00:00:01" // lower than any at random
	add(t, s, st)
	f, err := s.Observe(t.Context(), seeBridge)
	if err != nil {
		t.Fatal(err)
	}
	before := f.Links[0].MAC
	if before == st.Links[1].MAC {
		t.Errorf("the bridge has its port's MAC %s", before)
	}
	mustRemove(t, s, st)
	if f, err = s.Observe(t.Context(), seeBridge); err != nil {
		t.Fatal(err)
	}
	if f.Links[0].MAC != before {
		t.Errorf("MAC of the bridge was %s and is %s", before, f.Links[0].MAC)
	}
}

// What Observe saw may have gone when Apply comes.
func TestApplyAfterTheBridgeWent(t *testing.T) {
	t.Parallel()
	k := testKernel(t)
	add(t, openPod(t, k, sandbox.Namespace(t)), bridgeState(1))
	s := openPod(t, k, sandbox.Namespace(t))
	if _, err := s.Observe(t.Context(), seeBridge); err != nil {
		t.Fatal(err)
	}
	look(t, k.host.ns, "ip", "link", "del", "cni0")
	mustMake(t, s, bridgeState(2))
	wantSame(t, s, bridgeState(2))
}

// A killed attempt leaves a link without an alias, since that is set last.
func TestLeftoverOfAKilledAttempt(t *testing.T) {
	t.Parallel()
	k := testKernel(t)
	st := bridgeState(1)
	name := st.Owner.HostName("veth")
	s := openPod(t, k, sandbox.Namespace(t))
	look(t, k.host.ns, "ip", "link", "add", name, "type", "veth", "peer", "name", "tmp0")
	mustMake(t, s, st)
	wantSame(t, s, st)
	look(t, k.host.ns, "ip", "link", "set", name, "alias", "")
	mustRemove(t, openPod(t, k, nil), st)
	wantGone(t, k, st)
}

// TestCollectUnfinished has GC find what attempts left that were killed before they set the alias, by the network alone.
func TestCollectUnfinished(t *testing.T) {
	t.Parallel()
	k := testKernel(t)
	dead, living, done := bridgeState(1), bridgeState(2), bridgeState(3)
	for _, st := range []netstate.State{dead, living} {
		c := &change{work: openPod(t, k, sandbox.Namespace(t)).begin(), state: st}
		err := c.makeLinks(t.Context())
		c.end()
		if err != nil {
			t.Fatal(err)
		}
	}
	mustMake(t, openPod(t, k, sandbox.Namespace(t)), done)
	look(t, k.host.ns, "ip", "link", "add", "veth0123456789a", "type", "veth", "peer", "name", "tmp0")
	collect := func(network string, want ...string) {
		t.Helper()
		freed, err := k.Collect(t.Context(), network, []netstate.Owner{living.Owner, done.Owner}, false)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, f := range freed {
			names = append(names, strings.Fields(f.Object)[2])
		}
		if diff := cmp.Diff(want, names); diff != "" {
			t.Errorf("collected of %s (-want +got)\n%s", network, diff)
		}
	}
	collect("other")
	collect("net", dead.Owner.HostName("veth"))
	if out := look(t, k.host.ns, "ip", "link", "show", done.Owner.HostName("veth")); !strings.Contains(out, "group default") {
		t.Errorf("a finished link is in a group: %s", out)
	}
}

func TestForeignLinkIsLeftAlone(t *testing.T) {
	t.Parallel()
	k := testKernel(t)
	st := bridgeState(1)
	name := st.Owner.HostName("veth")
	look(t, k.host.ns, "ip", "link", "add", name, "type", "veth", "peer", "name", "tmp0")
	look(t, k.host.ns, "ip", "link", "set", name, "alias", "mine")
	s := openPod(t, k, sandbox.Namespace(t))
	before := look(t, k.host.ns, "ip", "-d", "link", "show", name)
	err := s.Apply(t.Context(), st)
	if !errors.Is(err, netstate.ErrExist) || !strings.Contains(err.Error(), "host link "+name) {
		t.Errorf("Apply = %v", err)
	}
	mustRemove(t, s, st)
	if d := cmp.Diff(before, look(t, k.host.ns, "ip", "-d", "link", "show", name)); d != "" {
		t.Errorf("the foreign link changed (-want +got)\n%s", d)
	}
}

func TestIPv6IsUsableAtOnce(t *testing.T) {
	t.Parallel()
	k := testKernel(t)
	pod := sandbox.Namespace(t)
	s := openPod(t, k, pod)
	st := bridgeState(1)
	addIPv6(&st, false)
	start := time.Now()
	mustMake(t, s, st)
	if took := time.Since(start); took > 500*time.Millisecond {
		t.Errorf("ADD took %v", took)
	}
	if out := look(t, pod, "ip", "-6", "addr", "show", "dev", "eth0", "tentative", "scope", "global"); out != "" {
		t.Errorf("still tentative:\n%s", out)
	}
	wantSame(t, s, st)
	look(t, pod, "ping", "-c1", "-W2", "fd00:88::1")
}

func addIPv6(st *netstate.State, dad bool) {
	gateway := netip.MustParsePrefix("fd00:88::1/64")
	st.Addrs = append(st.Addrs,
		netstate.Addr{Place: netstate.Host, Dev: "cni0", Prefix: gateway, Shared: true},
		netstate.Addr{Place: netstate.Pod, Dev: "eth0", Prefix: netip.MustParsePrefix("fd00:88::2/64"), DAD: dad})
	st.Routes = append(st.Routes, netstate.Route{Place: netstate.Pod, Dst: anyIPv6, Via: gateway.Addr(), Dev: "eth0"})
}

func TestDAD(t *testing.T) {
	t.Parallel()
	k := testKernel(t)
	pods := []*netns.Handle{sandbox.Namespace(t), sandbox.Namespace(t)}
	first, second := bridgeState(1), bridgeState(2)
	// Hairpin would send the probe back.
	first.Links[1].Port, second.Links[1].Port = netstate.Port{}, netstate.Port{}
	addIPv6(&first, true)
	addIPv6(&second, true)
	mustMake(t, openPod(t, k, pods[0]), first)
	if out := look(t, pods[0], "ip", "-6", "addr", "show", "dev", "eth0", "tentative", "scope", "global"); out != "" {
		t.Errorf("still tentative:\n%s", out)
	}
	err := openPod(t, k, pods[1]).Apply(t.Context(), second)
	if !errors.Is(err, errDuplicate) || !strings.Contains(err.Error(), "fd00:88::2") {
		t.Errorf("Apply of the same address = %v, want %v", err, errDuplicate)
	}
	wantGone(t, k, second)
	wantSame(t, openPod(t, k, pods[0]), first)
}

func TestLinkSettings(t *testing.T) {
	t.Parallel()
	k := testKernel(t)
	pod := sandbox.Namespace(t)
	s := openPod(t, k, pod)
	st := bridgeState(1)
	for i := range st.Links {
		st.Links[i].NoIPv6, st.Links[i].ARPNotify = true, true
	}
	st.Links[0].Promisc = true
	st.Links[1].Port = netstate.Port{Isolated: true}
	mustMake(t, s, st)
	wantSame(t, s, st)
	wantWords(t, look(t, pod, "cat", "/proc/sys/net/ipv4/conf/eth0/arp_notify"), "1")
	wantWords(t, look(t, k.host.ns, "ip", "-d", "link", "show", st.Links[1].Name),
		"isolated on", "hairpin off", "alias "+st.Owner.Comment(aliasSize))
	wantWords(t, look(t, k.host.ns, "cat", "/proc/sys/net/ipv6/conf/"+st.Links[1].Name+"/disable_ipv6"), "1")
	if out := look(t, pod, "ip", "-6", "addr", "show", "dev", "eth0"); out != "" {
		t.Errorf("the pod's end has an IPv6 address:\n%s", out)
	}
	for _, tc := range []struct {
		name   string
		change []string
	}{
		{"promisc", []string{"cni0", "promisc", "off"}},
		{"noipv6", []string{"cni0", "addrgenmode", "eui64"}},
		{"isolated", []string{st.Links[1].Name, "type", "bridge_slave", "isolated", "off"}},
	} {
		look(t, k.host.ns, "ip", append([]string{"link", "set"}, tc.change...)...)
		diffs, err := s.Diff(t.Context(), st)
		if err != nil || len(diffs) != 1 || strings.Contains(diffs[0].Have, tc.name) || !strings.Contains(diffs[0].Want, tc.name) {
			t.Errorf("%s: differences %v, %v", tc.name, diffs, err)
		}
		// A shared link is brought back by the next ADD; the other one by us.
		add(t, openPod(t, k, sandbox.Namespace(t)), sharedOnly(bridgeState(100+len(tc.name)), st.Links[0]))
	}
}

// sharedOnly is st with the shared link as in l.
func sharedOnly(st netstate.State, l netstate.Link) netstate.State {
	st.Links[0] = l
	return st
}

// The gateway of a VLAN is a veth whose both ends are on the host.
func TestPairOnTheHost(t *testing.T) {
	t.Parallel()
	k := testKernel(t)
	s := openPod(t, k, nil)
	st := netstate.State{
		Owner: testOwner(1),
		Links: []netstate.Link{
			{Place: netstate.Host, Name: "cni0", Kind: "bridge", Shared: true},
			{Place: netstate.Host, Name: "cni0.100", Kind: "veth", Peer: "vlangw", PeerPlace: netstate.Host, Shared: true},
			{Place: netstate.Host, Name: "vlangw", Kind: "veth", Master: "cni0", Shared: true},
		},
		Addrs: []netstate.Addr{{Place: netstate.Host, Dev: "cni0.100", Prefix: netip.MustParsePrefix("10.9.0.1/24"), Shared: true}},
	}
	for range 2 {
		mustMake(t, s, st)
		wantSame(t, s, st)
	}
	mustRemove(t, s, st)
	wantSame(t, s, st)
	look(t, k.host.ns, "ip", "link", "del", "cni0.100")
	mustMake(t, s, st)
	wantSame(t, s, st)
}

func TestVLANs(t *testing.T) {
	t.Parallel()
	k := testKernel(t)
	s := openPod(t, k, sandbox.Namespace(t))
	st := bridgeState(1)
	st.Tables, st.Elements = nil, nil // not all kernels that filter by VLAN have nft's family inet
	st.Links[0].Bridge.VLANFiltering = true
	st.Links[1].VLANs = []netstate.VLAN{{From: 100, To: 100, PVID: true, Untagged: true}, {From: 200, To: 203}}
	err := s.Apply(t.Context(), st)
	if errors.Is(err, netstate.ErrUnsupported) {
		sandbox.Need(t, "vlan_filtering", err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	wantSame(t, s, st)
	out := look(t, k.host.ns, "bridge", "vlan", "show", "dev", st.Links[1].Name)
	wantWords(t, out, "100 PVID Egress Untagged", "200", "203")
	if strings.Contains(out, " 1 ") {
		t.Errorf("the port is still in VLAN 1:\n%s", out)
	}
}

// Routes and rules of a pod, as policy routing wants them, are removed though the link stays.
func TestPolicyRouting(t *testing.T) {
	t.Parallel()
	k := testKernel(t)
	pod := sandbox.Namespace(t)
	s := openPod(t, k, pod)
	mustMake(t, s, bridgeState(1))
	from := netip.MustParsePrefix("10.88.0.1/32")
	st := netstate.State{
		Owner: testOwner(1),
		Links: []netstate.Link{{Place: netstate.Pod, Name: "lo"}},
		Routes: []netstate.Route{
			{Place: netstate.Pod, Dst: anyIPv4, Via: testGateway.Addr(), Dev: "eth0", Table: 100, MTU: 1400, AdvMSS: 1300},
			{Place: netstate.Pod, Dst: netip.MustParsePrefix("192.0.2.1/32"), Dev: "eth0", Table: 1000, Src: from.Addr()},
			{Place: netstate.Pod, Dst: netip.MustParsePrefix("198.51.100.0/24"), Via: netip.MustParseAddr("203.0.113.1"), Dev: "eth0", OnLink: true, Priority: 50},
		},
		Rules:      []netstate.Rule{{Place: netstate.Pod, From: from, Table: 100, Priority: 90}, {Place: netstate.Pod, To: netip.MustParsePrefix("fd00::/16"), Table: 1000}},
		Neighbours: []netstate.Neighbour{{Place: netstate.Pod, Dev: "eth0", Addr: netip.MustParseAddr("10.88.0.99"), MAC: "02:00:00:00:00:99"}},
	}
	look(t, pod, "sh", "-c", "ip link set lo up; ip link set lo down") // it gets its address
	// Whether a route waits for the carrier is another matter, and of the moment.
	before := look(t, pod, "sh", "-c", "ip route show table all | sed s/.linkdown//; ip rule; ip -6 rule; ip neigh show nud permanent; ip -br link show lo")
	mustMake(t, s, st)
	wantSame(t, s, st)
	wantWords(t, look(t, pod, "ip", "route", "show", "table", "100"), "default via 10.88.255.254 dev eth0 mtu 1400 advmss 1300")
	wantWords(t, look(t, pod, "ip", "route", "show", "table", "1000"), "192.0.2.1 dev eth0 scope link src 10.88.0.1")
	wantWords(t, look(t, pod, "ip", "-br", "link", "show", "lo"), "LOOPBACK,UP")
	if err := s.Apply(t.Context(), st); !errors.Is(err, netstate.ErrExist) {
		t.Errorf("a second time: %v, want %v", err, netstate.ErrExist)
	}
	wantSame(t, s, st)
	for range 2 {
		mustRemove(t, s, st)
	}
	after := look(t, pod, "sh", "-c", "ip link set lo down; ip route show table all | sed s/.linkdown//; ip rule; ip -6 rule; ip neigh show nud permanent; ip -br link show lo")
	if d := cmp.Diff(before, after); d != "" {
		t.Errorf("not as before (-want +got)\n%s", d)
	}
}

// A borrowed device gets its old values back when a later step fails.
func TestAdjustedLinkIsPutBack(t *testing.T) {
	t.Parallel()
	k := testKernel(t)
	pod := sandbox.Namespace(t)
	look(t, pod, "ip", "link", "add", "net0", "address", "02:00:00:00:00:01", "mtu", "1400", "type", "veth", "peer", "name", "net1")
	look(t, pod, "sh", "-c", "ip link set net0 up; ip link set net0 down") // it gets its qdisc
	s := openPod(t, k, pod)
	st := netstate.State{
		Owner:   testOwner(1),
		Links:   []netstate.Link{{Place: netstate.Pod, Name: "net0", MAC: "02:00:00:00:00:02", MTU: 1300, Promisc: true}},
		Sysctls: []netstate.Sysctl{{Place: netstate.Pod, Name: "net/ipv4/conf/net0/arp_ignore", Value: "2"}},
		Addrs:   []netstate.Addr{{Place: netstate.Pod, Dev: "net0", Prefix: netip.MustParsePrefix("10.1.0.2/24")}},
	}
	show := "ip -o link show net0; ip -4 -o addr show dev net0; cat /proc/sys/net/ipv4/conf/net0/arp_ignore"
	before := look(t, pod, "sh", "-c", show)
	broken := st
	broken.Routes = []netstate.Route{{Place: netstate.Pod, Dst: anyIPv4, Via: netip.MustParseAddr("192.0.2.1"), Dev: "net0"}}
	err := s.Apply(t.Context(), broken)
	if err == nil || !strings.Contains(err.Error(), "pod route 0.0.0.0/0 dev net0: ") {
		t.Errorf("Apply = %v", err)
	}
	if d := cmp.Diff(before, look(t, pod, "sh", "-c", show)); d != "" {
		t.Errorf("not as before (-want +got)\n%s", d)
	}
	mustMake(t, s, st)
	wantSame(t, s, st)
	mustRemove(t, s, st)
	if out := look(t, pod, "sh", "-c", show); strings.Contains(out, "10.1.0.2") {
		t.Errorf("the address is still there:\n%s", out)
	}
}

func TestErrorNamesTheObject(t *testing.T) {
	t.Parallel()
	k := testKernel(t)
	for _, tc := range []struct {
		name, want string
		brk        func(st *netstate.State)
	}{
		{"master", "host link " + testOwner(1).HostName("veth") + ": set master none0: host link none0: does not exist",
			func(st *netstate.State) { st.Links[1].Master = "none0" }},
		{"pod-link", "pod link lo: already exists", func(st *netstate.State) {
			st.Links[2].Name, st.Links[1].Peer = "lo", "lo"
			st.Addrs, st.Routes = nil, nil
		}},
		{"sysctl", "pod sysctl net/ipv4/conf/eth0/no_such: does not exist", func(st *netstate.State) {
			st.Sysctls = []netstate.Sysctl{{Place: netstate.Pod, Name: "net/ipv4/conf/eth0/no_such", Value: "1"}}
		}},
		{"sysctl-value", "pod sysctl net/ipv4/ip_forward: write x: invalid argument", func(st *netstate.State) {
			st.Sysctls = []netstate.Sysctl{{Place: netstate.Pod, Name: "net/ipv4/ip_forward", Value: "x"}}
		}},
		{"route", "pod route 0.0.0.0/0 dev eth0: network is unreachable (kernel: Nexthop has invalid gateway)", func(st *netstate.State) {
			st.Routes[0].Via = netip.MustParseAddr("192.0.2.1")
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			st := bridgeState(1)
			tc.brk(&st)
			err := openPod(t, k, sandbox.Namespace(t)).Apply(t.Context(), st)
			if err == nil || err.Error() != tc.want {
				t.Errorf("Apply = %v\nwant    %s", err, tc.want)
			}
			wantGone(t, k, st)
		})
	}
}

func TestIPv6IsOff(t *testing.T) {
	t.Parallel()
	k := testKernel(t)
	pod := sandbox.Namespace(t)
	look(t, pod, "sh", "-c", "echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6")
	st := bridgeState(1)
	s := openPod(t, k, pod)
	both := st
	addIPv6(&both, false)
	if err := s.Apply(t.Context(), both); !errors.Is(err, errNoIPv6) {
		t.Errorf("Apply with IPv6 = %v, want %v", err, errNoIPv6)
	}
	st.Links[2].NoIPv6 = true
	mustMake(t, s, st)
}

// A value that can only be written is an order.
func TestOrders(t *testing.T) {
	t.Parallel()
	k := testKernel(t)
	s := openPod(t, k, sandbox.Namespace(t))
	st := netstate.State{Sysctls: []netstate.Sysctl{{Place: netstate.Pod, Name: "net/ipv4/route/flush", Value: "1"}}}
	mustMake(t, s, st)
	wantSame(t, s, st)
}

func TestUplink(t *testing.T) {
	t.Parallel()
	k := testKernel(t)
	s := openPod(t, k, nil)
	uplink := func() string {
		t.Helper()
		f, err := s.Observe(t.Context(), netstate.Query{Uplink: true})
		if err != nil {
			t.Fatal(err)
		}
		return f.Uplink.Name
	}
	if got := uplink(); got != "" {
		t.Errorf("uplink %q without a default route", got)
	}
	for i := range 3 {
		name := fmt.Sprintf("up%d", i)
		look(t, k.host.ns, "ip", "link", "add", name, "mtu", fmt.Sprint(1400+i), "type", "veth", "peer", "name", name+"p")
		look(t, k.host.ns, "ip", "link", "set", name, "up")
		look(t, k.host.ns, "ip", "link", "set", name+"p", "up")
	}
	look(t, k.host.ns, "ip", "-6", "route", "add", "default", "dev", "up0")
	if got := uplink(); got != "up0" {
		t.Errorf("uplink %q, want the one of IPv6", got)
	}
	look(t, k.host.ns, "ip", "route", "add", "default", "dev", "up1", "metric", "200")
	look(t, k.host.ns, "ip", "route", "add", "default", "dev", "up2", "metric", "100")
	look(t, k.host.ns, "ip", "route", "add", "default", "dev", "up0", "table", "99")
	if got := uplink(); got != "up2" {
		t.Errorf("uplink %q, want the one with the lowest metric", got)
	}
}

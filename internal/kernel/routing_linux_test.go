package kernel

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/internal/sandbox"
	"github.com/cleat-cni/cleat/netstate"
)

// TestHops: of a route with several hops each link has its own, and when it must not be there the others stay, which of IPv4 can't be.
func TestHops(t *testing.T) {
	t.Parallel()
	pod := sandbox.Namespace(t)
	s := openPod(t, testKernel(t), pod)
	for _, line := range []string{
		"ip link add eth0 type veth peer name peer0", "ip link add eth1 type veth peer name peer1",
		"ip link set eth0 up", "ip link set peer0 up", "ip link set eth1 up", "ip link set peer1 up",
		"ip addr add 10.1.0.2/24 dev eth0", "ip addr add 10.2.0.2/24 dev eth1",
		"ip addr add fd01::2/64 dev eth0 nodad", "ip addr add fd02::2/64 dev eth1 nodad",
		"ip route add 192.0.2.0/24 nexthop via 10.1.0.1 dev eth0 nexthop via 10.2.0.1 dev eth1",
		"ip route add 198.51.100.0/24 nexthop via 10.2.0.1 dev eth1 nexthop via 10.2.0.9 dev eth1",
		"ip -6 route add default via fd01::1 dev eth0", "ip -6 route append default via fd02::1 dev eth1",
	} {
		words := strings.Fields(line)
		look(t, pod, words[0], words[1:]...)
	}
	ref := netstate.Ref{Place: netstate.Pod, Name: "eth1"}
	seen, err := s.Observe(t.Context(), netstate.Query{Routing: []netstate.Ref{ref}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	absent := netstate.State{Owner: testOwner(1)}
	for _, r := range seen.Routes {
		if !r.Connected {
			got = append(got, r.Dst.String()+" via "+r.Via.String())
			absent.Routes = append(absent.Routes, netstate.Route{Place: netstate.Pod, Dst: r.Dst, Dev: r.Dev, Priority: r.Priority, Absent: true})
		}
	}
	want := []string{"192.0.2.0/24 via 10.2.0.1", "198.51.100.0/24 via 10.2.0.1", "198.51.100.0/24 via 10.2.0.9", "::/0 via fd02::1"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("routes over eth1 (-want +got)\n%s", diff)
	}
	before := look(t, pod, "ip", "route") + look(t, pod, "ip", "-6", "route")
	failing := absent
	failing.Sysctls = []netstate.Sysctl{{Place: netstate.Pod, Name: "net/ipv4/conf/none/arp_notify", Value: "1", AfterUp: true}}
	if err := s.Apply(t.Context(), failing); err == nil {
		t.Error("a value of no link was set")
	}
	if diff := cmp.Diff(before, look(t, pod, "ip", "route")+look(t, pod, "ip", "-6", "route")); diff != "" {
		t.Errorf("after the undo (-want +got)\n%s", diff)
	}
	mustMake(t, s, absent)
	after := look(t, pod, "ip", "route") + look(t, pod, "ip", "-6", "route")
	wantWords(t, after, "192.0.2.0/24", "default via fd01::1 dev eth0", "nexthop via 10.2.0.1 dev eth1")
	if strings.Contains(after, "198.51.100.0") || strings.Contains(after, "fd02::1") {
		t.Errorf("what must not be there is:\n%s", after)
	}
}

// TestRulesThatDoMore: a rule that does more than look up a table by addresses is nobody's to be taken for ours.
func TestRulesThatDoMore(t *testing.T) {
	t.Parallel()
	pod := sandbox.Namespace(t)
	s := openPod(t, testKernel(t), pod)
	plain := netstate.Rule{Place: netstate.Pod, From: netip.MustParsePrefix("10.1.0.2/32"), Table: 7}
	for i, more := range []string{"iif lo", "oif lo", "fwmark 5", "tos 0x10", "ipproto tcp", "sport 5", "dport 5", "uidrange 0-5", "suppress_prefixlength 0", "to 10.2.0.0/16"} {
		words := append(strings.Fields("ip rule add from 10.1.0.2 table 7"), strings.Fields(more)...)
		if i%2 == 0 {
			words = append(words, "priority", "77")
		}
		look(t, pod, words[0], words[1:]...)
	}
	look(t, pod, "ip", "rule", "add", "not", "from", "10.1.0.2", "table", "7")
	seen, err := s.Observe(t.Context(), netstate.Query{Routing: []netstate.Ref{{Place: netstate.Pod, Name: "eth0"}}})
	if err != nil {
		t.Fatal(err)
	}
	want := []netstate.Rule{{Place: netstate.Pod, From: plain.From, To: netip.MustParsePrefix("10.2.0.0/16"), Table: 7}}
	for i := range seen.Rules {
		seen.Rules[i].Priority = 0
	}
	if diff := cmp.Diff(want, seen.Rules, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
		t.Errorf("rules (-want +got)\n%s", diff)
	}
	diffs, err := s.Diff(t.Context(), netstate.State{Rules: []netstate.Rule{plain}})
	if err != nil || len(diffs) != 1 {
		t.Errorf("the plain rule is taken to be there: %v, %v", diffs, err)
	}
}

package kernel

import (
	"strings"
	"testing"

	"github.com/cleat-cni/cleat/internal/sandbox"
	"github.com/cleat-cni/cleat/netstate"
)

// bandwidthState limits an attachment's link in both directions.
func bandwidthState(n int) netstate.State {
	st := bridgeState(n)
	host, ifb := st.Owner.HostName("veth"), st.Owner.HostName("bwp")
	st.Links = append(st.Links, netstate.Link{Place: netstate.Host, Name: ifb, Kind: "ifb", MTU: 1500})
	tbf := netstate.Qdisc{Place: netstate.Host, Kind: "tbf", Handle: 0x10000, Rate: 1e6, Burst: 30000, Limit: 60000}
	down, up := tbf, tbf
	down.Dev, up.Dev = host, ifb
	up.Rate = 40e9 // more than 32 bits hold
	st.Qdiscs = []netstate.Qdisc{down, {Place: netstate.Host, Dev: host, Kind: "ingress"}, up}
	st.Filters = []netstate.Filter{{Place: netstate.Host, Dev: host, To: ifb}}
	return st
}

func TestBandwidth(t *testing.T) {
	t.Parallel()
	k := testKernel(t)
	pod := sandbox.Namespace(t)
	s := openPod(t, k, pod)
	st := bandwidthState(1)
	mustMake(t, s, st)
	wantSame(t, s, st)
	host, ifb := st.Owner.HostName("veth"), st.Owner.HostName("bwp")
	wantWords(t, look(t, k.host.ns, "tc", "qdisc", "show", "dev", host), "tbf 1:", "rate 8Mbit", "burst 30000b", "ingress ffff:")
	wantWords(t, look(t, k.host.ns, "tc", "qdisc", "show", "dev", ifb), "rate 320Gbit")
	look(t, pod, "ping", "-c1", "-W2", testGateway.Addr().String())
	wantWords(t, look(t, k.host.ns, "tc", "-s", "filter", "show", "dev", host, "ingress"), "mirred (Egress Redirect to device "+ifb+")")
	look(t, k.host.ns, "tc", "qdisc", "del", "dev", host, "ingress")
	look(t, k.host.ns, "tc", "qdisc", "change", "dev", host, "root", "handle", "1:", "tbf", "rate", "16mbit", "burst", "30000", "limit", "60000")
	diffs, err := s.Diff(t.Context(), st)
	if err != nil || len(diffs) != 3 {
		t.Errorf("differences %v, %v; want rate, ingress, filter", diffs, err)
	}
	// The limits alone: the link stays.
	limits := netstate.State{Owner: st.Owner, Links: st.Links[3:], Qdiscs: st.Qdiscs, Filters: st.Filters}
	for range 2 {
		mustRemove(t, s, limits)
	}
	if out := look(t, k.host.ns, "tc", "qdisc", "show", "dev", host); strings.Contains(out, "tbf") {
		t.Errorf("tbf is still there:\n%s", out)
	}
	if out := look(t, k.host.ns, "ip", "-br", "link"); strings.Contains(out, ifb) || !strings.Contains(out, host) {
		t.Errorf("links after the limits were removed:\n%s", out)
	}
}

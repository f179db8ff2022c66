package kernel

import (
	"slices"
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

// TestTokenBuckets: what is asked for is found again, from the slowest rate to the fastest, and what is a little different is not.
func TestTokenBuckets(t *testing.T) {
	t.Parallel()
	k := testKernel(t)
	s := openPod(t, k, sandbox.Namespace(t))
	name := testOwner(1).HostName("bwp")
	link := netstate.State{Owner: testOwner(1), Links: []netstate.Link{{Place: netstate.Host, Name: name, Kind: "ifb"}}}
	for _, tc := range []struct {
		name  string
		rate  uint64
		burst uint32
	}{
		{"slowest", 1, 1514},
		{"slowest-large-burst", 1, 1<<32 - 2},
		{"slow", 125, 1514},
		{"ticks-wrap", 1000, 300_000_000},
		{"megabit", 125_000, 1514},
		{"gigabit", 125_000_000, 1 << 20},
		{"odd", 12_345_678, 98_765},
		{"below-32-bits", 1<<32 - 1, 1 << 24},
		{"32-bits", 1 << 32, 1 << 24},
		{"largest-burst", 1 << 40, 1<<32 - 2},
		{"fastest", 1<<61 - 1, 1<<32 - 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			st := link
			st.Qdiscs = []netstate.Qdisc{{Place: netstate.Host, Dev: name, Kind: "tbf", Handle: 0x10000, Rate: tc.rate, Burst: tc.burst, Limit: 1<<32 - 1}}
			mustMake(t, s, st)
			wantSame(t, s, st)
			for what, change := range map[string]func(*netstate.Qdisc){
				"rate":  func(q *netstate.Qdisc) { q.Rate += max(1, q.Rate/1000) },
				"limit": func(q *netstate.Qdisc) { q.Limit-- },
			} {
				other := st
				other.Qdiscs = slices.Clone(st.Qdiscs)
				change(&other.Qdiscs[0])
				if diffs, err := s.Diff(t.Context(), other); err != nil || len(diffs) != 1 {
					t.Errorf("another %s: differences %v, %v", what, diffs, err)
				}
			}
			other := st
			other.Qdiscs = slices.Clone(st.Qdiscs)
			other.Qdiscs[0].Burst -= other.Qdiscs[0].Burst / 50
			diffs, err := s.Diff(t.Context(), other)
			// A burst of less than some ticks can't be told from another, nor one of so many that the low 32 bits say little.
			ticks := float64(tc.burst) * 1e9 / 64 / float64(tc.rate)
			if told := ticks > 200 && ticks < 1<<50; err != nil || told && len(diffs) != 1 {
				t.Errorf("another burst: differences %v, %v", diffs, err)
			}
			mustRemove(t, s, st)
		})
	}
}

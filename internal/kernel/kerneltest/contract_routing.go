package kerneltest

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/netstate"
)

// unfiltered is an attachment without what needs nftables, which not every kernel has that has other things.
func unfiltered(n int) netstate.State {
	s := attachment(n)
	s.Tables, s.Elements = nil, nil
	return s
}

// sourceRouting moves what the pod of an attachment reaches over eth0 to a table of its own, for both families.
func sourceRouting(s netstate.State, table int) netstate.State {
	out := netstate.State{Owner: s.Owner}
	for _, a := range s.Addrs {
		if a.Place != netstate.Pod {
			continue
		}
		ip := a.Prefix.Addr()
		subnet, _ := a.SubnetRoute()
		kept, gone := subnet, subnet
		kept.Connected, gone.Connected = false, false
		kept.Table, gone.Absent = table, true
		out.Routes = append(out.Routes, kept, gone)
		out.Rules = append(out.Rules, netstate.Rule{Place: netstate.Pod, From: netip.PrefixFrom(ip, ip.BitLen()), Table: table})
	}
	for _, r := range s.Routes {
		kept, gone := r, r
		kept.Table, gone.Absent = table, true
		out.Routes = append(out.Routes, kept, gone)
	}
	return out
}

// testRouting: routes are seen in all tables, and are moved from one to another.
func testRouting(t *testing.T, f Fixture) {
	pod := f.NewPod()
	s := unfiltered(1)
	f.apply(t, pod, s)
	wantRouting(t, f, pod, []string{
		"pod  route 0.0.0.0/0 via 10.88.0.1 dev eth0 table 254",
		"pod  route 10.88.0.0/16 dev eth0 src 10.88.0.2 table 254 scope 253 connected",
		"pod  route ::/0 via fd00:88::1 dev eth0 table 254 priority 1024",
		"pod  route fd00:88::/64 dev eth0 table 254 priority 256 connected",
	}, []int{253, 254, 255})
	moved := sourceRouting(s, 100)
	for _, r := range moved.Routes {
		if r.Absent {
			f.expect(t, pod, netstate.State{Owner: s.Owner, Routes: []netstate.Route{r}}, r.Key())
		}
	}
	f.apply(t, pod, moved)
	f.expect(t, pod, moved)
	wantRouting(t, f, pod, []string{
		"pod  route 0.0.0.0/0 via 10.88.0.1 dev eth0 table 100",
		"pod  route 10.88.0.0/16 dev eth0 src 10.88.0.2 table 100 scope 253",
		"pod  route ::/0 via fd00:88::1 dev eth0 table 100 priority 1024",
		"pod  route fd00:88::/64 dev eth0 table 100 priority 256",
		"pod  rule priority 32765 from 10.88.0.2/32 table 100",
		"pod  rule priority 32765 from fd00:88::2/128 table 100",
	}, []int{100, 253, 254, 255})

	// By itself the first state misses its routes, unless it allows for them to be elsewhere.
	missing := []string{"pod  addr 10.88.0.2/16 dev eth0", "pod  addr fd00:88::2/64 dev eth0", s.Routes[0].Key(), s.Routes[1].Key()}
	f.expect(t, pod, s, missing...)
	anywhere := s
	anywhere.Addrs, anywhere.Routes = slices.Clone(s.Addrs), slices.Clone(s.Routes)
	for i := range anywhere.Addrs {
		anywhere.Addrs[i].AnyTable = true
	}
	for i := range anywhere.Routes {
		anywhere.Routes[i].AnyTable = true
	}
	f.expect(t, pod, anywhere)
	f.expect(t, pod, netstate.Merge(s, moved))
	f.remove(t, pod, moved, false)
	f.expect(t, pod, netstate.State{Owner: s.Owner, Rules: moved.Rules}, moved.Rules[0].Key(), moved.Rules[1].Key())
}

// wantRouting compares what is seen of the routing over eth0. What the kernel makes for link-local addresses is not looked at.
func wantRouting(t *testing.T, f Fixture, pod string, want []string, tables []int) {
	t.Helper()
	s := f.open(t, pod)
	seen, err := s.Observe(t.Context(), netstate.Query{Routing: []netstate.Ref{{Place: netstate.Pod, Name: "eth0"}, {Place: netstate.Pod, Name: "none"}}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range seen.Routes {
		if r.Dst.Addr().IsLinkLocalUnicast() {
			continue
		}
		r.Priority = r.Metric()
		line := r.String()
		if r.Connected {
			line += " connected"
		}
		got = append(got, line)
	}
	for _, r := range seen.Rules {
		got = append(got, r.String())
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("routing (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(tables, seen.UsedTables); diff != "" {
		t.Errorf("tables (-want +got)\n%s", diff)
	}
}

// testRoutingMerged: what one plugin makes and the next moves is made in its place at once.
func testRoutingMerged(t *testing.T, f Fixture) {
	pod := f.NewPod()
	s := unfiltered(1)
	all := netstate.Merge(s, sourceRouting(s, 100))
	for _, r := range all.Routes {
		if r.Table == 0 && !r.Absent {
			t.Errorf("%s is made to be moved", r)
		}
	}
	f.apply(t, pod, all)
	f.expect(t, pod, all)
	wantRouting(t, f, pod, []string{
		"pod  route 0.0.0.0/0 via 10.88.0.1 dev eth0 table 100",
		"pod  route 10.88.0.0/16 dev eth0 src 10.88.0.2 table 100 scope 253",
		"pod  route ::/0 via fd00:88::1 dev eth0 table 100 priority 1024",
		"pod  route fd00:88::/64 dev eth0 table 100 priority 256",
		"pod  rule priority 32765 from 10.88.0.2/32 table 100",
		"pod  rule priority 32765 from fd00:88::2/128 table 100",
	}, []int{100, 253, 254, 255})
}

// testRoutingUndone: routes that had to go are back when a later step fails, with all that they had.
func testRoutingUndone(t *testing.T, f Fixture) {
	pod := f.NewPod()
	s := unfiltered(1)
	s.Routes[0].MTU, s.Routes[0].AdvMSS = 1300, 1200
	s.Routes[1].MTU = 1300
	f.apply(t, pod, s)
	before := f.texts(pod)
	moved := sourceRouting(s, 100)
	moved.Sysctls = []netstate.Sysctl{{Place: netstate.Pod, Name: "net/ipv4/conf/none/arp_notify", Value: "1", AfterUp: true}}
	if err := f.try(t, pod, moved); err == nil {
		t.Fatal("a value of no link was set")
	}
	f.same(t, before, pod)
	f.expect(t, pod, s)
}

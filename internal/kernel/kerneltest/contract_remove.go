package kerneltest

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/netstate"
)

func testDiff(t *testing.T, f Fixture) {
	pod := f.NewPod()
	want := attachment(1)
	var all []string
	for _, o := range want.Objects() {
		all = append(all, o.Key())
	}
	// What nobody made is missing; a sysctl may have the value by itself.
	missing := f.differences(t, pod, want)
	for _, key := range all {
		if !slices.Contains(missing, key) && !strings.Contains(key, "ip_forward") {
			t.Errorf("before Apply, Diff does not name %s", key)
		}
	}
	f.apply(t, pod, want)
	f.expect(t, pod, want)

	f.DelRoute(pod, default4)
	s := f.open(t, pod)
	got, err := s.Diff(t.Context(), want)
	if err != nil {
		t.Fatal(err)
	}
	route := want.Routes[0]
	if diff := gocmp.Diff([]netstate.Difference{{Object: route.Key(), Want: route.String()}}, got); diff != "" {
		t.Errorf("after the route was deleted (-want +got)\n%s", diff)
	}

	f.DelLink(pod, "eth0")
	gone := f.differences(t, pod, want)
	for _, o := range []netstate.Object{want.Links[1], want.Links[2], want.Addrs[2], want.Addrs[3], want.Routes[0], want.Routes[1]} {
		if !slices.Contains(gone, o.Key()) {
			t.Errorf("after the link was deleted, Diff does not name %s", o.Key())
		}
	}
	for _, o := range []netstate.Object{want.Links[0], want.Addrs[0], want.Tables[0], want.Elements[0]} {
		if slices.Contains(gone, o.Key()) {
			t.Errorf("after the link was deleted, Diff names %s, which is there", o.Key())
		}
	}
}

// testDiffChanges compares what is there with a state that wants it otherwise.
func testDiffChanges(t *testing.T, f Fixture) {
	pod := f.NewPod()
	f.apply(t, pod, attachment(1))
	for _, tc := range []struct {
		name   string
		change func(s *netstate.State) netstate.Object // returns what is to be named
	}{
		{"mtu", func(s *netstate.State) netstate.Object { s.Links[2].MTU = 1500; return s.Links[2] }},
		{"mac", func(s *netstate.State) netstate.Object { s.Links[2].MAC = "0a:58:0a:58:00:99"; return s.Links[2] }},
		{"down", func(s *netstate.State) netstate.Object { s.Links[2].Down = true; return s.Links[2] }},
		{"hairpin", func(s *netstate.State) netstate.Object { s.Links[1].Port.Hairpin = false; return s.Links[1] }},
		{"isolated", func(s *netstate.State) netstate.Object { s.Links[1].Port.Isolated = true; return s.Links[1] }},
		{"master", func(s *netstate.State) netstate.Object { s.Links[1].Master = "cni7"; return s.Links[1] }},
		{"promisc", func(s *netstate.State) netstate.Object { s.Links[0].Promisc = true; return s.Links[0] }},
		{"gateway", func(s *netstate.State) netstate.Object {
			s.Routes[0].Via = netip.MustParseAddr("10.88.0.77")
			return s.Routes[0]
		}},
		{"route-mtu", func(s *netstate.State) netstate.Object { s.Routes[0].MTU = 1300; return s.Routes[0] }},
		{"route-table", func(s *netstate.State) netstate.Object { s.Routes[0].Table = 77; return s.Routes[0] }},
		{"addr-length", func(s *netstate.State) netstate.Object {
			s.Addrs[2].Prefix = netip.PrefixFrom(s.Addrs[2].Prefix.Addr(), 24)
			return s.Addrs[2]
		}},
		{"sysctl", func(s *netstate.State) netstate.Object { s.Sysctls[1].Value = "0"; return s.Sysctls[1] }},
		{"element-data", func(s *netstate.State) netstate.Object {
			s.Elements[0].Data = []string{"10.88.0.2", "81"}
			return s.Elements[0]
		}},
		{"element-owner", func(s *netstate.State) netstate.Object {
			s.Elements[0].Owner = attachment(2).Owner
			return s.Elements[0]
		}},
		{"set-more", func(s *netstate.State) netstate.Object {
			s.Tables[0].Sets = append(s.Tables[0].Sets, netstate.Set{Name: "more", Key: []string{"ether_addr"}})
			return netstate.TableSet{Family: "inet", Table: "cleat", Set: s.Tables[0].Sets[2]}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			want := attachment(1)
			o := tc.change(&want)
			f.expect(t, pod, want, o.Key())
		})
	}
}

func testRemove(t *testing.T, f Fixture) {
	pods := []string{f.NewPod(), f.NewPod()}
	f.apply(t, pods[0], attachment(1))
	before := f.texts(pods...)
	f.apply(t, pods[1], attachment(2))
	if f.texts(pods...) == before {
		t.Fatal("an independent look finds nothing new")
	}
	for range 2 { // the second time there is nothing to remove
		f.remove(t, pods[1], attachment(2), true)
		f.same(t, before, pods...)
	}
	f.expect(t, pods[0], attachment(1))
	f.apply(t, pods[1], attachment(2)) // nothing is in the way
}

func testRemovePodGone(t *testing.T, f Fixture) {
	f.apply(t, f.NewPod(), attachment(1))
	before := f.texts()
	for _, tc := range []struct {
		name string
		gone bool // the pod is gone; else it is only not said
	}{{"gone", true}, {"not-said", false}} {
		t.Run(tc.name, func(t *testing.T) {
			pod := f.NewPod()
			f.apply(t, pod, attachment(2))
			if tc.gone {
				f.RemovePod(pod)
			}
			f.remove(t, "", attachment(2), true)
			f.same(t, before)
			f.remove(t, "", attachment(2), true)
		})
	}
}

// A link of the pod that has the name of ours, and even our address, but that we did not make.
func testRemoveForeign(t *testing.T, f Fixture) {
	f.apply(t, f.NewPod(), attachment(1))
	pod := f.NewPod()
	want := attachment(2)
	f.AddBridge(pod, "eth0")
	f.AddAddr(pod, "eth0", want.Addrs[2].Prefix)
	before := f.texts(pod)
	f.remove(t, pod, want, true)
	f.same(t, before, pod)
	if err := f.try(t, pod, want); !errors.Is(err, netstate.ErrExist) {
		t.Errorf("Apply = %v, want %v", err, netstate.ErrExist)
	}
	f.same(t, before, pod)
}

// The pod's link of the name is another attachment's of ours.
func testRemoveOtherOwner(t *testing.T, f Fixture) {
	pod := f.NewPod()
	f.apply(t, pod, attachment(1))
	before := f.texts(pod)
	other := attachmentOf(netstate.Owner{Network: "other", ContainerID: "c1", IfName: "eth0"}, 1)
	f.remove(t, pod, other, true)
	f.same(t, before, pod)
}

// A link of the host that has the name which the plan says, but another's alias or none: only the owner's is
// removed.
func testRemoveHostTwin(t *testing.T, f Fixture) {
	f.AddBridge("", "br7")
	before := f.texts()
	want := netstate.State{Owner: attachment(1).Owner, Links: []netstate.Link{{Place: netstate.Host, Name: "br7", Kind: "bridge"}}}
	f.remove(t, "", want, true)
	f.same(t, before)
	if err := f.try(t, "", want); !errors.Is(err, netstate.ErrExist) {
		t.Errorf("Apply = %v, want %v", err, netstate.ErrExist)
	}
	f.same(t, before)
}

func testElementConflict(t *testing.T, f Fixture) {
	pods := []string{f.NewPod(), f.NewPod()}
	first, second := attachment(1), attachment(2)
	second.Elements = append(second.Elements, published(second.Owner, 8001, netip.MustParseAddr("10.88.0.3")))
	f.apply(t, pods[0], first)
	before := f.texts(pods...)
	err := f.try(t, pods[1], second)
	if !errors.Is(err, netstate.ErrInUse) {
		t.Fatalf("Apply = %v, want %v", err, netstate.ErrInUse)
	}
	for _, word := range []string{first.Owner.Network, first.Owner.ContainerID, first.Owner.IfName, "8001"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("Apply = %q, which does not name %q", err, word)
		}
	}
	f.same(t, before, pods...)
	// It is not the other's to remove, named or swept.
	f.remove(t, pods[1], second, true)
	f.same(t, before, pods...)
	f.expect(t, "", onlyElements(first.Elements...))
}

// What another interface of the container has, stays, and is no difference; what that one leaves, the other can have.
func testElementBeside(t *testing.T, f Fixture) {
	pods := []string{f.NewPod(), f.NewPod()} // all that the two have in common here is the container's ID
	first := attachment(1)
	second := attachmentOf(netstate.Owner{Network: "other", ContainerID: first.Owner.ContainerID, IfName: "eth1"}, 2)
	lost := published(second.Owner, 8001, netip.MustParseAddr("10.88.0.3"))
	second.Elements = append(second.Elements, lost)
	f.apply(t, pods[0], first)
	before := f.texts(pods...)
	for range 2 {
		f.apply(t, pods[1], second)
		f.expect(t, pods[1], second)
		f.expect(t, pods[0], first)
		f.remove(t, pods[1], second, true)
		f.same(t, before, pods...)
	}
	f.apply(t, pods[1], second)
	f.remove(t, pods[0], first, true)
	f.expect(t, pods[1], second, lost.Key())
	f.apply(t, "", onlyElements(lost))
	f.expect(t, pods[1], second)
}

func testElementDeadOwner(t *testing.T, f Fixture) {
	pods := []string{f.NewPod(), f.NewPod()}
	first, second := attachment(1), attachment(2)
	second.Elements = append(second.Elements, published(second.Owner, 8001, netip.MustParseAddr("10.88.0.3")))
	f.apply(t, pods[0], first)
	f.DelLink("", first.Owner.HostName("veth"))
	f.expect(t, "", onlyElements(first.Elements...))
	f.apply(t, pods[1], second)
	f.expect(t, pods[1], second)
	f.remove(t, pods[0], first, true)
	f.expect(t, pods[1], second)
	f.expect(t, "", onlyElements(first.Elements...), first.Elements[0].Key(), first.Elements[1].Key())
}

// A dead owner's element that was replaced is back when a later step fails.
func testElementUndone(t *testing.T, f Fixture) {
	pods := []string{f.NewPod(), f.NewPod()}
	first, second := attachment(1), attachment(2)
	f.apply(t, pods[0], first)
	f.DelLink("", first.Owner.HostName("veth"))
	before := f.texts(pods...)
	second.Elements = append(second.Elements, published(second.Owner, 8001, netip.MustParseAddr("10.88.0.3")))
	second.Routes = append(second.Routes, netstate.Route{Place: netstate.Host, Dst: netip.MustParsePrefix("198.51.100.0/24"),
		Via: netip.MustParseAddr("203.0.113.1"), Dev: bridge})
	if err := f.try(t, pods[1], second); err == nil {
		t.Error("a route through an unreachable gateway was made")
	}
	f.same(t, before, pods...)
	f.expect(t, "", onlyElements(first.Elements...))
}

func testElementNetNS(t *testing.T, f Fixture) {
	pod := f.NewPod()
	first, second := attachment(1), attachment(2)
	mine, yours := first.Elements[0], second.Elements[0]
	mine.Lives, yours.Match = "netns "+pod, mine.Match
	state := func(e netstate.Element) netstate.State {
		return netstate.State{Owner: e.Owner, Tables: []netstate.Table{table()}, Elements: []netstate.Element{e}}
	}
	f.apply(t, "", state(mine))
	if err := f.try(t, "", state(yours)); !errors.Is(err, netstate.ErrInUse) {
		t.Fatalf("Apply = %v, want %v", err, netstate.ErrInUse)
	}
	f.RemovePod(pod)
	f.apply(t, "", state(yours))
	f.expect(t, "", state(yours))
}

func testSweep(t *testing.T, f Fixture) {
	pods := []string{f.NewPod(), f.NewPod()}
	want := attachment(2)
	extra := published(want.Owner, 9000, netip.MustParseAddr("10.88.0.3"))
	full := want
	full.Elements = append(slices.Clone(want.Elements), extra)
	f.apply(t, pods[0], attachment(1))
	before := f.texts(pods...)
	f.apply(t, pods[1], full)
	f.remove(t, pods[1], want, false)
	f.expect(t, "", onlyElements(extra))
	f.remove(t, pods[1], want, true)
	f.same(t, before, pods...)
}

func testCollect(t *testing.T, f Fixture) {
	other := attachmentOf(netstate.Owner{Network: "other", ContainerID: "c9", IfName: "eth0"}, 9)
	pods := []string{f.NewPod(), f.NewPod(), f.NewPod(), f.NewPod()}
	f.apply(t, pods[0], attachment(1))
	f.apply(t, pods[1], other)
	before := f.texts(pods[:3]...)
	f.apply(t, pods[2], attachment(2))
	f.apply(t, pods[3], attachment(3))
	f.RemovePod(pods[3]) // its elements stay behind
	pods = pods[:3]
	valid := []netstate.Owner{attachment(1).Owner, {Network: network, ContainerID: "unknown", IfName: "eth0"}}

	full := f.texts(pods...)
	would := f.collect(t, valid, true)
	f.same(t, full, pods...)
	did := f.collect(t, valid, false)
	if diff := gocmp.Diff(would, did); diff != "" {
		t.Errorf("what a dry run names and what went (-dry +done)\n%s", diff)
	}
	f.same(t, before, pods...)
	f.expect(t, pods[0], attachment(1))

	marks := map[string]int{}
	for _, x := range did {
		marks[x.Mark]++
		if x.Object == "" {
			t.Errorf("no object: %+v", x)
		}
		if x.Owner.Network != network {
			t.Errorf("owner %v, want one of network %s", x.Owner, network)
		}
	}
	// A link and two elements; two elements.
	want := map[string]int{attachment(2).Owner.Mark(): 3, attachment(3).Owner.Mark(): 2}
	if diff := gocmp.Diff(want, marks); diff != "" {
		t.Errorf("objects by mark (-want +got)\n%s", diff)
	}
	if again := f.collect(t, valid, false); len(again) != 0 {
		t.Errorf("the second time there is still %v", again)
	}
}

func (f Fixture) collect(t *testing.T, valid []netstate.Owner, dryRun bool) []netstate.Freed {
	t.Helper()
	list, err := f.Kernel.Collect(t.Context(), network, valid, dryRun)
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(list, func(a, b netstate.Freed) int { return cmp.Compare(a.Object, b.Object) })
	return list
}

func testCollectNoneValid(t *testing.T, f Fixture) {
	if got := f.collect(t, nil, false); len(got) != 0 {
		t.Errorf("on an untouched host: %v", got)
	}
	pod := f.NewPod()
	f.apply(t, pod, attachment(1))
	f.remove(t, pod, attachment(1), false)
	before := f.texts(pod)
	f.apply(t, pod, attachment(1))
	if got := f.collect(t, nil, false); len(got) != 3 {
		t.Errorf("a link and two elements were to go: %v", got)
	}
	f.same(t, before, pod)
}

func testConcurrent(t *testing.T, f Fixture) {
	const n, rounds = 32, 3
	pods := make([]string, n)
	for i := range pods {
		pods[i] = f.NewPod()
	}
	f.apply(t, pods[0], attachment(1))
	f.remove(t, pods[0], attachment(1), false)
	before := f.texts(pods...)
	round := func(i int) error {
		s, err := f.Kernel.Open(t.Context(), pods[i], false)
		if err != nil {
			return err
		}
		defer s.Close()
		want := attachment(i + 1)
		if err := s.Apply(t.Context(), want); err != nil {
			return err
		}
		list, err := s.Diff(t.Context(), want)
		if err != nil || len(list) > 0 {
			return errors.Join(err, fmt.Errorf("differences: %v", list))
		}
		return s.Remove(t.Context(), want, true)
	}
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			for range rounds {
				if err := round(i); err != nil {
					t.Errorf("attachment %d: %v", i+1, err)
				}
			}
		})
	}
	wg.Wait()
	f.same(t, before, pods...)
}

// testConcurrentSame lets several make one attachment at once: one of them does, and what it
// made stands.
func testConcurrentSame(t *testing.T, f Fixture) {
	const n = 8
	pod := f.NewPod()
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = f.try(t, pod, attachment(1)) })
	}
	wg.Wait()
	made := 0
	for _, err := range errs {
		switch {
		case err == nil:
			made++
		case !errors.Is(err, netstate.ErrExist):
			t.Errorf("Apply = %v, want %v", err, netstate.ErrExist)
		}
	}
	if made != 1 {
		t.Errorf("%d of %d made it, want 1", made, n)
	}
	f.expect(t, pod, attachment(1))
}

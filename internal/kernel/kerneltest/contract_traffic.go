package kerneltest

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/netstate"
)

// testPeers: the other end of a pod's veth is told where it is asked for and on the host.
func testPeers(t *testing.T, f Fixture) {
	pod := f.NewPod()
	want := attachment(1)
	inside := netstate.State{Owner: want.Owner, Links: []netstate.Link{
		{Place: netstate.Pod, Name: "in0", Kind: "veth", Peer: "in1", PeerPlace: netstate.Pod},
		{Place: netstate.Pod, Name: "in1", Kind: "veth", Peer: "in0", PeerPlace: netstate.Pod},
	}}
	s := f.open(t, pod)
	for _, st := range []netstate.State{want, inside} {
		if err := s.Apply(t.Context(), st); err != nil {
			t.Fatal(err)
		}
	}
	host := want.Owner.HostName("veth")
	q := netstate.Query{Links: []netstate.Ref{{Place: netstate.Pod, Name: "eth0"}, {Place: netstate.Pod, Name: "in0"}, {Place: netstate.Pod, Name: "lo"}}}
	for _, tc := range []struct {
		name  string
		peers bool
		want  map[string]string // link and its peer
	}{
		{"not-asked", false, map[string]string{"pod  link eth0": "", "pod  link in0": "", "pod  link lo": ""}},
		{"asked", true, map[string]string{"pod  link eth0": "host " + host, "host link " + host: "", "pod  link in0": "", "pod  link lo": ""}},
	} {
		q.Peers = tc.peers
		facts, err := s.Observe(t.Context(), q)
		if err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		got := map[string]string{}
		for _, l := range facts.Links {
			got[l.Key()] = ""
			if l.Peer != "" {
				got[l.Key()] = string(l.PeerPlace) + " " + l.Peer
			}
			if l.Name == host && l.MTU != 1400 {
				t.Errorf("%s: the peer's mtu is %d", tc.name, l.MTU)
			}
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: links and peers (-want +got)\n%s", tc.name, diff)
		}
	}
}

// testImpostor: a pod's interface that only has the name of the right one, whose other end is another link, is not it.
func testImpostor(t *testing.T, f Fixture) {
	pod := f.NewPod()
	want, impostor := attachment(1), attachment(2)
	real := attachment(1)
	real.Links[1].Peer, real.Links[2].Name = "net1", "net1"
	impostor.Links[2].MAC = want.Links[2].MAC
	f.apply(t, pod, netstate.State{Owner: impostor.Owner, Links: impostor.Links})
	f.apply(t, pod, netstate.State{Owner: real.Owner, Links: real.Links})
	f.expect(t, pod, netstate.State{Owner: real.Owner, Links: real.Links})
	f.expect(t, pod, netstate.State{Owner: want.Owner, Links: want.Links}, want.Links[2].Key())
}

// testPodID: a namespace has one number, whoever asks, and no other has it; without one, or unasked, there is none.
func testPodID(t *testing.T, f Fixture) {
	ask := func(pod string, asked bool) string {
		t.Helper()
		facts, err := f.open(t, pod).Observe(t.Context(), netstate.Query{PodID: asked})
		if err != nil {
			t.Fatal(err)
		}
		return facts.PodID
	}
	one, two := f.NewPod(), f.NewPod()
	if a, again, b := ask(one, true), ask(one, true), ask(two, true); a != again || a == b && a != "" {
		t.Errorf("%q, again %q, another %q", a, again, b)
	}
	if id := ask(one, false) + ask("", true); id != "" {
		t.Errorf("%q, though it was not asked or there is no pod", id)
	}
}

// testLostRedirect: a filter outlives the interface that it leads to, and drops what it matches. It is told
// from one that is missing, so that it can be taken away.
func testLostRedirect(t *testing.T, f Fixture) {
	pod := f.NewPod()
	f.apply(t, pod, attachment(1))
	host := attachment(1).Owner.HostName("veth")
	limit := netstate.State{
		Owner:   attachment(1).Owner,
		Links:   []netstate.Link{{Place: netstate.Host, Name: "ifb1", Kind: "ifb"}},
		Qdiscs:  []netstate.Qdisc{{Place: netstate.Host, Dev: host, Kind: "ingress", Parent: ingressParent, Handle: ingressHandle}},
		Filters: []netstate.Filter{{Place: netstate.Host, Dev: host, To: "ifb1"}},
	}
	f.apply(t, pod, limit)
	f.DelLink(f.HostPath, "ifb1")
	s := f.open(t, pod)
	diffs, err := s.Diff(t.Context(), limit)
	if err != nil {
		t.Fatal(err)
	}
	lost := limit.Filters[0]
	lost.To = ""
	want := []netstate.Difference{
		{Object: limit.Links[0].Key(), Want: limit.Links[0].String()},
		{Object: limit.Filters[0].Key(), Want: limit.Filters[0].String(), Have: lost.String()},
	}
	if diff := cmp.Diff(want, diffs); diff != "" {
		t.Errorf("differences (-want +got)\n%s", diff)
	}
	filter := netstate.State{Owner: limit.Owner, Filters: limit.Filters}
	f.remove(t, pod, filter, false)
	limit.Qdiscs = nil
	f.apply(t, pod, limit)
	f.expect(t, pod, limit)
}

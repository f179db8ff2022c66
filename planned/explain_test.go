package planned_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/netstate"
	"github.com/cleat-cni/cleat/planned"
)

// TestExplainSaysWhatIsThere marks the objects of a plan: what nobody made, what there is, and what is in the way.
func TestExplainSaysWhatIsThere(t *testing.T) {
	w := newWorld(nil)
	ns := w.kernel.NewPod()
	explain := func() map[string]planned.Standing {
		t.Helper()
		steps := []planned.Step{{Def: wire(), Req: request(t, cni.VerbAdd, ns, withPool, nil)}, {Def: tag(), Req: request(t, cni.VerbAdd, ns, withPool, nil)}}
		plans, err := w.engine.ExplainList(t.Context(), steps)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]planned.Standing{}
		for _, p := range plans {
			for _, o := range p.State.Objects() {
				s, ok := p.Now[o.String()]
				if !ok {
					t.Errorf("nothing is said of %s", o)
				}
				got[kindOf(o)] = planned.Standing{Mark: s.Mark}
			}
		}
		return got
	}
	mark := func(m planned.Mark) planned.Standing { return planned.Standing{Mark: m} }
	want := map[string]planned.Standing{
		"host lease": mark(planned.Missing), "host link": mark(planned.Missing), "pod link": mark(planned.Missing),
		"pod addr": mark(planned.Missing), "pod route": mark(planned.Missing), "host nft table": mark(planned.Missing), "host nft element": mark(planned.Missing),
	}
	if diff := cmp.Diff(want, explain()); diff != "" {
		t.Errorf("before (-want +got):\n%s", diff)
	}
	session, err := w.kernel.Open(t.Context(), ns, false)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	others := netstate.State{
		Owner: netstate.Owner{Network: "other", ContainerID: "c2", IfName: "eth0"},
		Links: []netstate.Link{
			{Place: netstate.Host, Name: "veth2", Kind: "veth", Peer: "eth0", PeerPlace: netstate.Pod},
			{Place: netstate.Pod, Name: "eth0", Kind: "veth", Peer: "veth2", PeerPlace: netstate.Host},
		},
		Tables: []netstate.Table{{Family: "inet", Name: "cleat", Sets: []netstate.Set{{Name: "tags", Key: []string{"ipv4_addr"}}}}},
	}
	if err := session.Apply(t.Context(), others); err != nil {
		t.Fatal(err)
	}
	want["pod link"], want["host nft table"] = mark(planned.Conflicts), mark(planned.Exists)
	if diff := cmp.Diff(want, explain()); diff != "" {
		t.Errorf("with another's eth0 (-want +got):\n%s", diff)
	}
}

// kindOf is the place and the kind of an object.
func kindOf(o netstate.Object) string {
	if _, ok := o.(netstate.Element); ok {
		return "host nft element"
	}
	words := strings.Fields(o.Key())
	if words[1] == "nft" {
		return strings.Join(words[:3], " ")
	}
	return strings.Join(words[:2], " ")
}

func TestExplain(t *testing.T) {
	w := newWorld(nil)
	ns := w.kernel.NewPod()
	plans, err := w.engine.ExplainList(t.Context(), []planned.Step{{Def: wire(), Req: request(t, cni.VerbAdd, ns, withPool, nil)}})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{}
	for _, o := range plans[0].State.Objects() {
		got[strings.Join(strings.Fields(o.Key())[:2], " ")] = plans[0].Keys(o)
	}
	want := map[string][]string{
		"host lease": {"ipam"}, "host link": {"mtu"}, "pod link": {"mtu"}, "pod addr": {"ipam"}, "pod route": {"ipam"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if len(w.leases.held) > 0 {
		t.Errorf("an explanation took %v", w.leases.held)
	}
}

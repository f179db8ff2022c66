package planned_test

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/netstate"
	"github.com/cleat-cni/cleat/planned"
)

func TestRepair(t *testing.T) {
	owner := netstate.Owner{Network: "n", ContainerID: "c1", IfName: "eth0"}
	host := owner.HostName("veth")
	route := netstate.Route{Place: netstate.Pod, Dst: netip.MustParsePrefix("0.0.0.0/0"), Via: netip.MustParseAddr("10.1.0.1"), Dev: "eth0"}
	for _, tc := range []struct {
		name  string
		harm  func(t *testing.T, w *world, ns string)
		wrong int // how many objects CHECK misses at least
	}{
		{"nothing", func(*testing.T, *world, string) {}, 0},
		{"route", func(t *testing.T, w *world, ns string) {
			if err := w.kernel.DelRoute(ns, route); err != nil {
				t.Fatal(err)
			}
		}, 1},
		{"veth", func(t *testing.T, w *world, ns string) {
			if err := w.kernel.DelLink("", host); err != nil {
				t.Fatal(err)
			}
		}, 4},
		{"lease", func(t *testing.T, w *world, _ string) {
			if err := w.leases.Release(t.Context(), netstate.Pool{}, owner); err != nil {
				t.Fatal(err)
			}
		}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(nil)
			ns := w.kernel.NewPod()
			steps := func(verb cni.Verb, prev *cni.Result) []planned.Step {
				return []planned.Step{
					{Def: wire(), Req: request(t, verb, ns, withPool, prev)},
					{Def: tag(), Req: request(t, verb, ns, `{"cniVersion":"1.1.0","name":"n","type":"tag"}`, prev)},
				}
			}
			results, err := w.engine.AddList(t.Context(), steps(cni.VerbAdd, nil))
			if err != nil {
				t.Fatal(err)
			}
			before := w.kernel.Dump()
			tc.harm(t, w, ns)
			found, err := w.engine.Repair(t.Context(), steps(cni.VerbCheck, results[1]))
			if err != nil {
				t.Fatal(err)
			}
			if len(found) < tc.wrong || (tc.wrong == 0 && len(found) > 0) {
				t.Errorf("found %d differences, want %d: %+v", len(found), tc.wrong, found)
			}
			if diff := cmp.Diff(before, w.kernel.Dump()); diff != "" {
				t.Errorf("not as before (-before +after)\n%s", diff)
			}
			if got := w.leases.held[netip.MustParseAddr("10.1.0.2")]; got != owner {
				t.Errorf("lease of 10.1.0.2 is %v's", got)
			}
			for _, s := range steps(cni.VerbCheck, results[1]) {
				if err := w.engine.Plugin(s.Def).Check(t.Context(), s.Req); err != nil {
					t.Errorf("CHECK after repair: %v", err)
				}
			}
		})
	}
}

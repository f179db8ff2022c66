package planned_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/planned"
)

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

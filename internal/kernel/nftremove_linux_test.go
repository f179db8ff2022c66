package kernel

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/internal/sandbox"
	"github.com/cleat-cni/cleat/netstate"
)

func TestRemove(t *testing.T) {
	for _, tc := range []struct {
		name  string
		state func() netstate.State
		sweep bool
		want  []string
	}{
		{"named", func() netstate.State { return testState(1, 8001) }, false,
			[]string{"tcp . 8002", "tcp . 8003", "10.88.0.2"}},
		{"no-element", func() netstate.State {
			s := testState(1)
			s.Elements = s.Elements[:0]
			return s
		}, false, []string{"tcp . 8001", "tcp . 8002", "tcp . 8003", "10.88.0.1", "10.88.0.2"}},
		{"sweep", func() netstate.State {
			// Only the table is named: neither its sets nor its elements are known any more.
			return netstate.State{Owner: testOwner(1), Tables: []netstate.Table{{Family: "inet", Name: netstate.TableName}}}
		}, true, []string{"tcp . 8003", "10.88.0.2"}},
		{"another-s", func() netstate.State {
			s := testState(1, 8003)
			s.Elements = s.Elements[:1]
			return s
		}, false, []string{"tcp . 8001", "tcp . 8002", "tcp . 8003", "10.88.0.1", "10.88.0.2"}},
		{"missing", func() netstate.State { return testState(9, 8009) }, true,
			[]string{"tcp . 8001", "tcp . 8002", "tcp . 8003", "10.88.0.1", "10.88.0.2"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ns := sandbox.Namespace(t)
			r := openTestRuleset(t, ns)
			mustApply(t, r, testState(1, 8001, 8002))
			mustApply(t, r, testState(2, 8003))
			for range 2 { // the second time there is nothing to do
				if err := r.remove(t.Context(), tc.state(), tc.sweep); err != nil {
					t.Fatal(err)
				}
				wantElementsLeft(t, ns, tc.want...)
			}
		})
	}
}

func TestRemoveWithoutATable(t *testing.T) {
	ns := sandbox.Namespace(t)
	r := openTestRuleset(t, ns)
	for _, sweep := range []bool{false, true} {
		if err := r.remove(t.Context(), testState(1, 8080), sweep); err != nil {
			t.Errorf("sweep %v: %v", sweep, err)
		}
	}
	if transactions, _ := r.stats(); transactions != 0 {
		t.Errorf("%d transactions", transactions)
	}
}

func TestCollect(t *testing.T) {
	ns := sandbox.Namespace(t)
	r := openTestRuleset(t, ns)
	mustApply(t, r, testState(1, 8001))
	mustApply(t, r, testState(2, 8002))
	other := testState(3, 8003)
	other.Owner.Network = "other"
	for i := range other.Elements {
		other.Elements[i].Owner = other.Owner
	}
	mustApply(t, r, other)
	spoof := netstate.State{Owner: testOwner(2), Tables: []netstate.Table{{
		Family: "bridge", Name: netstate.TableName, Sets: []netstate.Set{{Name: "macs", Key: []string{"ifname", "ether_addr"}}},
	}}, Elements: []netstate.Element{{
		Family: "bridge", Table: netstate.TableName, Set: "macs", Match: []string{"veth2", "02:00:00:00:00:02"},
	}}}
	mustApply(t, r, spoof)

	mark := testOwner(2).Mark()
	freed := func(object string) netstate.Freed {
		return netstate.Freed{Object: "host nft table " + object + " owner " + mark, Mark: mark, Owner: testOwner(2)}
	}
	want := []netstate.Freed{
		freed("inet cleat map hostports4 element tcp . 8002 : 10.88.0.2 . 80"),
		freed("inet cleat set masq4 element 10.88.0.2"),
		freed("bridge cleat set macs element veth2 . 02:00:00:00:00:02"),
	}
	keep := map[string]bool{testOwner(1).Mark(): true}
	for _, dryRun := range []bool{true, false} {
		have, err := r.collect(t.Context(), "net", keep, dryRun)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, have); diff != "" {
			t.Errorf("dry run %v (-want +got):\n%s", dryRun, diff)
		}
	}
	wantElementsLeft(t, ns, "tcp . 8001", "10.88.0.1", "tcp . 8003", "10.88.0.3")
	if have, err := r.collect(t.Context(), "net", keep, false); err != nil || len(have) != 0 {
		t.Errorf("a second time: %v, %v", have, err)
	}
}

func TestCollectMany(t *testing.T) {
	ns := sandbox.Namespace(t)
	r := openTestRuleset(t, ns)
	const n = 1500
	for i := range n {
		mustApply(t, r, testState(1+i, 1+i))
	}
	have, err := r.collect(t.Context(), "net", map[string]bool{testOwner(7).Mark(): true}, false)
	if err != nil || len(have) != 2*(n-1) {
		t.Errorf("freed %d, want %d; %v", len(have), 2*(n-1), err)
	}
	wantElementsLeft(t, ns, "tcp . 7", "10.88.0.7")
}

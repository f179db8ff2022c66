package kerneltest

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/netstate"
)

// testModes: what a link takes and how much waits in it is set, seen, compared and set back; values are seen.
func testModes(t *testing.T, f Fixture) {
	pod := f.NewPod()
	f.apply(t, pod, attachment(1))
	s := f.open(t, pod)
	look := func() (l netstate.Link, value string) {
		t.Helper()
		facts, err := s.Observe(t.Context(), netstate.Query{
			Links:   []netstate.Ref{{Place: netstate.Pod, Name: "eth0"}},
			Sysctls: []netstate.Sysctl{{Place: netstate.Pod, Name: "net/ipv4/conf/eth0/arp_filter"}, {Place: netstate.Pod, Name: "net/ipv4/conf/eth7/arp_filter"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(facts.Sysctls) != 1 {
			t.Fatalf("values %v, want that of eth0", facts.Sysctls)
		}
		have, _ := facts.Link(netstate.Pod, "eth0")
		return netstate.Link{Promisc: have.Promisc, AllMulti: have.AllMulti, TxQLen: have.TxQLen}, facts.Sysctls[0].Value
	}
	before, value := look()
	if diff := cmp.Diff(netstate.Link{AllMulti: netstate.Off, TxQLen: 1000}, before); diff != "" || value != "0" {
		t.Errorf("before, arp_filter is %q (-want +got)\n%s", value, diff)
	}
	link := netstate.Link{Place: netstate.Pod, Name: "eth0"}
	tuned, back := link, link
	tuned.Promisc, tuned.AllMulti, tuned.TxQLen = true, netstate.On, netstate.NoQueue
	back.NoPromisc, back.AllMulti, back.TxQLen = true, netstate.Off, 1000
	for _, step := range []struct {
		want, other netstate.Link
		value       string
	}{{tuned, back, "1"}, {back, tuned, "0"}} {
		state := func(l netstate.Link) netstate.State {
			return netstate.State{Owner: attachment(1).Owner, Links: []netstate.Link{l},
				Sysctls: []netstate.Sysctl{{Place: netstate.Pod, Name: "net/ipv4/conf/eth0/arp_filter", Value: step.value}}}
		}
		for range 2 {
			f.apply(t, pod, state(step.want))
		}
		f.expect(t, pod, state(step.want))
		if diffs, err := s.Diff(t.Context(), state(step.other)); err != nil || len(diffs) != 1 {
			t.Errorf("compared with the other: %v, %v", diffs, err)
		}
		if _, value := look(); value != step.value {
			t.Errorf("arp_filter is %q, want %q", value, step.value)
		}
	}
	after, _ := look()
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("after setting back (-before +after)\n%s", diff)
	}
}

// testElementSeen: of the elements that are asked for those are seen that are there and the owner's, also where there is no table.
func testElementSeen(t *testing.T, f Fixture) {
	pod := f.NewPod()
	s := f.open(t, pod)
	made, other := attachment(1), attachment(2)
	foreign := slices.Clone(made.Elements)
	for i := range foreign {
		foreign[i].Owner = other.Owner
	}
	ask := func(list []netstate.Element) []netstate.Element {
		t.Helper()
		facts, err := s.Observe(t.Context(), netstate.Query{Tables: []netstate.Table{table()}, Elements: list})
		if err != nil {
			t.Fatal(err)
		}
		return facts.Elements
	}
	if got := ask(made.Elements); len(got) > 0 {
		t.Errorf("before: %v", got)
	}
	f.apply(t, pod, made)
	if diff := cmp.Diff(made.Elements, ask(slices.Concat(other.Elements, made.Elements))); diff != "" {
		t.Errorf("seen (-want +got)\n%s", diff)
	}
	if got := ask(foreign); len(got) > 0 {
		t.Errorf("another's: %v", got)
	}
}

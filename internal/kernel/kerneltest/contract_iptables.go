package kerneltest

import (
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

// Iptables is the part of the contract that is about iptables, which the real kernel keeps with the programs of one kind or
// another.
func Iptables(t *testing.T, newFixture func(t *testing.T) Fixture) {
	t.Helper()
	for _, tc := range []struct {
		name string
		run  func(t *testing.T, f Fixture)
	}{
		{"make-and-remove", testIptables},
		{"again", testIptablesAgain},
		{"chain-in-use", testIptablesInUse},
		{"chain-of-the-container", testIptablesBeside},
		{"chain-of-dead", testIptablesDead},
		{"chain-of-dead-undone", testIptablesDeadUndone},
		{"foreign-chain", testIptablesForeign},
		{"refused", testIptablesRefused},
		{"second-family-fails", testIptablesFamilies},
		{"forward", testIptablesForward},
		{"collect", testIptablesCollect},
		{"concurrent", testIptablesConcurrent},
		{"same-port-at-once", testIptablesSamePort},
	} {
		t.Run(tc.name, func(t *testing.T) { tc.run(t, newFixture(t)) })
	}
}

const portsChain = "CLEAT-HOSTPORTS"

// filtered is the n-th attachment with a masqueraded address of each family and port 8000+n of the host.
func filtered(n int) netstate.State { return filteredOf(attachment(n), 8000+n) }

func filteredOf(s netstate.State, port int) netstate.State {
	s.Tables, s.Elements = nil, nil
	for _, a := range s.Addrs {
		if a.Place == netstate.Pod {
			s = publishedByRules(masqueradedByRules(s, a.Prefix), a.Prefix.Addr(), port)
		}
	}
	return s
}

func masqueradedByRules(s netstate.State, p netip.Prefix) netstate.State {
	rule := func(chain, text string, owner netstate.Owner) netstate.IptablesRule {
		r := netstate.IptablesRule{Family: netstate.FamilyOf(p.Addr()).Word, Table: "nat", Chain: chain, Rule: text, Owner: owner}
		if !owner.IsZero() {
			r.Lives = "link " + owner.HostName("veth")
		}
		return r
	}
	s.IptablesChains = append(s.IptablesChains, netstate.IptablesChain{Family: netstate.FamilyOf(p.Addr()).Word, Table: "nat", Name: "CLEAT-MASQ"})
	s.IptablesRules = append(s.IptablesRules,
		rule("POSTROUTING", "-j CLEAT-MASQ", netstate.Owner{}),
		rule("CLEAT-MASQ", fmt.Sprintf("-s %s ! -d %s -j MASQUERADE", p.Addr(), p.Masked()), s.Owner))
	return s
}

// publishedByRules adds a port of the host that leads to an address: a chain that only one can have.
func publishedByRules(s netstate.State, to netip.Addr, port int) netstate.State {
	f := netstate.FamilyOf(to)
	name := fmt.Sprintf("CLEAT-tcp-%d", port)
	s.IptablesChains = append(s.IptablesChains,
		netstate.IptablesChain{Family: f.Word, Table: "nat", Name: portsChain},
		netstate.IptablesChain{Family: f.Word, Table: "nat", Name: name, Owner: s.Owner})
	rule := func(chain, text string, first bool) netstate.IptablesRule {
		return netstate.IptablesRule{Family: f.Word, Table: "nat", Chain: chain, Rule: text, First: first, Owner: s.Owner,
			Lives: "link " + s.Owner.HostName("veth")}
	}
	s.IptablesRules = append(s.IptablesRules,
		netstate.IptablesRule{Family: f.Word, Table: "nat", Chain: "PREROUTING", Rule: "-m addrtype --dst-type LOCAL -j " + portsChain},
		rule(portsChain, fmt.Sprintf("-p tcp --dport %d -j %s", port, name), true),
		rule(name, "-s 10.99.0.0/16 -j MARK --or-mark 0x2000", false),
		rule(name, "-p tcp -j DNAT --to-destination "+netip.AddrPortFrom(to, 80).String(), false))
	if f.V6 {
		i := len(s.IptablesRules) - 2
		s.IptablesRules[i].Rule = "-s fd00:99::/64 -j MARK --or-mark 0x2000"
	}
	return s
}

// onlyIptables is what of a state is in iptables.
func onlyIptables(s netstate.State) netstate.State {
	return netstate.State{Owner: s.Owner, IptablesChains: s.IptablesChains, IptablesRules: s.IptablesRules}
}

// owned are the keys of the chains and rules that are the owner's.
func owned(s netstate.State) []string {
	var keys []string
	for _, c := range s.IptablesChains {
		if !c.Owner.IsZero() {
			keys = append(keys, c.Key())
		}
	}
	for _, r := range s.IptablesRules {
		if !r.Owner.IsZero() {
			keys = append(keys, r.Key())
		}
	}
	return keys
}

func testIptables(t *testing.T, f Fixture) {
	pods := []string{f.NewPod(), f.NewPod()}
	all := onlyIptables(filtered(1))
	var keys []string
	for _, o := range all.Objects() {
		keys = append(keys, o.Key())
	}
	f.expect(t, pods[0], all, keys...)
	f.apply(t, pods[0], filtered(1))
	f.expect(t, pods[0], filtered(1))
	before := f.texts(pods...)
	f.apply(t, pods[1], filtered(2))
	f.expect(t, pods[1], filtered(2))
	f.expect(t, pods[0], filtered(1))
	for range 2 {
		f.remove(t, pods[1], filtered(2), false)
		f.same(t, before, pods...)
		f.expect(t, pods[1], onlyIptables(filtered(2)), owned(filtered(2))...)
	}
	f.apply(t, pods[1], filtered(2))
	// With the namespace gone, and nothing known but where it may be.
	f.RemovePod(pods[1])
	named := netstate.State{Owner: filtered(2).Owner, IptablesChains: []netstate.IptablesChain{
		{Family: "ip", Table: "nat", Name: portsChain}, {Family: "ip6", Table: "nat", Name: portsChain}}}
	f.remove(t, "", named, false)
	f.expect(t, "", onlyIptables(filtered(2)), owned(filtered(2))...)
	f.expect(t, pods[0], filtered(1))
}

// testIptablesAgain applies what is there: nothing doubles, and a rule that is missing comes back.
func testIptablesAgain(t *testing.T, f Fixture) {
	state := onlyIptables(filtered(1))
	for i := range state.IptablesRules {
		state.IptablesRules[i].Lives = ""
	}
	f.apply(t, "", state)
	before := f.texts()
	f.apply(t, "", state)
	f.same(t, before)
	moved := onlyIptables(filteredOf(attachmentOf(state.Owner, 7), 8001))
	f.apply(t, "", moved)
	f.expect(t, "", moved)
	f.remove(t, "", moved, false)
	f.expect(t, "", state, owned(state)...)
}

// testIptablesForward: a family in which something was put into FORWARD of table filter is seen to have that chain.
func testIptablesForward(t *testing.T, f Fixture) {
	seen := func(q netstate.Query) []string {
		t.Helper()
		facts, err := f.open(t, "").Observe(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		return facts.Forward
	}
	if got := seen(netstate.Query{Forward: true}); len(got) > 0 {
		t.Errorf("before: %q", got)
	}
	var want []string
	for _, family := range []string{"ip", "ip6"} {
		want = append(want, family)
		state := netstate.State{Owner: attachment(1).Owner, IptablesRules: []netstate.IptablesRule{
			{Family: family, Table: "filter", Chain: "FORWARD", Rule: "-m mark --mark 0x1000000/0x1000000 -j ACCEPT", First: true}}}
		f.apply(t, "", state)
		f.apply(t, "", state)
		f.expect(t, "", state)
		f.remove(t, "", state, true)
		f.expect(t, "", state)
		if diff := gocmp.Diff(want, seen(netstate.Query{Forward: true})); diff != "" {
			t.Errorf("seen (-want +got)\n%s", diff)
		}
	}
	if got := seen(netstate.Query{}); len(got) > 0 {
		t.Errorf("seen without being asked for: %q", got)
	}
}

func testIptablesInUse(t *testing.T, f Fixture) {
	pods := []string{f.NewPod(), f.NewPod()}
	f.apply(t, pods[0], filtered(1))
	before := f.texts(pods...)
	second := filteredOf(attachment(2), 8001)
	err := f.try(t, pods[1], second)
	if !errors.Is(err, netstate.ErrInUse) || !strings.Contains(err.Error(), filtered(1).Owner.ContainerID) {
		t.Fatalf("Apply = %v, want %v with the owner's name", err, netstate.ErrInUse)
	}
	f.same(t, before, pods...)
	f.remove(t, pods[1], second, true)
	f.same(t, before, pods...)
}

// A chain that another interface of the container has stays that one's.
func testIptablesBeside(t *testing.T, f Fixture) {
	first := filtered(1)
	owner := netstate.Owner{Network: "other", ContainerID: first.Owner.ContainerID, IfName: "eth1"}
	second := onlyIptables(publishedByRules(filteredOf(attachmentOf(owner, 2), 8002), netip.MustParseAddr("10.88.0.3"), 8001))
	pod := f.NewPod()
	f.apply(t, pod, first)
	f.apply(t, "", second)
	f.expect(t, "", second)
	f.expect(t, pod, first)
	f.remove(t, pod, first, true)
	f.remove(t, "", second, true)
	f.expect(t, "", second, owned(second)...)
	f.apply(t, "", second)
	f.expect(t, "", second)
	f.remove(t, "", second, true)
}

func testIptablesDead(t *testing.T, f Fixture) {
	pods := []string{f.NewPod(), f.NewPod()}
	f.apply(t, pods[0], filtered(1))
	f.DelLink("", filtered(1).Owner.HostName("veth"))
	second := filteredOf(attachment(2), 8001)
	f.apply(t, pods[1], second)
	f.expect(t, pods[1], second)
	f.remove(t, pods[0], filtered(1), true)
	f.expect(t, pods[1], second)
	f.remove(t, pods[1], second, true)
	f.expect(t, "", onlyIptables(second), owned(second)...)
}

// A chain that was taken from a dead owner is that owner's again when a later step fails.
func testIptablesDeadUndone(t *testing.T, f Fixture) {
	pods := []string{f.NewPod(), f.NewPod()}
	f.apply(t, pods[0], filtered(1))
	f.DelLink("", filtered(1).Owner.HostName("veth"))
	before := f.texts(pods...)
	second := filteredOf(attachment(2), 8001)
	second.Routes = append(second.Routes, netstate.Route{Place: netstate.Host, Dst: netip.MustParsePrefix("198.51.100.0/24"),
		Via: netip.MustParseAddr("203.0.113.1"), Dev: bridge})
	if err := f.try(t, pods[1], second); err == nil {
		t.Error("a route through an unreachable gateway was made")
	}
	f.same(t, before, pods...)
	f.expect(t, "", onlyIptables(filtered(1)))
}

func testIptablesForeign(t *testing.T, f Fixture) {
	f.apply(t, "", onlyIptables(filtered(2)))
	state := onlyIptables(filtered(1))
	theirs := netstate.IptablesChain{Family: "ip", Table: "nat", Name: "KUBE-MARK-MASQ", Foreign: true}
	state.IptablesChains = append(state.IptablesChains, theirs)
	before := f.texts()
	err := f.try(t, "", state)
	if !errors.Is(err, netstate.ErrNotExist) || !strings.Contains(err.Error(), theirs.Name) {
		t.Errorf("Apply = %v, want %v with the chain's name", err, netstate.ErrNotExist)
	}
	f.same(t, before)
	made := theirs
	made.Foreign = false
	f.apply(t, "", netstate.State{Owner: state.Owner, IptablesChains: []netstate.IptablesChain{made}})
	f.apply(t, "", state)
	f.expect(t, "", state)
	f.remove(t, "", state, true)
	f.expect(t, "", netstate.State{Owner: state.Owner, IptablesChains: []netstate.IptablesChain{theirs}})
}

func testIptablesRefused(t *testing.T, f Fixture) {
	before := f.texts()
	for _, tc := range []struct {
		name   string
		change func(s *netstate.State)
	}{
		{"family", func(s *netstate.State) { s.IptablesRules[0].Family = "inet" }},
		{"table", func(s *netstate.State) { s.IptablesChains[0].Table = "security2" }},
		{"long-name", func(s *netstate.State) { s.IptablesChains[0].Name = strings.Repeat("C", 29) }},
		{"name", func(s *netstate.State) { s.IptablesChains[0].Name = "a b" }},
		{"line", func(s *netstate.State) { s.IptablesRules[0].Rule += "\n-F" }},
		{"undeclared", func(s *netstate.State) { s.IptablesRules[1].Chain = "CLEAT-NONE" }},
		{"not-the-chains", func(s *netstate.State) {
			s.IptablesRules[len(s.IptablesRules)-1].Owner = netstate.Owner{Network: "other", ContainerID: "c", IfName: "eth0"}
		}},
	} {
		state := onlyIptables(filtered(1))
		state.IptablesChains, state.IptablesRules = slices.Clone(state.IptablesChains), slices.Clone(state.IptablesRules)
		tc.change(&state)
		if err := f.try(t, "", state); err == nil {
			t.Errorf("%s: applied", tc.name)
		}
	}
	f.same(t, before)
}

// testIptablesFamilies: what was done in one family is undone if the other refuses.
func testIptablesFamilies(t *testing.T, f Fixture) {
	pods := []string{f.NewPod(), f.NewPod()}
	f.apply(t, pods[0], filtered(1))
	before := f.texts(pods...)
	six := filteredOf(attachment(2), 8002)
	six = publishedByRules(six, six.Addrs[3].Prefix.Addr(), 8001)
	if err := f.try(t, pods[1], six); !errors.Is(err, netstate.ErrInUse) {
		t.Errorf("Apply = %v, want %v", err, netstate.ErrInUse)
	}
	f.same(t, before, pods...)
}

func testIptablesCollect(t *testing.T, f Fixture) {
	pod := f.NewPod()
	other := filteredOf(attachmentOf(netstate.Owner{Network: "other", ContainerID: "c9", IfName: "eth0"}, 9), 8009)
	f.apply(t, pod, filtered(1))
	f.apply(t, "", onlyIptables(other))
	before := f.texts(pod)
	f.apply(t, "", onlyIptables(filtered(2)))
	full := f.texts(pod)
	valid := []netstate.Owner{filtered(1).Owner}
	would := f.collect(t, valid, true)
	f.same(t, full, pod)
	did := f.collect(t, valid, false)
	if diff := gocmp.Diff(would, did); diff != "" {
		t.Errorf("what a dry run names and what went (-dry +done)\n%s", diff)
	}
	f.same(t, before, pod)
	rules := 0
	for _, r := range filtered(2).IptablesRules {
		if !r.Owner.IsZero() {
			rules++
		}
	}
	if len(did) != rules {
		t.Errorf("%d objects went, want %d: %v", len(did), rules, did)
	}
	for _, x := range did {
		if x.Owner != filtered(2).Owner || !strings.Contains(x.Object, "iptables") {
			t.Errorf("collected %+v", x)
		}
	}
}

func testIptablesConcurrent(t *testing.T, f Fixture) {
	const n = 12
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			state := onlyIptables(filtered(i + 1))
			for range 2 {
				if err := f.try(t, "", state); err != nil {
					t.Errorf("attachment %d: %v", i+1, err)
				}
			}
		})
	}
	wg.Wait()
	for i := range n {
		f.expect(t, "", onlyIptables(filtered(i+1)))
	}
	if got := f.collect(t, nil, false); len(got) == 0 {
		t.Error("nothing was collected")
	}
	for i := range n {
		f.expect(t, "", onlyIptables(filtered(i+1)), owned(filtered(i+1))...)
	}
}

// testIptablesSamePort lets several want one port of the host at once: one of them gets it.
func testIptablesSamePort(t *testing.T, f Fixture) {
	const n = 6
	errs := make([]error, n)
	state := func(i int) netstate.State {
		s := onlyIptables(filteredOf(attachment(i+1), 8080))
		for j := range s.IptablesRules {
			s.IptablesRules[j].Lives = "" // alive
		}
		return s
	}
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = f.try(t, "", state(i)) })
	}
	wg.Wait()
	winner := -1
	for i, err := range errs {
		switch {
		case err == nil && winner < 0:
			winner = i
		case err == nil:
			t.Errorf("%d and %d both have the port", winner, i)
		case !errors.Is(err, netstate.ErrInUse):
			t.Errorf("Apply = %v, want %v", err, netstate.ErrInUse)
		}
	}
	if winner < 0 {
		t.Fatalf("nobody has the port: %v", errs)
	}
	f.expect(t, "", state(winner))
}

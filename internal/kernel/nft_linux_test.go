package kernel

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/internal/netns"
	"github.com/cleat-cni/cleat/internal/sandbox"
	"github.com/cleat-cni/cleat/netstate"
)

func nobodyLives(context.Context, string) bool    { return false }
func everybodyLives(context.Context, string) bool { return true }

func testOwner(n int) netstate.Owner {
	return netstate.Owner{Network: "net", ContainerID: fmt.Sprintf("container%d", n), IfName: "eth0"}
}

// testTable publishes ports and masquerades.
func testTable() netstate.Table {
	return netstate.Table{
		Family: "inet", Name: netstate.TableName,
		Sets: []netstate.Set{
			{Name: "hostports4", Key: []string{"inet_proto", "inet_service"}, Data: []string{"ipv4_addr", "inet_service"}},
			{Name: "masq4", Key: []string{"ipv4_addr"}},
			{Name: "nics", Key: []string{"ifname"}},
		},
		Chains: []netstate.Chain{
			{Name: "prerouting", Type: "nat", Hook: "prerouting", Priority: -100, Rules: []string{
				"meta l4proto { tcp, udp } fib daddr type local dnat ip addr . port to meta l4proto . th dport map @hostports4",
			}},
			{Name: "postrouting", Type: "nat", Hook: "postrouting", Priority: 100, Rules: []string{
				"ip daddr 224.0.0.0/4 return",
				"ip saddr @masq4 masquerade",
			}},
		},
	}
}

// testState is attachment n with ports published, to port 80 of 10.88.n/256.n%256.
func testState(n int, ports ...int) netstate.State {
	s := netstate.State{Owner: testOwner(n), Tables: []netstate.Table{testTable()}}
	addr := fmt.Sprintf("10.88.%d.%d", n/256, n%256)
	add := func(set string, match, data []string) {
		s.Elements = append(s.Elements, netstate.Element{
			Family: "inet", Table: netstate.TableName, Set: set, Match: match, Data: data,
			Owner: s.Owner, Lives: fmt.Sprintf("link veth%d", n),
		})
	}
	for _, p := range ports {
		add("hostports4", []string{"tcp", fmt.Sprint(p)}, []string{addr, "80"})
	}
	add("masq4", []string{addr}, nil)
	return s
}

func mustApply(t testing.TB, r *ruleset, s netstate.State) func(context.Context) error {
	t.Helper()
	undo, err := r.apply(t.Context(), s, everybodyLives)
	if err != nil {
		t.Fatal(err)
	}
	return undo
}

// wantDiff compares a state with the kernel: the objects that differ are want.
func wantDiff(t testing.TB, r *ruleset, s netstate.State, want ...string) {
	t.Helper()
	diffs, err := r.diff(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	for _, d := range diffs {
		have = append(have, fmt.Sprintf("%s: %q", d.Object, d.Have))
	}
	if d := cmp.Diff(want, have); d != "" {
		t.Errorf("differences (-want +got):\n%s", d)
	}
}

// listElements gives the lines of all elements that nft's program lists of a set.
func listElements(t testing.TB, ns *netns.Handle, kind, name string) string {
	t.Helper()
	text := nftProgram(t, ns, "", "list", kind, "inet", "cleat", name)
	_, text, _ = strings.Cut(text, "elements = {")
	text, _, _ = strings.Cut(text, "}")
	return strings.Join(strings.Fields(text), " ")
}

func TestApplyLists(t *testing.T) {
	ns := sandbox.Namespace(t)
	r := openTestRuleset(t, ns)
	s := testState(5, 8080)
	s.Elements = append(s.Elements, netstate.Element{
		Family: "inet", Table: "cleat", Set: "nics", Match: []string{"veth5"},
	})
	mustApply(t, r, s)
	comment := `comment "` + s.Owner.Comment(127) + `"`
	for _, tc := range []struct{ kind, name, want string }{
		{"map", "hostports4", `tcp . 8080 ` + comment + ` : 10.88.0.5 . 80`},
		{"set", "masq4", `10.88.0.5 ` + comment},
		{"set", "nics", `"veth5" ` + comment},
	} {
		if have := listElements(t, ns, tc.kind, tc.name); have != tc.want {
			t.Errorf("%s holds %s, want %s", tc.name, have, tc.want)
		}
	}
	wantDiff(t, r, s)
}

func TestSteadyStateIsOneTransaction(t *testing.T) {
	ns := sandbox.Namespace(t)
	first := openTestRuleset(t, ns)
	mustApply(t, first, testState(1, 8001))
	for _, tc := range []struct {
		name     string
		r        *ruleset
		messages uint64
	}{
		{"same-process", first, 2},
		{"new-process", openTestRuleset(t, ns), 4}, // it looks at the table and its rules first
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := testState(2, 8002, 8003)
			t0, m0 := tc.r.stats()
			undo := mustApply(t, tc.r, s)
			t1, m1 := tc.r.stats()
			if t1-t0 != 1 || m1-m0 != tc.messages {
				t.Errorf("%d transactions of %d messages, want 1 of %d", t1-t0, m1-m0, tc.messages)
			}
			if err := undo(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestNothingToDoSendsNothing(t *testing.T) {
	r := openTestRuleset(t, sandbox.Namespace(t))
	s := netstate.State{Owner: testOwner(1)}
	undo := mustApply(t, r, s)
	if err := undo(t.Context()); err != nil {
		t.Error(err)
	}
	if err := r.remove(t.Context(), s, true); err != nil {
		t.Error(err)
	}
	wantDiff(t, r, s)
	if transactions, messages := r.stats(); transactions+messages != 0 {
		t.Errorf("%d transactions, %d messages", transactions, messages)
	}
}

func TestApplyConflict(t *testing.T) {
	ns := sandbox.Namespace(t)
	r := openTestRuleset(t, ns)
	first, second := testState(1, 8080), testState(2, 8081, 8080)
	mustApply(t, r, first)

	_, err := r.apply(t.Context(), second, everybodyLives)
	if !errors.Is(err, netstate.ErrInUse) || !strings.HasSuffix(err.Error(), "element tcp . 8080: in use by another attachment: net/container1/eth0") {
		t.Errorf("a living owner's port: %v", err)
	}
	wantDiff(t, r, first)
	if have := listElements(t, ns, "set", "masq4"); strings.Contains(have, "10.88.0.2") {
		t.Errorf("the refused attachment left %s", have)
	}

	asked := ""
	undo, err := r.apply(t.Context(), second, func(_ context.Context, lives string) bool { asked = lives; return false })
	if err != nil || asked != "link veth1" {
		t.Fatalf("a dead owner's port: %v; asked for %q", err, asked)
	}
	wantDiff(t, r, second)
	// The dead owner's late DEL leaves the port to the new one.
	if err := r.remove(t.Context(), netstate.State{Owner: first.Owner, Tables: first.Tables, Elements: first.Elements[:1]}, false); err != nil {
		t.Fatal(err)
	}
	wantDiff(t, r, second)
	if err := undo(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantDiff(t, r, first)
}

// TestUndoComesTooLate undoes what another attachment has taken over meanwhile.
func TestUndoComesTooLate(t *testing.T) {
	r := openTestRuleset(t, sandbox.Namespace(t))
	undo := mustApply(t, r, testState(1, 8080))
	second := testState(2, 8080)
	if _, err := r.apply(t.Context(), second, nobodyLives); err != nil {
		t.Fatal(err)
	}
	if err := undo(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantDiff(t, r, second)
}

func TestApplyForeignElement(t *testing.T) {
	ns := sandbox.Namespace(t)
	r := openTestRuleset(t, ns)
	mustApply(t, r, testState(1))
	nftProgram(t, ns, "add element inet cleat hostports4 { tcp . 8080 : 192.0.2.1 . 1 }", "-f", "-")
	if _, err := r.apply(t.Context(), testState(2, 8080), nobodyLives); !errors.Is(err, netstate.ErrInUse) {
		t.Errorf("an element of nobody: %v", err)
	}
	if err := r.remove(t.Context(), testState(2, 8080), true); err != nil {
		t.Fatal(err)
	}
	if have := listElements(t, ns, "map", "hostports4"); have != "tcp . 8080 : 192.0.2.1 . 1" {
		t.Errorf("remove left %q", have)
	}
}

func TestApplyAgain(t *testing.T) {
	r := openTestRuleset(t, sandbox.Namespace(t))
	s := testState(1, 8080)
	mustApply(t, r, s)
	again := s
	again.Elements = append(slices.Clone(s.Elements), s.Elements...)
	undo := mustApply(t, r, again)
	// The second call added nothing, so there is nothing to undo.
	if err := undo(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantDiff(t, r, s)

	moved := testState(1, 8080)
	moved.Elements[0].Data = []string{"10.88.0.9", "81"}
	wantDiff(t, r, moved, moved.Elements[0].Key()+`: "`+s.Elements[0].String()+`"`)
	undo = mustApply(t, r, moved)
	wantDiff(t, r, moved)
	if err := undo(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantDiff(t, r, s)
}

func TestApplyHeals(t *testing.T) {
	for _, tc := range []struct{ name, nft string }{
		{"table", "delete table inet cleat"},
		{"chain", "flush chain inet cleat postrouting\ndelete chain inet cleat postrouting"},
		{"rules", "flush chain inet cleat postrouting"},
		{"set", "flush chain inet cleat prerouting\ndelete map inet cleat hostports4"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ns := sandbox.Namespace(t)
			mustApply(t, openTestRuleset(t, ns), testState(1, 8001))
			nftProgram(t, ns, tc.nft, "-f", "-")
			r, s := openTestRuleset(t, ns), testState(2, 8002)
			mustApply(t, r, s)
			wantDiff(t, r, s)
		})
	}
}

// TestApplyHealsWhatItKnew: a state without elements, as a repair has where only rules are missing, is looked at anew though
// its tables were all there a moment ago.
func TestApplyHealsWhatItKnew(t *testing.T) {
	ns := sandbox.Namespace(t)
	r, s := openTestRuleset(t, ns), testState(1, 8001)
	mustApply(t, r, s)
	nftProgram(t, ns, "flush chain inet cleat postrouting", "-f", "-")
	mustApply(t, r, netstate.State{Owner: s.Owner, Tables: s.Tables})
	wantDiff(t, r, s)
}

// TestApplyHealsWhatDiffMissed: a repair where rules and elements are missing makes both, though the tables were all there a moment ago.
func TestApplyHealsWhatDiffMissed(t *testing.T) {
	ns := sandbox.Namespace(t)
	r, s := openTestRuleset(t, ns), testState(1, 8001)
	mustApply(t, r, s)
	nftProgram(t, ns, "flush chain inet cleat postrouting\nflush map inet cleat hostports4", "-f", "-")
	if diffs, err := r.diff(t.Context(), s); err != nil || len(diffs) < 2 {
		t.Fatalf("differences %v, %v", diffs, err)
	}
	lost := s
	lost.Elements = slices.DeleteFunc(slices.Clone(s.Elements), func(e netstate.Element) bool { return e.Set != "hostports4" })
	mustApply(t, r, lost)
	wantDiff(t, r, s)
}

func TestDiffNamesWhatIsMissing(t *testing.T) {
	ns := sandbox.Namespace(t)
	r, s := openTestRuleset(t, ns), testState(1, 8080)
	var all []string
	for _, o := range s.Objects() {
		all = append(all, o.Key()+`: ""`)
	}
	wantDiff(t, r, s, all...)
	mustApply(t, r, s)
	nftProgram(t, ns, "flush chain inet cleat postrouting\nflush set inet cleat masq4", "-f", "-")
	wantDiff(t, r, s,
		`host nft table inet cleat chain postrouting rule ip daddr 224.0.0.0/4 return: ""`,
		`host nft table inet cleat chain postrouting rule ip saddr @masq4 masquerade: ""`,
		`host nft table inet cleat set masq4 element 10.88.0.1: ""`)
}

func TestDiffNamesTheOwner(t *testing.T) {
	r := openTestRuleset(t, sandbox.Namespace(t))
	theirs := testState(1, 8080)
	// Names too long for a comment leave the mark alone in it.
	theirs.Owner.Network = strings.Repeat("n", 120)
	for i := range theirs.Elements {
		theirs.Elements[i].Owner = theirs.Owner
	}
	mustApply(t, r, theirs)
	mine := testState(2, 8080)
	mine.Elements = mine.Elements[:1]
	wantDiff(t, r, mine, mine.Elements[0].Key()+`: "host nft table inet cleat map hostports4 element tcp . 8080 : 10.88.0.1 . 80 owner `+
		theirs.Owner.Mark()+`"`)
	_, err := r.apply(t.Context(), mine, everybodyLives)
	if !errors.Is(err, netstate.ErrInUse) || !strings.HasSuffix(err.Error(), theirs.Owner.Mark()) {
		t.Errorf("conflict: %v", err)
	}
}

func TestTableInAnotherForm(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*netstate.Table)
	}{
		{"set", func(t *netstate.Table) { t.Sets[2].Key = []string{"mark"} }},
		{"chain", func(t *netstate.Table) { t.Chains[1].Priority = 99 }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := openTestRuleset(t, sandbox.Namespace(t))
			mustApply(t, r, testState(1))
			s := testState(2)
			tc.change(&s.Tables[0])
			s.Tables[0].Chains[1].Rules = append(s.Tables[0].Chains[1].Rules, "counter")
			if _, err := r.apply(t.Context(), s, nobodyLives); !errors.Is(err, netstate.ErrExist) {
				t.Errorf("error %v, want %v", err, netstate.ErrExist)
			}
		})
	}
}

// TestRulesKeepTheirOrder has several declare parts of one chain.
func TestRulesKeepTheirOrder(t *testing.T) {
	for _, tc := range []struct {
		name        string
		first, then string
		want        string
	}{
		{"appended", "1 2", "3 4", "1 2 3 4"},
		{"between", "1 4", "1 2 3 4", "1 2 3 4"},
		{"before", "3 4", "1 2 3", "1 2 3 4"},
		{"after-its-like", "1 2 9", "1 5 6", "1 5 6 2 9"},
		{"all-over", "2 4", "1 2 3 4 5", "1 2 3 4 5"},
		{"twice", "1", "1 1 2", "1 2"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ns := sandbox.Namespace(t)
			r := openTestRuleset(t, ns)
			for _, rules := range []string{tc.first, tc.then} {
				table := netstate.Table{Family: "inet", Name: netstate.TableName, Chains: []netstate.Chain{{Name: "c"}}}
				for mark := range strings.FieldsSeq(rules) {
					table.Chains[0].Rules = append(table.Chains[0].Rules, "meta mark "+mark+" return")
				}
				// Two tables of one name are one.
				mustApply(t, r, netstate.State{Tables: []netstate.Table{table, {Family: "inet", Name: netstate.TableName}}})
			}
			var have []string
			for l := range strings.Lines(nftProgram(t, ns, "", "list", "chain", "inet", "cleat", "c")) {
				if f := strings.Fields(l); len(f) > 2 && f[0] == "meta" {
					have = append(have, strings.TrimLeft(f[2], "0x"))
				}
			}
			if diff := cmp.Diff(strings.Fields(tc.want), have); diff != "" {
				t.Errorf("rules (-want +got):\n%s", diff)
			}
		})
	}
}

func TestApplyRefuses(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*netstate.State)
		want   string
	}{
		{"undeclared-set", func(s *netstate.State) { s.Elements[0].Set = "none" },
			"host nft table inet cleat map none element tcp . 8080: the set is not declared"},
		{"unknown-family", func(s *netstate.State) { s.Elements[0].Family = "arp" },
			`host nft table arp cleat map hostports4 element tcp . 8080: unknown family "arp" of an nft table`},
		{"bad-port", func(s *netstate.State) { s.Elements[0].Match[1] = "65536" },
			`host nft table inet cleat map hostports4 element tcp . 65536: "65536" is no port`},
		{"missing-part", func(s *netstate.State) { s.Elements[0].Match = s.Elements[0].Match[:1] },
			`host nft table inet cleat map hostports4 element tcp: value "tcp" has 1 parts, want 2 (inet_proto . inet_service)`},
		{"missing-data", func(s *netstate.State) { s.Elements[0].Data = nil },
			`host nft table inet cleat set hostports4 element tcp . 8080: value "" has 0 parts, want 2 (ipv4_addr . inet_service)`},
		{"bad-rule", func(s *netstate.State) { s.Tables[0].Chains[0].Rules[0] = "ip saddr 10.0.0.1 jmp x" },
			`host nft table inet cleat: parse rule "ip saddr 10.0.0.1 jmp x": unexpected "jmp": want a statement`},
		{"unknown-type", func(s *netstate.State) { s.Tables[0].Sets[1].Key[0] = "ipv5_addr" },
			`host nft table inet cleat set masq4 element 10.88.0.1: unknown type "ipv5_addr" of a set`},
		{"twice", func(s *netstate.State) {
			again := s.Elements[0]
			again.Data = []string{"10.88.0.7", "80"}
			s.Elements = append(s.Elements, again)
		}, "host nft table inet cleat map hostports4 element tcp . 8080: already exists in the same state"},
		{"unknown-hook", func(s *netstate.State) { s.Tables[0].Chains[0].Hook = "none" },
			`host nft table inet cleat: add chain prerouting: unknown hook "none"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ns := sandbox.Namespace(t)
			s := testState(1, 8080)
			tc.change(&s)
			_, err := openTestRuleset(t, ns).apply(t.Context(), s, nobodyLives)
			if err == nil || err.Error() != tc.want {
				t.Errorf("error %v, want %s", err, tc.want)
			}
			if left := nftProgram(t, ns, "", "list", "ruleset"); left != "" {
				t.Errorf("left:\n%s", left)
			}
		})
	}
}

func TestApplyEndsWithItsContext(t *testing.T) {
	r := openTestRuleset(t, sandbox.Namespace(t))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.apply(ctx, testState(1, 8080), nobodyLives); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func TestManyElements(t *testing.T) {
	ns := sandbox.Namespace(t)
	r := openTestRuleset(t, ns)
	var ports []int
	for p := range 4000 {
		ports = append(ports, 10000+p)
	}
	s := testState(1, ports...)
	before, _ := r.stats()
	mustApply(t, r, s)
	wantDiff(t, r, s)
	if err := r.remove(t.Context(), s, false); err != nil {
		t.Fatal(err)
	}
	// The first finds no table.
	if after, _ := r.stats(); after-before > 3 {
		t.Errorf("%d transactions", after-before)
	}
	for _, set := range []string{"map hostports4", "set masq4"} {
		kind, name, _ := strings.Cut(set, " ")
		if have := listElements(t, ns, kind, name); have != "" {
			t.Errorf("%s still holds %.200s", name, have)
		}
	}
}

// wantElementsLeft checks what the sets of testTable hold by what nft's program lists of it.
func wantElementsLeft(t *testing.T, ns *netns.Handle, want ...string) {
	t.Helper()
	list := listElements(t, ns, "map", "hostports4") + "," + listElements(t, ns, "set", "masq4")
	var have []string
	for part := range strings.SplitSeq(list, ",") {
		if key, _, _ := strings.Cut(strings.TrimSpace(part), " comment"); key != "" {
			have = append(have, key)
		}
	}
	slices.Sort(have)
	slices.Sort(want)
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("elements (-want +got):\n%s", diff)
	}
}

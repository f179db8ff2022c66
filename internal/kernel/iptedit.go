package kernel

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cleat-cni/cleat/netstate"
)

// iptEdit is a change of one table, as commands that iptables-restore takes. All of a table is one
// transaction. Chains are made by -N, which fails if somebody made them meanwhile, and rules deleted by
// -D, which fails if somebody did; that is how a lost race is noticed.
type iptEdit struct {
	creates, deletes, flushes, drops, inserts, adds []string
}

// lines are the commands in an order that the program can follow.
func (e iptEdit) lines() []string {
	return slices.Concat(e.creates, e.deletes, e.flushes, e.drops, e.inserts, e.adds)
}

// iptInput is the input of iptables-restore for changes by table; "" if there is nothing to do. Table nat comes
// last: it opens ways that another may guard.
func iptInput(edits map[string]iptEdit) string {
	var b strings.Builder
	for _, table := range iptTables(edits) {
		lines := edits[table].lines()
		if len(lines) == 0 {
			continue
		}
		fmt.Fprintf(&b, "*%s\n", table)
		for _, line := range lines {
			b.WriteString(line + "\n")
		}
		b.WriteString("COMMIT\n")
	}
	return b.String()
}

// iptTables are the names of tables in the order in which they are worked on.
func iptTables[T any](byName map[string]T) []string {
	names := make([]string, 0, len(byName))
	for name := range byName {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		if (a == iptNAT) != (b == iptNAT) {
			if a == iptNAT {
				return 1
			}
			return -1
		}
		return strings.Compare(a, b)
	})
	return names
}

const iptNAT = "nat"

// iptWant is what a state says of one table of one family.
type iptWant struct {
	chains []netstate.IptablesChain
	rules  []netstate.IptablesRule
}

// iptWants sorts what a state says of iptables by family and table.
func iptWants(s netstate.State) map[string]map[string]*iptWant {
	all := map[string]map[string]*iptWant{}
	at := func(family, table string) *iptWant {
		if all[family] == nil {
			all[family] = map[string]*iptWant{}
		}
		if all[family][table] == nil {
			all[family][table] = &iptWant{}
		}
		return all[family][table]
	}
	for _, c := range s.IptablesChains {
		w := at(c.Family, c.Table)
		w.chains = append(w.chains, c)
	}
	for _, r := range s.IptablesRules {
		w := at(r.Family, r.Table)
		w.rules = append(w.rules, r)
	}
	return all
}

// in are the wanted rules of a chain.
func (w *iptWant) in(chain string) []netstate.IptablesRule {
	var list []netstate.IptablesRule
	for _, r := range w.rules {
		if r.Chain == chain {
			list = append(list, r)
		}
	}
	return list
}

// shared are the names of the shared chains; none if any chain is meant.
func (w *iptWant) shared() []string {
	var names []string
	for _, c := range w.chains {
		if c.Name == "" {
			return nil
		}
		if c.Owner.IsZero() && !c.Foreign {
			names = append(names, c.Name)
		}
	}
	return names
}

// owns reports whether a chain is wanted for an owner.
func (w *iptWant) owns(chain string) bool {
	return slices.ContainsFunc(w.chains, func(c netstate.IptablesChain) bool { return c.Name == chain && !c.Owner.IsZero() })
}

// iptDone is what a call did to a table and an undo takes back. What is shared stays.
type iptDone struct {
	rules []netstate.IptablesRule // added, outside of taken chains
	taken []iptTaken
}

// iptTaken is a chain that a call made for an owner, or took from one that is dead.
type iptTaken struct {
	name string
	mark string
	made bool
	were []string // commands that put back what was in it and what led to it
}

// apply is the change that makes t as it is wanted. It works t along. The error is netstate.ErrInUse for a chain of a living owner.
func (w *iptWant) apply(t *iptTable, alive func(lives string) bool) (iptEdit, iptDone, error) {
	var (
		e    iptEdit
		done iptDone
	)
	w = w.without(t, alive)
	for _, c := range w.chains {
		switch {
		case c.Foreign && !t.has(c.Name):
			return e, done, about(c, netstate.ErrNotExist)
		case c.Foreign:
		case !t.has(c.Name):
			e.creates = append(e.creates, "-N "+c.Name)
			t.chains = append(t.chains, c.Name)
			if !c.Owner.IsZero() {
				done.taken = append(done.taken, iptTaken{name: c.Name, mark: c.Owner.Mark(), made: true})
			}
		case !c.Owner.IsZero():
			taken, err := w.take(t, c, alive, &e)
			if err != nil {
				return e, done, err
			}
			done.taken = append(done.taken, taken...)
		}
	}
	have := t.index()
	for _, r := range w.rules {
		texts := have[iptKeyOf(r)]
		for _, text := range texts[min(1, len(texts)):] { // two who made it at once
			e.deletes = append(e.deletes, "-D "+r.Chain+" "+text)
		}
		if len(texts) > 0 {
			continue
		}
		command := "-m comment --comment " + netstate.IptablesWord(iptComment(r, w.owns(r.Chain))) + " " + r.Rule
		if r.First {
			e.inserts = append(e.inserts, "-I "+r.Chain+" "+command)
		} else {
			e.adds = append(e.adds, "-A "+r.Chain+" "+command)
		}
		if !r.Owner.IsZero() {
			done.rules = append(done.rules, r)
		}
	}
	return e, done, nil
}

// without is what is wanted but for the chains that another interface of the container has, and their rules.
func (w *iptWant) without(t *iptTable, alive func(lives string) bool) *iptWant {
	var left iptWant
	var held []netstate.IptablesChain
	for _, c := range w.chains {
		if have, ok := t.holder(c.Name); ok && have.owner.Beside(c.Owner) && alive(have.lives) {
			held = append(held, c)
		} else {
			left.chains = append(left.chains, c)
		}
	}
	for _, r := range w.rules {
		if !slices.ContainsFunc(held, func(c netstate.IptablesChain) bool { return r.Chain == c.Name || r.LeadsTo(c) }) {
			left.rules = append(left.rules, r)
		}
	}
	return &left
}

// take empties a chain that is there for the owner who wants it, unless it is that owner's and right.
func (w *iptWant) take(t *iptTable, c netstate.IptablesChain, alive func(string) bool, e *iptEdit) ([]iptTaken, error) {
	have, held := t.holder(c.Name)
	mine := held && have.mark == c.Owner.Mark()
	if held && !mine && alive(have.lives) {
		return nil, about(c, fmt.Errorf("%w: %s", netstate.ErrInUse, have.who()))
	}
	wanted := map[iptKey]bool{}
	for _, r := range w.rules {
		if r.Chain == c.Name || r.LeadsTo(c) {
			wanted[iptKeyOf(r)] = true
		}
	}
	stale := func(r iptRule) bool { return r.target == c.Name && !wanted[r.key()] }
	same := slices.EqualFunc(t.in(c.Name), w.in(c.Name), func(r iptRule, want netstate.IptablesRule) bool { return r.key() == iptKeyOf(want) })
	if mine && same && !slices.ContainsFunc(t.rules, stale) {
		return nil, nil
	}
	taken := iptTaken{name: c.Name, mark: c.Owner.Mark()}
	for _, r := range t.rules {
		switch {
		case r.chain == c.Name:
			taken.were = append(taken.were, "-A "+r.chain+" "+r.text)
		case stale(r):
			taken.were = append(taken.were, "-A "+r.chain+" "+r.text)
			e.deletes = append(e.deletes, "-D "+r.chain+" "+r.text)
		}
	}
	e.flushes = append(e.flushes, "-F "+c.Name)
	t.rules = slices.DeleteFunc(t.rules, func(r iptRule) bool { return r.chain == c.Name || stale(r) })
	return []iptTaken{taken}, nil
}

// who is the owner as people know it: by names if they are there.
func (n iptNote) who() string {
	if n.owner.IsZero() {
		return n.mark
	}
	return n.owner.String()
}

// revert is the change that takes back what was done to t.
func (d iptDone) revert(t *iptTable) iptEdit {
	var e iptEdit
	gone := func(r iptRule) {
		if !slices.ContainsFunc(d.taken, func(c iptTaken) bool { return c.name == r.chain }) {
			e.deletes = append(e.deletes, "-D "+r.chain+" "+r.text)
		}
	}
	have := t.index()
	for _, added := range d.rules {
		if texts := have[iptKeyOf(added)]; len(texts) > 0 {
			gone(iptRule{chain: added.Chain, text: texts[0]})
		}
	}
	for _, c := range d.taken {
		have, held := t.holder(c.name)
		if !t.has(c.name) || held && have.mark != c.mark {
			continue // another's by now
		}
		e.flushes = append(e.flushes, "-F "+c.name)
		if c.made {
			e.drops = append(e.drops, "-X "+c.name)
		}
		e.adds = append(e.adds, c.were...)
	}
	return e
}

// remove is the change that takes the rules of some owners away, and the chains that are theirs; also those of
// names that are nobody's any more. It returns what that is.
func (t *iptTable) remove(goes func(mark string) bool, names []string) (iptEdit, []iptRule) {
	var (
		e    iptEdit
		list []iptRule
	)
	holders, filled := map[string]string{}, map[string]bool{}
	for _, r := range t.rules {
		filled[r.chain] = true
		if r.owns {
			holders[r.chain] = r.mark
		}
	}
	doomed := func(chain string) bool {
		mark, held := holders[chain]
		return held && goes(mark) || !filled[chain] && slices.Contains(names, chain)
	}
	led := map[string]bool{} // chains that others lead into
	for _, r := range t.rules {
		switch {
		case r.mark == "" || !goes(r.mark):
			led[r.target] = true
			continue
		case !doomed(r.chain):
			e.deletes = append(e.deletes, "-D "+r.chain+" "+r.text)
		}
		list = append(list, r)
	}
	for _, chain := range t.chains {
		if !doomed(chain) {
			continue
		}
		e.flushes = append(e.flushes, "-F "+chain)
		// Whoever else leads into the chain keeps it, empty.
		if !led[chain] {
			e.drops = append(e.drops, "-X "+chain)
		}
	}
	return e, list
}

// diff compares a table with what is wanted.
func (w *iptWant) diff(t *iptTable) []netstate.Difference {
	var list []netstate.Difference
	w = w.without(t, func(string) bool { return true })
	for _, c := range w.chains {
		have := c
		if n, held := t.holder(c.Name); !c.Owner.IsZero() && held && n.mark != c.Owner.Mark() {
			have.Owner = netstate.Owner{}
			list = append(list, netstate.Difference{Object: c.Key(), Want: c.String(), Have: have.String() + " owner " + n.mark})
		} else if !t.has(c.Name) {
			list = append(list, netstate.Difference{Object: c.Key(), Want: c.String()})
		}
	}
	have := t.index()
	for _, r := range w.rules {
		if len(have[iptKeyOf(r)]) == 0 {
			list = append(list, netstate.Difference{Object: r.Key(), Want: r.String()})
		}
	}
	return list
}

// line is the canonical line of a rule of family and table, without its comment.
func (r iptRule) line(family, table string) string {
	text := r.text
	if before, rest, ok := strings.Cut(text, `-m comment --comment `); ok {
		if _, after, closed := cutQuoted(rest); closed {
			text = strings.TrimSpace(before + after)
		}
	}
	o := netstate.IptablesRule{Family: family, Table: table, Chain: r.chain, Rule: text}
	return o.String() + " owner " + r.mark
}

// cutQuoted cuts a comment of ours, which holds no quote, off the front.
func cutQuoted(text string) (word, rest string, ok bool) {
	if unquoted, is := strings.CutPrefix(text, `"`); is {
		return strings.Cut(unquoted, `" `)
	}
	return strings.Cut(text, " ")
}

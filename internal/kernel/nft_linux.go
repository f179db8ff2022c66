package kernel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/cleat-cni/cleat/netstate"
)

// ruleset is the nft half of a namespace: tables of ours, whose elements are what
// attachments add and remove. All methods may be called from several goroutines at
// once.
//
// The socket stays open until close, because closing a netfilter socket waits some 12 to 16 ms for what was
// deleted shortly before, by whomever.
type ruleset struct {
	mu       sync.Mutex
	conn     *filterConn
	answered bool // the kernel has nf_tables
	// known are tables whose rules were all there when last looked at.
	known []netstate.Table
}

// openRuleset opens the ruleset of a space.
func openRuleset(sp *space) (*ruleset, error) {
	conn, err := dialFilter(sp)
	if err != nil {
		return nil, err
	}
	return &ruleset{conn: conn}, nil
}

func (r *ruleset) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.conn.close()
}

// stats counts the transactions so far, and the messages, without the two that frame each
// transaction.
func (r *ruleset) stats() (transactions, messages uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.conn.transactions, r.conn.messages
}

// wantedElement is an element that should exist, in both forms.
type wantedElement struct {
	netstate.Element
	nftElement
	set setID
}

func (w wantedElement) elementKey() elementKey { return elementKey{w.set, w.key} }

// short is the element as people name it: tcp 8080.
func (w wantedElement) short() string { return strings.Join(w.Match, " ") }

// encodeElements gives the kernel's form of the elements of s. Their sets must be declared in s. One that stands twice is
// one; two of the same key are netstate.ErrExist.
func encodeElements(s netstate.State) ([]wantedElement, error) {
	out := make([]wantedElement, 0, len(s.Elements))
	places := make(map[string]int, len(s.Elements))
	for _, e := range s.Elements {
		w := wantedElement{Element: e}
		if w.Owner.IsZero() {
			w.Owner = s.Owner
		}
		var err error
		if w.set, err = setIDOf(e); err != nil {
			return nil, about(e, err)
		}
		decl, ok := declared(s.Tables, e)
		if !ok {
			return nil, about(e, errors.New("the set is not declared"))
		}
		if w.key, w.data, err = encodeElement(decl, e); err != nil {
			return nil, about(e, err)
		}
		w.user = elementUserdata(w.Element)
		place := w.elementKey().text()
		if i, twice := places[place]; twice {
			if !bytes.Equal(out[i].data, w.data) || out[i].Owner != w.Owner {
				return nil, about(e, fmt.Errorf("%w in the same state", netstate.ErrExist))
			}
			continue
		}
		places[place] = len(out)
		out = append(out, w)
	}
	return out, nil
}

// declared returns the declaration of the set of e.
func declared(tables []netstate.Table, e netstate.Element) (netstate.Set, bool) {
	for _, t := range tables {
		if t.Family != e.Family || t.Name != e.Table {
			continue
		}
		if i := slices.IndexFunc(t.Sets, func(s netstate.Set) bool { return s.Name == e.Set }); i >= 0 {
			return t.Sets[i], true
		}
	}
	return netstate.Set{}, false
}

func encodeElement(decl netstate.Set, e netstate.Element) (key, data []byte, err error) {
	types, err := typesOf(decl.Key)
	if err != nil {
		return nil, nil, err
	}
	if key, err = types.encode(e.Match); err != nil {
		return nil, nil, err
	}
	if len(decl.Data) == 0 && len(e.Data) == 0 {
		return key, nil, nil
	}
	if types, err = typesOf(decl.Data); err != nil {
		return nil, nil, err
	}
	data, err = types.encode(e.Data)
	return key, data, err
}

// onePerName puts what several plugins say of one table together.
func onePerName(tables []netstate.Table) []netstate.Table {
	return netstate.Merge(netstate.State{Tables: tables}).Tables
}

// liveness tells whether what an element's Lives names exists.
type liveness func(ctx context.Context, lives string) bool

// apply makes the tables and elements of s. In the steady state that is one transaction that
// only adds elements. What of the tables is missing is made in the same transaction; what is
// there is never flushed or made anew.
//
// An element that is there with another living owner, or without a mark of ours, is
// netstate.ErrInUse; one of another interface of the owner's container stays; one whose owner is dead is replaced. undo, never nil, removes the
// elements that this call added, or may have added if the error is errUnanswered, and puts back those that it replaced; tables stay.
func (r *ruleset) apply(ctx context.Context, s netstate.State, alive liveness) (undo func(context.Context) error, err error) {
	nothing := func(context.Context) error { return nil }
	if len(s.Tables) == 0 && len(s.Elements) == 0 {
		return nothing, nil
	}
	want, err := encodeElements(s)
	if err != nil {
		return nothing, err
	}
	tables := onePerName(s.Tables)
	r.mu.Lock()
	defer r.mu.Unlock()
	steady, err := r.addSteady(ctx, tables, want)
	done := elementChange{add: want}
	if err == nil && !steady {
		done, err = r.addCarefully(ctx, tables, want, alive)
	}
	if err != nil && !errors.Is(err, errUnanswered) {
		return nothing, err
	}
	return func(ctx context.Context) error { return r.revert(ctx, done) }, err
}

// addSteady adds elements to tables that are there as declared. It reports false, and has changed
// nothing, if they aren't, or if an element is there, or if there is none to add.
func (r *ruleset) addSteady(ctx context.Context, tables []netstate.Table, want []wantedElement) (bool, error) {
	for _, t := range tables {
		known, err := r.isKnown(ctx, t)
		if err != nil || !known {
			return false, err
		}
	}
	if len(want) == 0 {
		return false, nil // no element tells whether the tables are still there
	}
	msgs, err := addMessages(want)
	if err != nil {
		return false, err
	}
	err = r.conn.commit(ctx, msgs, 0)
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, unix.ENOENT):
		r.known = nil
		return false, nil
	case errors.Is(err, unix.EEXIST):
		return false, nil
	}
	return false, err
}

// isKnown reports whether all rules of a table are there. It looks once for each declaration: a table that
// another version made, or another configuration, has the sets but may lack a rule, and adding
// elements wouldn't show it.
func (r *ruleset) isKnown(ctx context.Context, t netstate.Table) (bool, error) {
	if r.knows(t) {
		return true, nil
	}
	family, err := familyNumber(t.Family)
	if err != nil {
		return false, err
	}
	seen, err := r.conn.tableRules(ctx, t, family)
	if errors.Is(err, errRace) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if seen.dormant {
		return false, nil
	}
	for _, c := range t.Chains {
		for _, rule := range c.Rules {
			if findRule(seen.rules, c.Name, rule) < 0 {
				return false, nil
			}
		}
	}
	if len(seen.rules) > 0 {
		r.known = append(r.known, t)
	}
	return len(seen.rules) > 0, nil
}

// knows reports whether a table was found right in just this form.
func (r *ruleset) knows(t netstate.Table) bool {
	return slices.ContainsFunc(r.known, func(o netstate.Table) bool { return sameTable(o, t) })
}

// elementChange is what a transaction did to elements.
type elementChange struct {
	add []wantedElement
	// replaced are those that were there before, in the order of add; nil where nothing was.
	replaced []*nftElement
}

// addCarefully looks at what is there, and makes one transaction of what is missing, which holds only if
// nobody changed the ruleset meanwhile. A lost race is tried again, until ctx ends.
func (r *ruleset) addCarefully(ctx context.Context, tables []netstate.Table, want []wantedElement, alive liveness) (elementChange, error) {
	for {
		done, err := r.tryAdd(ctx, tables, want, alive)
		if errors.Is(err, errRace) {
			continue // ctx is looked at before every message
		}
		if err != nil {
			return done, err
		}
		for _, t := range tables {
			if !r.knows(t) {
				r.known = append(r.known, t)
			}
		}
		return done, nil
	}
}

func (r *ruleset) tryAdd(ctx context.Context, tables []netstate.Table, want []wantedElement, alive liveness) (elementChange, error) {
	keys := make([]elementKey, 0, len(want))
	for _, w := range want {
		keys = append(keys, w.elementKey())
	}
	seen, generation, err := r.conn.elements(ctx, keys)
	if err != nil {
		return elementChange{}, err
	}
	base, err := r.missing(ctx, tables)
	if err != nil {
		return elementChange{}, err
	}
	todo, err := settleElements(ctx, want, seen, alive)
	if err != nil {
		return elementChange{}, err
	}
	msgs, err := deleteMessages(todo.stale())
	if err != nil {
		return elementChange{}, err
	}
	adds, err := addMessages(todo.add)
	if err != nil {
		return elementChange{}, err
	}
	msgs = slices.Concat(base, msgs, adds)
	if len(msgs) == 0 {
		return todo, nil
	}
	err = r.conn.commit(ctx, msgs, generation)
	if errors.Is(err, unix.ENOENT) {
		// All that the messages name is there or made before, so it is something of the kernel's own, such
		// as a kind of expression or of chain.
		err = fmt.Errorf("%w: %w", netstate.ErrUnsupported, err)
	}
	return todo, err
}

// settleElements decides what to do about elements that are there.
func settleElements(ctx context.Context, want []wantedElement, seen []*nftElement, alive liveness) (elementChange, error) {
	var todo elementChange
	for i, w := range want {
		have := seen[i]
		if have == nil {
			todo.add, todo.replaced = append(todo.add, w), append(todo.replaced, nil)
			continue
		}
		if bytes.Equal(have.data, w.data) && bytes.Equal(have.user, w.user) {
			continue
		}
		mark, owner, ours := netstate.ParseMark(parseUserdata(have.user, userdataComment))
		if !ours {
			return elementChange{}, about(w.Element, fmt.Errorf("%w: an element without an owner", netstate.ErrInUse))
		}
		if mark != w.Owner.Mark() {
			lives := parseUserdata(have.user, userdataLives)
			if lives == "" || alive(ctx, lives) {
				if owner.Beside(w.Owner) {
					continue
				}
				name := owner.String()
				if owner.IsZero() {
					name = mark
				}
				return elementChange{}, about(w.Element, fmt.Errorf("%w: %s", netstate.ErrInUse, name))
			}
		}
		todo.add, todo.replaced = append(todo.add, w), append(todo.replaced, have)
	}
	return todo, nil
}

// stale are the elements that are there before those of add.
func (c elementChange) stale() []elementKey {
	var keys []elementKey
	for i, have := range c.replaced {
		if have != nil {
			keys = append(keys, c.add[i].elementKey())
		}
	}
	return keys
}

// revert undoes a change, as far as the elements are still as it left them.
func (r *ruleset) revert(ctx context.Context, c elementChange) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	keys := make([]elementKey, 0, len(c.add))
	for _, w := range c.add {
		keys = append(keys, w.elementKey())
	}
	return r.deleteIf(ctx, keys,
		func(i int, have nftElement) bool { return bytes.Equal(have.user, c.add[i].user) },
		func(i int) *wantedElement {
			if len(c.replaced) == 0 || c.replaced[i] == nil {
				return nil
			}
			return &wantedElement{nftElement: *c.replaced[i], set: c.add[i].set}
		})
}

// deleteIf deletes, in one transaction, those of the elements that are there and of which ok is true, and puts
// instead of each what instead says, if anything.
func (r *ruleset) deleteIf(ctx context.Context, keys []elementKey, ok func(int, nftElement) bool, instead func(int) *wantedElement) error {
	for len(keys) > 0 {
		seen, generation, err := r.conn.elements(ctx, keys)
		if err != nil {
			return err
		}
		var gone []elementKey
		var back []wantedElement
		for i, have := range seen {
			if have == nil || !ok(i, *have) {
				continue
			}
			gone = append(gone, keys[i])
			if w := instead(i); w != nil {
				back = append(back, *w)
			}
		}
		if len(gone) == 0 {
			return nil
		}
		deletes, err := deleteMessages(gone)
		if err != nil {
			return err
		}
		adds, err := addMessages(back)
		if err != nil {
			return err
		}
		if err = r.conn.commit(ctx, append(deletes, adds...), generation); !errors.Is(err, errRace) {
			return err
		}
	}
	return nil
}

// noReplacement is for [ruleset.deleteIf].
func noReplacement(int) *wantedElement { return nil }

// addMessages adds elements: one message for each set, as long as they fit.
func addMessages(elems []wantedElement) ([]filterMessage, error) {
	var msgs []filterMessage
	err := eachSet(elems, func(w wantedElement) setID { return w.set }, func(set setID, of []wantedElement) error {
		list, names := make([]nftElement, 0, len(of)), make([]string, 0, len(of))
		for _, w := range of {
			list, names = append(list, w.nftElement), append(names, w.short())
		}
		for _, part := range splitElements(list) {
			m, err := elementsMessage(unix.NFT_MSG_NEWSETELEM, set, "add to "+set.name+": "+strings.Join(names, ", "), part...)
			if err != nil {
				return err
			}
			m.flags = createFlags
			msgs = append(msgs, m)
		}
		return nil
	})
	return msgs, err
}

// deleteMessages deletes elements.
func deleteMessages(keys []elementKey) ([]filterMessage, error) {
	var msgs []filterMessage
	err := eachSet(keys, func(k elementKey) setID { return k.set }, func(set setID, of []elementKey) error {
		list := make([]nftElement, 0, len(of))
		for _, k := range of {
			list = append(list, nftElement{key: k.key})
		}
		for _, part := range splitElements(list) {
			m, err := elementsMessage(unix.NFT_MSG_DELSETELEM, set, "delete from "+set.name, part...)
			if err != nil {
				return err
			}
			msgs = append(msgs, m)
		}
		return nil
	})
	return msgs, err
}

// eachSet hands over the items of each set together, in the order in which the sets first
// come.
func eachSet[T any](items []T, set func(T) setID, do func(setID, []T) error) error {
	bySet := map[setID][]T{}
	var order []setID
	for _, item := range items {
		id := set(item)
		if _, ok := bySet[id]; !ok {
			order = append(order, id)
		}
		bySet[id] = append(bySet[id], item)
	}
	for _, id := range order {
		if err := do(id, bySet[id]); err != nil {
			return err
		}
	}
	return nil
}

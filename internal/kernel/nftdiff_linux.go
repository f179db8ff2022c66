package kernel

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/cleat-cni/cleat/netstate"
)

// diff compares the tables and elements of s with what is there. Sets, rules and elements that s doesn't name are
// not looked at.
func (r *ruleset) diff(ctx context.Context, s netstate.State) ([]netstate.Difference, error) {
	if len(s.Tables) == 0 && len(s.Elements) == 0 {
		return nil, nil
	}
	want, err := encodeElements(s)
	if err != nil {
		return nil, err
	}
	tables := onePerName(s.Tables)
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		out, err := r.tryDiff(ctx, tables, want)
		if !errors.Is(err, errRace) {
			return out, err
		}
	}
}

func (r *ruleset) tryDiff(ctx context.Context, tables []netstate.Table, want []wantedElement) ([]netstate.Difference, error) {
	var out []netstate.Difference
	for _, t := range tables {
		seen, err := r.conn.table(ctx, t)
		if err != nil {
			return nil, err
		}
		for _, o := range t.Objects() {
			if have := seen.find(o); have != o.String() {
				out = append(out, netstate.Difference{Object: o.Key(), Want: o.String(), Have: have})
				r.known = nil // whoever repairs it must not rely on what was there
			}
		}
	}
	elems, err := r.differentElements(ctx, tables, want)
	return append(out, elems...), err
}

// find returns the canonical line of the object of a table that has the key of o, "" if it isn't
// there.
func (s seenTable) find(o netstate.Object) string {
	switch o := o.(type) {
	case netstate.Table:
		switch {
		case s.dormant:
			return o.String() + " flags dormant"
		case s.exists:
			return o.String()
		}
	case netstate.TableSet:
		i := slices.IndexFunc(s.sets, func(have seenSet) bool { return have.name == o.Set.Name })
		if i >= 0 {
			return s.sets[i].declaration().String()
		}
	case netstate.TableChain:
		i := slices.IndexFunc(s.chains, func(have netstate.Chain) bool { return have.Name == o.Chain.Name })
		if i >= 0 {
			return netstate.TableChain{Family: o.Family, Table: o.Table, Chain: s.chains[i]}.String()
		}
	case netstate.TableRule:
		if findRule(s.rules, o.Chain, o.Rule) >= 0 {
			return o.String()
		}
	}
	return ""
}

// declaration is the set as an object. Types that are not ours have no name.
func (s seenSet) declaration() netstate.TableSet {
	key, _ := typesOfNumber(s.key)
	data, _ := typesOfNumber(s.data)
	return netstate.TableSet{
		Family: familyName(s.family), Table: s.table,
		Set: netstate.Set{Name: s.name, Key: key.names(), Data: data.names()},
	}
}

// form is what the set is, in words: map type ipv4_addr : inet_service.
func (s seenSet) form() string {
	d := s.declaration().Set
	text := "set"
	if s.flags&unix.NFT_SET_MAP != 0 {
		text = "map"
	}
	if len(d.Key) == 0 {
		return text + " of a type that is none of ours"
	}
	text += " type " + strings.Join(d.Key, " . ")
	if len(d.Data) > 0 {
		text += " : " + strings.Join(d.Data, " . ")
	}
	return text
}

func (r *ruleset) differentElements(ctx context.Context, tables []netstate.Table, want []wantedElement) ([]netstate.Difference, error) {
	keys := make([]elementKey, 0, len(want))
	for _, w := range want {
		keys = append(keys, w.elementKey())
	}
	seen, _, err := r.conn.elements(ctx, keys)
	if err != nil {
		return nil, err
	}
	var out []netstate.Difference
	for i, w := range want {
		d := netstate.Difference{Object: w.Key(), Want: w.String()}
		if have := seen[i]; have != nil {
			_, owner, _ := netstate.ParseMark(parseUserdata(have.user, userdataComment))
			if bytes.Equal(have.data, w.data) && markOf(*have) == w.Owner.Mark() || owner.Beside(w.Owner) {
				continue
			}
			set, err := seenSetOf(tables, w)
			if err != nil {
				return nil, err
			}
			d.Have = set.line(*have)
		}
		out = append(out, d)
	}
	return out, nil
}

// seenSetOf is the set of an element as it is declared.
func seenSetOf(tables []netstate.Table, w wantedElement) (seenSet, error) {
	decl, _ := declared(tables, w.Element)
	key, err := typesOf(decl.Key)
	if err != nil {
		return seenSet{}, err
	}
	data, err := typesOf(decl.Data)
	return seenSet{setID: w.set, key: key.number(), data: data.number()}, err
}

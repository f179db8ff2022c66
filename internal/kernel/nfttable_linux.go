package kernel

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/cleat-cni/cleat/netstate"
)

// tableBuilder collects the messages that make what is missing of tables.
type tableBuilder struct {
	msgs  []filterMessage
	setID uint32 // of the set made last in this transaction
}

// missing returns the messages that make what is missing of tables. A set or chain that is there in
// another form is netstate.ErrOtherForm. A table that sleeps is woken.
func (r *ruleset) missing(ctx context.Context, tables []netstate.Table) ([]filterMessage, error) {
	b := &tableBuilder{}
	for _, t := range tables {
		seen, err := r.conn.table(ctx, t)
		if err != nil {
			return nil, err
		}
		if err := b.table(t, seen); err != nil {
			if _, named := errors.AsType[*netstate.ObjectError](err); !named {
				err = about(t, err)
			}
			return nil, err
		}
	}
	return b.msgs, nil
}

// add takes what a function that makes a message returns.
func (b *tableBuilder) add(m filterMessage, err error) error {
	if err == nil {
		b.msgs = append(b.msgs, m)
	}
	return err
}

// table adds what t has and seen lacks: sets, then chains, and the rules last, since they
// name both.
func (b *tableBuilder) table(t netstate.Table, seen seenTable) error {
	family, err := familyNumber(t.Family)
	if err != nil {
		return err
	}
	if !seen.exists || seen.dormant {
		m, err := newTableMessage(t, family)
		if seen.exists {
			m.flags &^= netlink.Excl
		}
		if err := b.add(m, err); err != nil {
			return err
		}
	}
	for _, s := range t.Sets {
		if err := b.set(setID{family: family, table: t.Name, name: s.Name}, s, seen.sets); err != nil {
			return about(netstate.TableSet{Family: t.Family, Table: t.Name, Set: s}, err)
		}
	}
	for _, c := range t.Chains {
		i := slices.IndexFunc(seen.chains, func(have netstate.Chain) bool { return have.Name == c.Name })
		if i < 0 {
			if err := b.add(newChainMessage(netstate.TableChain{Family: t.Family, Table: t.Name, Chain: c}, family)); err != nil {
				return err
			}
		} else if have := seen.chains[i]; have.Hook != c.Hook || have.Type != c.Type || have.Priority != c.Priority {
			return about(netstate.TableChain{Family: t.Family, Table: t.Name, Chain: c},
				fmt.Errorf("%w: type %s hook %s priority %d", netstate.ErrOtherForm, have.Type, have.Hook, have.Priority))
		}
	}
	for _, c := range t.Chains {
		if err := b.rules(t, c, seen.rules); err != nil {
			return err
		}
	}
	return nil
}

func (b *tableBuilder) set(id setID, s netstate.Set, seen []seenSet) error {
	key, err := typesOf(s.Key)
	if err != nil {
		return err
	}
	data, err := typesOf(s.Data)
	if err != nil {
		return err
	}
	if len(key) == 0 {
		return errors.New("no type")
	}
	i := slices.IndexFunc(seen, func(have seenSet) bool { return have.name == s.Name })
	if i < 0 {
		b.setID++
		id.id = b.setID
		return b.add(newSetMessage(newSet{setID: id, key: key, data: data}))
	}
	if seen[i].key != key.number() || seen[i].data != data.number() {
		return fmt.Errorf("%w: %s", netstate.ErrOtherForm, seen[i].form())
	}
	return nil
}

// findRule returns the place of a rule in what was seen, -1 if it isn't there.
func findRule(seen []seenRule, chain, text string) int {
	comment := ruleComment(text)
	return slices.IndexFunc(seen, func(r seenRule) bool { return r.chain == chain && r.comment == comment })
}

// rules adds the missing rules of a chain, each where its order says: after the one
// that it follows in c, or before the one that it precedes; at the end of the chain if it is the only
// one. So chains that several declare keep the order of each.
func (b *tableBuilder) rules(t netstate.Table, c netstate.Chain, seen []seenRule) error {
	var (
		after uint64   // handle of the rule seen last
		run   []string // missing rules since then
		done  = map[string]bool{}
	)
	for _, text := range c.Rules {
		if done[text] {
			continue
		}
		done[text] = true
		i := findRule(seen, c.Name, text)
		if i < 0 {
			run = append(run, text)
			continue
		}
		place := newRule{position: after}
		if after == 0 {
			place = newRule{position: seen[i].handle, before: true}
		}
		if err := b.run(t, c, run, place); err != nil {
			return err
		}
		after, run = seen[i].handle, nil
	}
	return b.run(t, c, run, newRule{position: after})
}

// run adds rules that follow each other, at one place.
func (b *tableBuilder) run(t netstate.Table, c netstate.Chain, texts []string, place newRule) error {
	if place.position != 0 && !place.before {
		// Each goes right behind the same rule, so the last comes first.
		texts = slices.Clone(texts)
		slices.Reverse(texts)
	}
	for _, text := range texts {
		rule := place
		rule.TableRule = netstate.TableRule{Family: t.Family, Table: t.Name, Chain: c.Name, Rule: text}
		if err := b.rule(t, rule); err != nil {
			return err
		}
	}
	return nil
}

// rule compiles and adds a rule, and before it the sets that it writes out.
func (b *tableBuilder) rule(t netstate.Table, rule newRule) error {
	out, err := compileRule(t, rule.Rule)
	if err != nil {
		return err
	}
	if rule.family, err = familyNumber(t.Family); err != nil {
		return err
	}
	first := b.setID
	for _, l := range out.literals {
		b.setID++
		if err := b.literal(setID{rule.family, t.Name, literalName, b.setID}, l); err != nil {
			return err
		}
	}
	for _, e := range out.exprs {
		if lookup, ok := e.(*expr.Lookup); ok && lookup.SetID != 0 {
			lookup.SetID += first
		}
	}
	rule.exprs = out.exprs
	return b.add(newRuleMessage(rule))
}

func (b *tableBuilder) literal(id setID, l literalSet) error {
	if len(l.elements) == 0 {
		return errors.New("an empty set")
	}
	if err := b.add(newSetMessage(newSet{setID: id, key: valueTypeList{l.typ}, literal: true})); err != nil {
		return err
	}
	elems := make([]nftElement, 0, len(l.elements))
	for _, key := range l.elements {
		elems = append(elems, nftElement{key: key})
	}
	m, err := elementsMessage(unix.NFT_MSG_NEWSETELEM, id, "add elements of a rule's set", elems...)
	m.flags = createFlags
	return b.add(m, err)
}

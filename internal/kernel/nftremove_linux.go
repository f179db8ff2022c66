package kernel

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/cleat-cni/cleat/netstate"
)

// remove deletes, in one transaction, the elements of s that carry the mark of s.Owner. What is not there, or
// another's by now, is passed over. With sweep it is also whatever else carries the mark in any set of s.Tables, declared
// there or not. Tables stay: they are shared.
func (r *ruleset) remove(ctx context.Context, s netstate.State, sweep bool) error {
	want, err := encodeElements(s)
	if err != nil {
		return err
	}
	if len(want) == 0 && (!sweep || len(s.Tables) == 0) {
		return nil
	}
	mark := s.Owner.Mark()
	var keys []elementKey
	named := map[string]bool{}
	for _, w := range want {
		keys = append(keys, w.elementKey())
		named[w.elementKey().text()] = true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if sweep {
		err := r.ownedIn(ctx, onePerName(s.Tables), mark, func(k elementKey) {
			if !named[k.text()] {
				keys = append(keys, k)
			}
		})
		if err != nil {
			return err
		}
	}
	return r.deleteIf(ctx, keys, func(_ int, have nftElement) bool { return markOf(have) == mark }, noReplacement)
}

// ownedIn hands over the elements of tables, in whatever set, that carry mark.
func (r *ruleset) ownedIn(ctx context.Context, tables []netstate.Table, mark string, got func(elementKey)) error {
	for _, t := range tables {
		family, err := familyNumber(t.Family)
		if err != nil {
			return err
		}
		sets, err := r.setsOf(ctx, family, t.Name)
		if err != nil {
			return err
		}
		for _, set := range sets {
			elems, err := r.conn.allElements(ctx, set.setID)
			if err != nil {
				return err
			}
			for _, e := range elems {
				if markOf(e) == mark {
					got(elementKey{set.setID, e.key})
				}
			}
		}
	}
	return nil
}

// text is the key as a string that only it has: names hold no NUL.
func (k elementKey) text() string {
	return string(rune(k.set.family)) + k.set.table + "\x00" + k.set.name + "\x00" + string(k.key)
}

// markOf is the mark that an element carries, "" if none.
func markOf(e nftElement) string {
	mark, _, _ := netstate.ParseMark(parseUserdata(e.user, userdataComment))
	return mark
}

// maxCollect is how many elements one transaction of collect deletes.
const maxCollect = 512

// collect deletes, unless dryRun, the elements of tables of ours that carry a mark of network which
// is not in keep, and returns what they were, also beside an error.
func (r *ruleset) collect(ctx context.Context, network string, keep map[string]bool, dryRun bool) ([]netstate.Freed, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var (
		keys  []elementKey
		freed []netstate.Freed
	)
	for _, family := range []string{"inet", "bridge"} {
		number, err := familyNumber(family)
		if err != nil {
			return nil, err
		}
		sets, err := r.setsOf(ctx, number, netstate.TableName)
		if err != nil {
			return nil, err
		}
		for _, set := range sets {
			elems, err := r.conn.allElements(ctx, set.setID)
			if err != nil {
				return nil, err
			}
			for _, e := range elems {
				mark, owner, ok := netstate.ParseMark(parseUserdata(e.user, userdataComment))
				if !ok || keep[mark] || !strings.HasPrefix(mark, netstate.NetworkMark(network)+"-") {
					continue
				}
				if owner.IsZero() {
					owner.Network = network
				}
				keys = append(keys, elementKey{set.setID, e.key})
				freed = append(freed, netstate.Freed{Object: set.line(e), Mark: mark, Owner: owner})
			}
		}
	}
	if dryRun {
		return freed, nil
	}
	for done := 0; done < len(keys); done += maxCollect {
		part := freed[done:min(done+maxCollect, len(keys))]
		err := r.deleteIf(ctx, keys[done:done+len(part)],
			func(i int, have nftElement) bool { return markOf(have) == part[i].Mark }, noReplacement)
		if err != nil {
			return freed[:done], err
		}
	}
	return freed, nil
}

// setsOf reads the sets of a table. A lost race is tried again.
func (r *ruleset) setsOf(ctx context.Context, family uint8, table string) ([]seenSet, error) {
	for {
		sets, err := r.conn.sets(ctx, family, table)
		if !errors.Is(err, errRace) {
			return sets, err
		}
	}
}

// line is the canonical line of an element of the set. Its owner's mark is in it even if the
// names didn't fit.
func (s seenSet) line(e nftElement) string {
	o := s.element(e)
	if mark := markOf(e); o.Owner.IsZero() && mark != "" {
		return o.String() + " owner " + mark
	}
	return o.String()
}

// element is an element of the set as an object. Values of types that are not ours stay
// in hexadecimal.
func (s seenSet) element(e nftElement) netstate.Element {
	_, owner, _ := netstate.ParseMark(parseUserdata(e.user, userdataComment))
	out := netstate.Element{
		Family: familyName(s.family), Table: s.table, Set: s.name,
		Match: decodeNumbered(s.key, e.key),
		Owner: owner, Lives: parseUserdata(e.user, userdataLives),
	}
	if len(e.data) > 0 {
		out.Data = decodeNumbered(s.data, e.data)
	}
	return out
}

func decodeNumbered(number uint32, value []byte) []string {
	if types, ok := typesOfNumber(number); ok {
		if parts := types.decode(value); parts != nil {
			return parts
		}
	}
	return []string{fmt.Sprintf("%#x", value)}
}

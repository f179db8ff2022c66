package kernel

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/cleat-cni/cleat/netstate"
)

// iptFamilies are the families in the order in which they are worked on.
func iptFamilies() []string { return []string{"ip", "ip6"} }

// applyIptables makes the chains and rules of a state. The undo of a family is noted before the next is begun.
func (c *change) applyIptables(ctx context.Context) error {
	wants := iptWants(c.state)
	k := c.s.k
	for _, family := range iptFamilies() {
		want := wants[family]
		if len(want) == 0 || k.iptHolds(ctx, family, want) {
			continue
		}
		var done map[string]iptDone
		k.iptMu.Lock()
		err := k.ipt.change(ctx, family, iptTables(want), func(s *iptSaved) (map[string]iptEdit, error) {
			edits := map[string]iptEdit{}
			done = map[string]iptDone{}
			for table, w := range want {
				var err error
				if edits[table], done[table], err = w.apply(s.table(table), func(lives string) bool { return k.alive(ctx, lives) }); err != nil {
					return nil, err
				}
			}
			return edits, nil
		})
		k.iptMu.Unlock()
		// A program that failed may have done one of several tables.
		if err == nil || len(want) > 1 {
			c.undo.add(k.revertIptables(family, done))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// revertIptables is the undo of what was done to a family.
func (k *Kernel) revertIptables(family string, done map[string]iptDone) undoFunc {
	tables := iptTables(done)
	tables = slices.DeleteFunc(tables, func(t string) bool { return len(done[t].rules)+len(done[t].taken) == 0 })
	if len(tables) == 0 {
		return nil
	}
	return func(ctx context.Context) error {
		k.iptMu.Lock()
		defer k.iptMu.Unlock()
		return k.ipt.change(ctx, family, tables, func(s *iptSaved) (map[string]iptEdit, error) {
			edits := map[string]iptEdit{}
			for _, table := range tables {
				edits[table] = done[table].revert(s.table(table))
			}
			return edits, nil
		})
	}
}

// removeIptables removes what carries the owner's mark from the tables that the state names. Where
// there are no such tables no program is started.
func (r *removal) removeIptables(ctx context.Context) error {
	var errs []error
	mark := r.state.Owner.Mark()
	k := r.s.k
	wants := iptWants(r.state)
	for _, family := range iptFamilies() {
		want := wants[family]
		tables := iptTables(want)
		exists := func(table string) bool { return k.iptMayExist(ctx, family, table, want[table].shared()) }
		if !slices.ContainsFunc(tables, exists) {
			continue
		}
		k.iptMu.Lock()
		errs = append(errs, k.ipt.change(ctx, family, tables, func(s *iptSaved) (map[string]iptEdit, error) {
			edits := map[string]iptEdit{}
			for table, w := range want {
				var names []string
				for _, c := range w.chains {
					if !c.Owner.IsZero() {
						names = append(names, c.Name)
					}
				}
				edits[table], _ = s.table(table).remove(func(m string) bool { return m == mark }, names)
			}
			return edits, nil
		}))
		k.iptMu.Unlock()
	}
	return errors.Join(errs...)
}

// iptables compares the chains and rules with what the programs print.
func (c *comparison) iptables(ctx context.Context) error {
	wants := iptWants(c.state)
	for _, family := range iptFamilies() {
		want := wants[family]
		if len(want) == 0 {
			continue
		}
		s, err := c.s.k.ipt.read(ctx, family, iptTables(want))
		if err != nil {
			return err
		}
		for _, table := range iptTables(want) {
			c.diffs = append(c.diffs, want[table].diff(s.table(table))...)
		}
	}
	return nil
}

// collectIptables removes, unless dryRun, the rules that carry a mark of network which is not in keep, with the chains that
// they own, from all tables. It starts no program where no table is in use or none is installed.
func (k *Kernel) collectIptables(ctx context.Context, network string, keep map[string]bool, dryRun bool) ([]netstate.Freed, error) {
	goes := func(mark string) bool {
		return !keep[mark] && strings.HasPrefix(mark, netstate.NetworkMark(network)+"-")
	}
	k.iptMu.Lock()
	defer k.iptMu.Unlock()
	var (
		freed []netstate.Freed
		errs  []error
	)
	for _, family := range iptFamilies() {
		save, _ := iptPrograms(family)
		exists := func(table string) bool { return k.iptMayExist(ctx, family, table, nil) }
		if _, err := k.ipt.find(save); err != nil || !slices.ContainsFunc([]string{"filter", "mangle", iptNAT, "raw"}, exists) {
			continue
		}
		var found []netstate.Freed
		look := func(s *iptSaved) (map[string]iptEdit, error) {
			edits := map[string]iptEdit{}
			found = nil
			for _, table := range iptTables(s.tables) {
				var rules []iptRule
				edits[table], rules = s.tables[table].remove(goes, nil)
				for _, r := range rules {
					found = append(found, r.freed(network, family, table))
				}
			}
			if dryRun {
				return nil, nil
			}
			return edits, nil
		}
		err := k.ipt.change(ctx, family, nil, look)
		if err == nil {
			freed = append(freed, found...)
		}
		errs = append(errs, err)
	}
	return freed, errors.Join(errs...)
}

func (r iptRule) freed(network, family, table string) netstate.Freed {
	owner := r.owner
	if owner.IsZero() {
		owner.Network = network
	}
	return netstate.Freed{Object: r.line(family, table), Mark: r.mark, Owner: owner}
}

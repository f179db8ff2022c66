package lint

import (
	"path/filepath"
	"slices"
)

// sameName finds files of one network's name.
func sameName() Rule {
	return Rule{
		ID: "L501", Name: "same-name",
		Why: "A network is looked up by its name, and the first file that has it is used: the other one is not, whatever it " +
			"says. It is mostly a copy, or what a former network stack left.",
		check: func(r *run) {
			first := map[string]*network{}
			for _, n := range r.inOrder() {
				if n.name == "" {
					continue
				}
				before := first[n.name]
				if before == nil {
					first[n.name] = n
					continue
				}
				r.value(n.doc, member(n.root, "name"), Error, "the network %s is already configured in %s: this file is not used", n.name, before.doc.name()).
					hint("give it another name, or remove the file")
			}
		},
	}
}

// inOrder are the networks in the order in which a name is looked up: lists first.
func (r *run) inOrder() []*network {
	all := slices.Clone(r.networks)
	slices.SortStableFunc(all, func(a, b *network) int {
		listA, listB := filepath.Ext(a.doc.Path) == ".conflist", filepath.Ext(b.doc.Path) == ".conflist"
		switch {
		case listA != listB && listA:
			return -1
		case listA != listB:
			return 1
		}
		return comparePaths(a.doc.Path, b.doc.Path)
	})
	return all
}

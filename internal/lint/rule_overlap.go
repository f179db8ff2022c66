package lint

import (
	"path/filepath"
	"slices"

	"github.com/cleat-cni/cleat/cni"
)

// overlap finds networks that give the same addresses.
func overlap() Rule {
	return Rule{
		ID: "L401", Name: "overlap",
		Why: "Which addresses are taken is kept for each network by itself. Two that give addresses of the same range give " +
			"the same ones, and one of both pods is unreachable. Ranges that overlap within a network the plugin refuses " +
			"(L109).",
		check: func(r *run) {
			all := r.subnets()
			slices.SortStableFunc(all, func(a, b subnet) int { return a.Start.Compare(b.Start) })
			told := map[*cni.Tree]bool{} // one overlap a range is enough
			for i, a := range all {
				for _, b := range all[i+1:] {
					if a.End.Less(b.Start) {
						break
					}
					r.overlapping(a, b, told)
				}
			}
		},
	}
}

// overlapping tells of two ranges, at the one that comes later in the order of files.
func (r *run) overlapping(a, b subnet, told map[*cni.Tree]bool) {
	if a.step.net == b.step.net || a.step.net.name == b.step.net.name || a.Start.Is4() != b.Start.Is4() {
		return // L109, or the file is not used: L501
	}
	if comparePaths(a.step.doc.Path, b.step.doc.Path) > 0 {
		a, b = b, a
	}
	if told[b.at] {
		return
	}
	told[b.at] = true
	line, _ := a.step.doc.position(a.at.Start)
	r.value(b.step.doc, b.at, Warning, "%s-%s overlaps %s-%s of the network %s", b.Start, b.End, a.Start, a.End, a.step.net.name).
		hint("that is in line %d of %s: each network gives addresses for itself, so take ranges apart", line, filepath.Base(a.step.doc.Path))
}

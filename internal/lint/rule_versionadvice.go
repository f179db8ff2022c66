package lint

import (
	"slices"

	"github.com/cleat-cni/cleat/cni"
)

// versionAdvice tells what a newer version would bring.
func versionAdvice() Rule {
	return Rule{
		ID: "L204", Name: "version-advice",
		Why: "CHECK came with version 0.4.0, GC and STATUS with 1.1.0: before, nothing finds out that a network is damaged or " +
			"full. A runtime that doesn't know a version takes the highest of cniVersions that it knows, so naming both is " +
			"safe.",
		check: func(r *run) {
			for _, n := range r.networks {
				t := member(n.root, "cniVersion")
				text := textOf(n.root, "cniVersion")
				if t == nil || text == "" || !cni.Supported(text) || cni.AtLeast(n.version, cni.Current) {
					continue
				}
				lacks := "GC and STATUS, which came with 1.1.0"
				if !cni.AtLeast(n.version, "0.4.0") {
					lacks = "CHECK, which came with 0.4.0, and GC and STATUS, which came with 1.1.0"
				}
				f := r.value(n.doc, t, Info, "version %s has no %s", n.version, lacks)
				if r.node.known && !slices.Contains(r.common(n, []string{cni.Current}), cni.Current) {
					f.hint("not all of its plugins speak %s here: update them first", cni.Current)
				} else if !n.single {
					f.hint(`write "cniVersions": ["%s", "%s"] beside it: older runtimes keep to %s`, text, cni.Current, text)
				}
			}
		},
	}
}

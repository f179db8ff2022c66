package lint

import "path/filepath"

// wrongEnding finds files whose name says that they hold something else.
func wrongEnding() Rule {
	return Rule{
		ID: "L208", Name: "wrong-ending",
		Why: "Most runtimes decide by the ending what a file holds: a list in a .conf is refused for want of a type, a single " +
			"plugin in a .conflist for want of plugins. Cleat looks at the content.",
		check: func(r *run) {
			for _, n := range r.networks {
				if !n.doc.isConfig() {
					continue // L506
				}
				isList := filepath.Ext(n.doc.Path) == ".conflist"
				switch list := member(n.root, "plugins"); {
				case n.single && isList:
					r.key(n.doc, member(n.root, "type"), Warning, "a .conflist holds a list of plugins, and this is a single one").
						hint(`put it into a list, as {"cniVersion": …, "name": …, "plugins": [{"type": …}]}`)
				case list != nil && !isList:
					r.key(n.doc, list, Warning, "a %s holds a single plugin, and this is a list", filepath.Ext(n.doc.Path)).
						hint("rename the file, so that it ends in .conflist")
				}
			}
		},
	}
}

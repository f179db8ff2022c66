package lint

import (
	"path/filepath"
	"strings"

	"github.com/cleat-cni/cleat/internal/nearmiss"
)

// oddEnding finds files that look like configurations and are not read.
func oddEnding() Rule {
	return Rule{
		ID: "L506", Name: "odd-ending",
		Why: "Runtimes read files that end in .conflist, .conf and .json, and no others. A network in a file of another " +
			"ending is not there.",
		check: func(r *run) {
			for _, d := range r.docs {
				name, ext := d.name(), filepath.Ext(d.Path)
				if d.isConfig() || d.Network != "" || d.Err != nil || leftBy(name) != "" || d.root == nil || !d.root.IsObject() {
					continue
				}
				if member(d.root, "plugins") == nil && member(d.root, "type") == nil {
					continue
				}
				f := r.file(d, Warning, "this is a network, and is not read: its name ends in none of %s", strings.Join(endings(), ", "))
				if near := nearmiss.Of(ext, endings()); len(near) > 0 {
					f.hint("did you mean %s?", near[0])
				} else {
					f.hint("rename the file, so that it ends in .conflist")
				}
			}
		},
	}
}

package lint

import (
	"slices"
	"strings"

	"github.com/cleat-cni/cleat/internal/nearmiss"
)

// notInstalled finds plugins that this machine doesn't have.
func notInstalled() Rule {
	return Rule{
		ID: "L601", Name: "not-installed",
		Why: "Every plugin of a list has to be there: one that is missing fails each attachment. The file may be for another " +
			"machine, so it is a warning, unless a plugin is there whose name is close.",
		check: func(r *run) {
			if !r.node.known {
				return
			}
			for _, s := range r.sections() {
				a, asked := r.node.plugins[s.typ]
				if !asked || a.err == nil || s.typAt == nil || s.doc.spoilt[s.typAt] {
					continue
				}
				near := nearmiss.Of(s.typ, r.types())
				if len(near) > 0 {
					r.value(s.doc, s.typAt, Error, "there is no plugin %s", s.typ).hint("did you mean %s?", strings.Join(near, " or "))
				} else {
					r.value(s.doc, s.typAt, Warning, "the plugin %s is not installed here", s.typ).
						hint("install it, or name its folder with --plugin-dir")
				}
			}
		},
	}
}

// types are the types of the plugins that are built in.
func (r *run) types() []string {
	var all []string
	for _, d := range r.cfg.Plugins {
		all = append(all, d.Info.Type)
	}
	slices.Sort(all)
	return all
}

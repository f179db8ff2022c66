package lint

import (
	"slices"
	"strings"

	"github.com/cleat-cni/cleat/cni"
)

// tooOld finds plugins that don't speak the version that a network is called in.
func tooOld() Rule {
	return Rule{
		ID: "L602", Name: "too-old",
		Why: "The runtime calls every plugin in the version that the network names, and one that doesn't speak it refuses. " +
			"The plugins were asked which they speak.",
		check: func(r *run) {
			for s, part := range r.sections() {
				a, asked := r.node.plugins[part.typ]
				if !asked || a.err != nil || len(a.Versions) == 0 || part.typAt == nil || slices.Contains(a.Versions, s.net.version) ||
					!cni.Supported(s.net.version) {
					continue
				}
				f := r.value(part.doc, part.typAt, Warning, "%s does not speak version %s, which the network is called in", part.typ, s.net.version)
				if all := r.common(s.net, cni.Versions()); len(all) > 0 {
					f.hint("%s speaks %s; the highest that all plugins of the network speak is %s", a.Where, strings.Join(a.Versions, ", "), all[len(all)-1])
				} else {
					f.hint("%s speaks %s", a.Where, strings.Join(a.Versions, ", "))
				}
			}
		},
	}
}

package lint

import (
	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/schema"
)

// missingKey finds objects without a key that they need.
func missingKey() Rule {
	return Rule{
		ID: "L105", Name: "missing-key",
		Why: "Without the key the file is no network, or the plugin refuses it.",
		check: func(r *run) {
			r.values(func(t typed) {
				if t.want.Type != schema.Object || !t.node.IsObject() {
					return
				}
				for _, k := range t.want.Keys {
					m := member(t.node, k.Name)
					blank := m == nil || m.IsNull()
					if !k.Required || !blank || t.section == nil && k.Name == "cniVersion" { // L203
						continue
					}
					f := r.key(t.doc, t.node, Error, "%s is missing%s", k.Name, t.in())
					if k.Doc != "" {
						f.hint("its meaning: %s", k.Doc)
					}
				}
			})
			for _, n := range r.networks {
				if n.single && isMissing(n.root, "name") {
					r.key(n.doc, n.root, Error, "name is missing").hint(`name the network, as "name": "net1"`)
				}
			}
		},
	}
}

// isMissing reports whether an object has no value for a key.
func isMissing(t *cni.Tree, key string) bool {
	m := member(t, key)
	return m == nil || m.IsNull()
}

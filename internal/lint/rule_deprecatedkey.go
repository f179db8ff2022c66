package lint

import "github.com/cleat-cni/cleat/internal/schema"

// deprecatedKey finds keys that have a successor.
func deprecatedKey() Rule {
	return Rule{
		ID: "L107", Name: "deprecated-key",
		Why: "It works, but there is a better way to say it.",
		check: func(r *run) {
			r.values(func(t typed) {
				if t.want.Type != schema.Object || !t.node.IsObject() {
					return
				}
				for _, m := range t.node.Children {
					if k, ok := keyOf(t.want, m.Key); ok && k.Deprecated != "" {
						r.key(t.doc, m, Info, "the key %q%s is deprecated", m.Key, t.of()).hint("%s", k.Deprecated)
						return // one of the object's keys says it all
					}
				}
			})
		},
	}
}

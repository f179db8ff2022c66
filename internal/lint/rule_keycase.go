package lint

import (
	"strconv"

	"github.com/cleat-cni/cleat/internal/schema"
)

// keyCase finds keys that are written with other letters than they are documented with.
func keyCase() Rule {
	return Rule{
		ID: "L102", Name: "key-case", Fixes: true,
		Why: "Plugins written in Go read keys in any case, so such a key works by accident; other programs, and the " +
			"specification's own keys, want the case that is documented.",
		check: func(r *run) {
			r.values(func(t typed) {
				if t.want.Type != schema.Object || !t.node.IsObject() {
					return
				}
				for _, m := range t.node.Children {
					right, ok := rightCase(t.want, m.Key)
					if !ok || t.node.Get(right) != nil {
						continue
					}
					severity, what := Warning, "is read by plugins in Go alone"
					if t.step == nil || t.node == t.step.node && isSpecKey(r.book.Foreign(), right) {
						severity, what = Error, "is not read"
					}
					r.key(t.doc, m, severity, "the key %q %s", m.Key, what).hint("write %q", right).
						fix(Edit{m.KeyStart, m.KeyEnd, strconv.Quote(right)})
					delete(t.doc.spoilt, m) // the value may well be judged
				}
			})
		},
	}
}

// rightCase is the key of a schema that differs from name in case alone, and whether there is one.
func rightCase(v *schema.Value, name string) (string, bool) {
	if _, exact := v.Key(name); exact {
		return "", false
	}
	for _, k := range v.Keys {
		if sameButCase(k.Name, name) {
			return k.Name, true
		}
	}
	return "", false
}

// isSpecKey reports whether a key is one that the specification's readers look for by themselves, in its exact case.
func isSpecKey(spec *schema.Value, name string) bool {
	_, ok := spec.Key(name)
	return ok
}

package lint

import (
	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/schema"
)

// typed is a value of a configuration with what a schema says of it.
type typed struct {
	doc  *document
	net  *network
	step *step // nil for the network's own keys
	node *cni.Tree
	want *schema.Value
	// section is whose schema it is; nil for the network's own keys.
	section *section
}

// values visits every value that a schema speaks of, objects before what is in them. What is of another type than it should be is visited, and
// what is in it is not.
func (r *run) values(visit func(typed)) {
	for _, n := range r.networks {
		if !n.single {
			walk(typed{doc: n.doc, net: n, node: n.root, want: r.book.List()}, visit)
		}
	}
	for s, part := range r.sections() {
		if part.keys != nil {
			walk(typed{part.doc, s.net, s, part.node, part.keys, part}, visit)
		}
	}
}

func walk(t typed, visit func(typed)) {
	visit(t)
	if !matches(t.node, t.want) {
		return
	}
	inner := func(node *cni.Tree, want *schema.Value) {
		isSection := t.step != nil && t.section != &t.step.ipam && node == t.step.ipam.node && t.step.ipam.keys != nil
		if want != nil && want.Type != schema.Any && !isSection {
			next := t
			next.node, next.want = node, want
			walk(next, visit)
		}
	}
	for _, c := range t.node.Children {
		switch t.want.Type {
		case schema.List:
			inner(c, t.want.Items)
		case schema.Object:
			want, known := keyOf(t.want, c.Key)
			if !known {
				want = t.want.Others
			}
			inner(c, want)
		}
	}
}

// keyOf is what a schema says of a key, in whatever case it is written.
func keyOf(v *schema.Value, name string) (*schema.Value, bool) {
	if k, ok := v.Key(name); ok {
		return k, true
	}
	for i := range v.Keys {
		if sameButCase(v.Keys[i].Name, name) {
			return &v.Keys[i].Value, true
		}
	}
	return nil, false
}

// matches reports whether a value is of the type that a schema wants. Null is as if it were not there.
func matches(t *cni.Tree, want *schema.Value) bool {
	switch want.Type {
	case schema.Any:
		return true
	case schema.Object:
		return t.IsObject() || t.IsNull()
	case schema.List:
		return t.IsList() || t.IsNull()
	case schema.Boolean:
		return t.Raw[0] == 't' || t.Raw[0] == 'f' || t.IsNull()
	case schema.String:
		return t.Raw[0] == '"' || t.IsNull()
	}
	if t.IsNull() {
		return true
	}
	isNumber := t.Raw[0] == '-' || '0' <= t.Raw[0] && t.Raw[0] <= '9'
	return isNumber && (want.Type == schema.Number || isWhole(t.Raw))
}

// isWhole reports whether a number is written as a whole one, as encoding/json wants it.
func isWhole(number []byte) bool {
	for i, c := range number {
		if (c < '0' || c > '9') && (i > 0 || c != '-') {
			return false
		}
	}
	return true
}

package lint

import (
	"slices"
	"strings"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/nearmiss"
	"github.com/cleat-cni/cleat/internal/schema"
)

// unknownKey finds keys that the plugin does not read.
func unknownKey() Rule {
	return Rule{
		ID: "L101", Name: "unknown-key",
		Why: "Plugins pass over keys that they don't know, so a key that is mistyped does nothing, silently. One that is " +
			"close to a key that there is is an error; else it may be for another program, and is a warning.",
		check: func(r *run) {
			r.values(func(t typed) {
				for _, m := range t.unknown() {
					if len(r.homes(t, m)) > 0 {
						continue // L103
					}
					near := nearmiss.Of(m.Key, t.want.Names())
					switch {
					case len(near) > 0:
						r.key(t.doc, m, Error, "unknown key %q%s", m.Key, t.of()).hint("did you mean %s?", strings.Join(near, " or "))
					case t.section == nil:
						r.key(t.doc, m, Info, "the key %q of a network is none of the specification's", m.Key).
							hint("runtimes pass over it, unless it is their own")
					default:
						r.key(t.doc, m, Warning, "unknown key %q%s: it does nothing", m.Key, t.of()).hint("%s", known(t.want))
					}
				}
			})
		},
	}
}

// unknown are the members of an object whose keys the schema does not have.
func (t typed) unknown() []*cni.Tree {
	if t.want.Type != schema.Object || t.want.Others != nil || !t.node.IsObject() {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(t.node.Children), func(m *cni.Tree) bool {
		_, known := keyOf(t.want, m.Key)
		isOther := reserved(m.Key) || m.Key == "$schema" || m.Key == "ipam" || isComment(m.Key) || inCapabilities(t)
		return known || isOther || t.net.single && t.node == t.net.root && isListKey(m.Key)
	})
}

// isComment reports whether a key is one of those that people put remarks under, for want of comments in JSON.
func isComment(key string) bool {
	return strings.HasPrefix(key, "_") || strings.HasPrefix(key, "//") || sameButCase(key, "comment") || sameButCase(key, "description")
}

// isListKey reports whether a key is the network's, which a single plugin's file has too.
func isListKey(key string) bool {
	return slices.Contains([]string{"cniVersions", "disableCheck", "disableGC"}, key)
}

// inCapabilities reports whether the object is that of the capabilities: see L307.
func inCapabilities(t typed) bool {
	return t.node.Key == "capabilities" && t.step != nil && t.node.Parent == t.step.node
}

// of names what an object belongs to, behind its key.
func (t typed) of() string {
	switch {
	case t.section == nil:
		return " of a network"
	case t.node == t.section.node && t.section.typ != "":
		return " of " + t.section.typ
	}
	return t.in()
}

// in names an object that something is in.
func (t typed) in() string {
	switch {
	case t.section == nil:
		return " in the network"
	case t.section.typ == "":
		return ""
	case t.node == t.section.node:
		return " in " + t.section.typ
	}
	return " in " + listOf(t.node) + " of " + t.section.typ
}

// listOf is the key of the list that an element stands in.
func listOf(t *cni.Tree) string {
	for t.Key == "" && t.Parent != nil {
		t = t.Parent
	}
	return t.Key
}

// known says which keys an object has, if they are few.
func known(v *schema.Value) string {
	const few = 8
	if names := v.Names(); len(names) <= few {
		return "its keys are " + strings.Join(names, ", ")
	}
	return "remove it"
}

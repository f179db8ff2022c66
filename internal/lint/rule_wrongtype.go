package lint

import (
	"strconv"
	"strings"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/schema"
)

// wrongType finds values of another JSON type than the plugin reads.
func wrongType() Rule {
	return Rule{
		ID: "L104", Name: "wrong-type", Fixes: true,
		Why: "A plugin refuses a value of another type, and with it the whole configuration, when the first pod starts. A " +
			"number or a true in quotes is mended.",
		check: func(r *run) {
			r.values(func(t typed) {
				switch {
				case t.node.Parent != nil && t.node.Parent.IsList() && t.node.IsNull():
					r.value(t.doc, t.node, Error, "null is not allowed in a list").hint("remove it")
				case matches(t.node, t.want) || isFlag(t) || isCapability(t):
				default:
					f := r.value(t.doc, t.node, Error, "%s wants %s, and this is %s", listOf(t.node), t.want.Type.Said(), shown(t.node))
					bare := unquoted(t.node, t.want)
					switch {
					case bare != "":
						f.hint("write %s", bare).fix(Edit{t.node.Start, t.node.End, bare})
					case isFlat(t) && t.node.Parent.IsList():
						f.hint("each element is a list itself: [[{…}, {…}]] gives one address out of either range, [[{…}], [{…}]] one out of each")
					case isFlat(t):
						f.hint("put [ and ] around it")
					case t.want.Doc != "":
						f.hint("its meaning: %s", t.want.Doc)
					}
				}
			})
		},
	}
}

// shown is a value in a message: a number as it is written, since there are numbers of several kinds.
func shown(t *cni.Tree) string {
	const short = 20
	if t.Kind() == "a number" && len(t.Raw) < short {
		return string(t.Raw)
	}
	return t.Kind()
}

// isFlat reports whether an object stands where a list of objects should.
func isFlat(t typed) bool {
	return t.node.IsObject() && t.want.Type == schema.List && t.want.Items != nil && t.want.Items.Type == schema.Object
}

// unquoted is the number or truth value that a string holds, if that is wanted; else "".
func unquoted(t *cni.Tree, want *schema.Value) string {
	text, ok := t.Text()
	text = strings.TrimSpace(text)
	switch {
	case !ok || text == "":
	case want.Type == schema.Boolean && (strings.EqualFold(text, "true") || strings.EqualFold(text, "false")):
		return strings.ToLower(text)
	case want.Type == schema.Integer && isWhole([]byte(text)):
		n, err := strconv.ParseInt(text, 10, 64)
		if plain := strconv.FormatInt(n, 10); err == nil && plain == text && (!want.Min.Set || n >= want.Min.Value) {
			return text
		}
	}
	return ""
}

// isFlag reports whether a value is one of the network's flags as a string, which version 0.4.0 wrote so: see L205.
func isFlag(t typed) bool {
	text, ok := t.node.Text()
	return ok && t.step == nil && t.want.Type == schema.Boolean && (strings.EqualFold(text, "true") || strings.EqualFold(text, "false"))
}

// isCapability reports whether a value says whether a capability is declared: see L308.
func isCapability(t typed) bool {
	return t.step != nil && t.node.Parent != nil && t.node.Parent.Key == "capabilities" && t.node.Parent.Parent == t.step.node
}

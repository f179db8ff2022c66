package lint

import "strings"

// stringBool finds flags of the network that are written as strings.
func stringBool() Rule {
	return Rule{
		ID: "L205", Name: "string-bool", Fixes: true,
		Why: "Version 0.4.0 of the specification wrote these flags as strings; since 1.0.0 they are true or false, and not " +
			"every runtime takes both.",
		check: func(r *run) {
			r.values(func(t typed) {
				if isFlag(t) {
					text, _ := t.node.Text()
					word := strings.ToLower(text)
					r.value(t.doc, t.node, Warning, "%s is a string", t.node.Key).hint("write %s", word).
						fix(Edit{t.node.Start, t.node.End, word})
				}
			})
		},
	}
}

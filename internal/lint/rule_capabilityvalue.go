package lint

import "strings"

// capabilityValue finds capabilities that are neither true nor false, or declared and switched off.
func capabilityValue() Rule {
	return Rule{
		ID: "L308", Name: "capability-value", Fixes: true,
		Why: "A capability is declared by true. A runtime that finds anything else refuses the file, or passes over it.",
		check: func(r *run) {
			for s := range r.steps() {
				caps := member(s.node, "capabilities")
				if caps == nil || !caps.IsObject() {
					continue
				}
				for _, c := range caps.Children {
					text, _ := c.Text()
					word := strings.ToLower(text)
					switch {
					case string(c.Raw) == "true":
					case string(c.Raw) == "false":
						r.value(s.doc, c, Info, "the capability %s is switched off", c.Key).hint("that says the same as leaving it out")
					case word == "true" || word == "false":
						r.value(s.doc, c, Error, "the capability %s is a string", c.Key).hint("write %s", word).fix(Edit{c.Start, c.End, word})
					default:
						r.value(s.doc, c, Error, "the capability %s wants true or false, and this is %s", c.Key, c.Kind()).
							hint("write true; options stand beside type")
					}
				}
			}
		},
	}
}

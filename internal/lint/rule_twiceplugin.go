package lint

// twicePlugin finds a chained plugin that stands in a list twice.
func twicePlugin() Rule {
	return Rule{
		ID: "L305", Name: "plugin-twice",
		Why: "The second object of a plugin that works on the same interface overrides the first, or stands in its way; that " +
			"it was pasted twice is likelier.",
		check: func(r *run) {
			for _, n := range r.networks {
				seen := map[string]*step{}
				for _, s := range n.steps {
					first := seen[s.typ]
					if first == nil {
						seen[s.typ] = s
						continue
					}
					if s.known && s.def.IsChained() {
						line, _ := first.doc.position(first.typAt.Start)
						r.value(s.doc, s.typAt, Warning, "%s stands in the list twice", s.typ).
							hint("the first is in line %d of %s: make one of both", line, first.doc.Path)
					}
				}
			}
		},
	}
}

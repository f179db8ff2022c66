package lint

// secondInterface finds a second plugin that makes the interface.
func secondInterface() Rule {
	return Rule{
		ID: "L302", Name: "second-interface",
		Why: "All plugins of a list are called for one interface of the pod. The second that makes it finds it there already, " +
			"and fails.",
		check: func(r *run) {
			for _, n := range r.networks {
				var first *step
				for _, s := range n.steps {
					switch {
					case !s.known || s.def.Profile.Makes == "" || s.def.IsChained() || len(s.def.Profile.Behind) > 0:
					case first == nil:
						first = s
					case first.def.Profile.Makes == s.def.Profile.Makes || first.def.Profile.Makes != loopbackKind && s.def.Profile.Makes != loopbackKind:
						r.value(s.doc, s.typAt, Error, "%s makes the pod's interface, and so does %s before it", s.typ, first.typ).
							hint("an interface a network: put it into a file of its own")
					}
				}
			}
		},
	}
}

// loopbackKind is the interface that every pod has, beside which a list may make another.
const loopbackKind = "lo"

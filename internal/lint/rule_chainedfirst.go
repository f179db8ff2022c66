package lint

// chainedFirst finds plugins that work on an interface which no plugin before them makes.
func chainedFirst() Rule {
	return Rule{
		ID: "L301", Name: "chained-first",
		Why: "portmap, firewall, bandwidth, tuning and their like change what a plugin before them made. Called first they " +
			"fail.",
		check: func(r *run) {
			for _, n := range r.networks {
				for _, s := range n.steps {
					if !s.known || s.def.IsIPAM() || !s.def.IsChained() {
						break // it makes the interface, or is unknown and may well
					}
					r.value(s.doc, s.typAt, Error, "%s has no interface to work on: no plugin before it makes one", s.typ).
						hint("put it after the plugin that makes the interface, such as bridge")
				}
			}
		},
	}
}

package lint

// unusedIPAM finds an ipam section in the object of a plugin that takes no addresses.
func unusedIPAM() Rule {
	return Rule{
		ID: "L108", Name: "unused-ipam",
		Why: "The section belongs to the plugin that makes the interface. Others don't call its IPAM plugin, and the pod gets " +
			"no address.",
		check: func(r *run) {
			for s := range r.steps() {
				if s.ipam.node != nil && s.known && !s.def.IsIPAM() && !s.def.TakesIPAM() {
					r.key(s.doc, s.ipam.node, Warning, "%s takes no addresses: the section does nothing", s.typ).
						hint("move it into the object of the plugin that makes the interface")
				}
			}
		},
	}
}

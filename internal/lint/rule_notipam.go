package lint

// notIPAM finds ipam sections that name a plugin which gives no addresses.
func notIPAM() Rule {
	return Rule{
		ID: "L304", Name: "not-ipam",
		Why: "What ipam.type names is called for addresses. A plugin that makes interfaces makes another one, or fails.",
		check: func(r *run) {
			for s := range r.steps() {
				if s.ipam.node != nil && s.ipam.known && !s.ipam.def.IsIPAM() {
					r.value(s.doc, s.ipam.typAt, Error, "%s gives no addresses", s.ipam.typ).hint("name an IPAM plugin, such as host-local")
				}
			}
		},
	}
}

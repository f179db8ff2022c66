package lint

// ipamInList finds IPAM plugins that stand in the list.
func ipamInList() Rule {
	return Rule{
		ID: "L303", Name: "ipam-in-list",
		Why: "An IPAM plugin is called by the plugin that makes the interface, with that one's configuration. In the list by " +
			"itself it gives an address that no interface gets.",
		check: func(r *run) {
			for s := range r.steps() {
				if s.known && s.def.IsIPAM() {
					r.value(s.doc, s.typAt, Error, "%s gives addresses and can't stand in a list of plugins", s.typ).
						hint(`write it as "ipam": {"type": "%s", …} of the plugin that makes the interface`, s.typ)
				}
			}
		},
	}
}

package lint

// undeclaredCapability finds plugins that are never asked for anything.
func undeclaredCapability() Rule {
	return Rule{
		ID: "L306", Name: "undeclared-capability",
		Why: "A runtime tells a plugin no more than the capabilities that its object declares. portmap without portMappings " +
			"maps no port, and nobody is told.",
		check: func(r *run) {
			for s := range r.steps() {
				if !s.rehearsed || !s.idle || holdsAny(s.node, s.doc.spoilt) {
					continue
				}
				caps := member(s.node, "capabilities")
				for _, name := range s.def.Profile.Capabilities {
					if c := member(caps, name); c != nil && string(c.Raw) != "false" {
						continue
					}
					r.value(s.doc, s.typAt, Warning, "%s is not told %s: it does nothing", s.typ, name).
						hint(`write "capabilities": {"%s": true}`, name)
				}
			}
		},
	}
}

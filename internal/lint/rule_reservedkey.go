package lint

// reservedKey finds keys that are the runtime's.
func reservedKey() Rule {
	return Rule{
		ID: "L106", Name: "reserved-key",
		Why: "What the runtime tells a plugin stands under these keys (specification, section 1). In a file they are dropped, " +
			"or overwritten.",
		check: func(r *run) {
			for s := range r.steps() {
				for _, m := range s.node.Children {
					if reserved(m.Key) {
						r.key(s.doc, m, Warning, "the key %q is the runtime's: what the file says is not used", m.Key).hint("remove it")
					}
				}
			}
		},
	}
}

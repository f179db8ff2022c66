package lint

// missingVersion finds networks that name no version.
func missingVersion() Rule {
	return Rule{
		ID: "L203", Name: "missing-version",
		Why: "Without cniVersion plugins are called in version 0.1.0, which knows one address of a family, no interfaces in " +
			"results, and neither CHECK nor GC nor STATUS.",
		check: func(r *run) {
			for _, n := range r.networks {
				if t := member(n.root, "cniVersion"); t == nil || t.IsNull() || string(t.Raw) == `""` {
					if t == nil {
						t = n.root
					}
					r.key(n.doc, t, Warning, "cniVersion is missing: plugins are called in version 0.1.0").hint(`write "cniVersion": "1.0.0"`)
				}
			}
		},
	}
}

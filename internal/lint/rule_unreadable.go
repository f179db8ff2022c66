package lint

// unreadable finds what has the name of a configuration and can't be read as one.
func unreadable() Rule {
	return Rule{
		ID: "L505", Name: "unreadable",
		Why: "A link that leads nowhere, a folder or a pipe with the name of a configuration is passed over, and some " +
			"runtimes fail on it, or wait for a writer.",
		check: func(r *run) {
			for _, d := range r.docs {
				if d.Err != nil {
					r.file(d, Warning, "it can't be read: %s", d.Err).hint("remove it, or put a file in its place")
				}
			}
		},
	}
}

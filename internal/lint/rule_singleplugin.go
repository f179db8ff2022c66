package lint

// singlePlugin finds files in the form that version 1.0.0 took away.
func singlePlugin() Rule {
	return Rule{
		ID: "L207", Name: "single-plugin",
		Why: "A file with one plugin's object and no list is a form of old versions; version 1.0.0 of the specification has " +
			"lists alone. Runtimes still read it, but no other plugin, such as portmap, can be added.",
		check: func(r *run) {
			for _, n := range r.networks {
				if n.single {
					r.key(n.doc, member(n.root, "type"), Info, "this file holds one plugin and no list").
						hint(`write {"cniVersion": …, "name": …, "plugins": [{"type": …}]} into a file that ends in .conflist`)
				}
			}
		},
	}
}

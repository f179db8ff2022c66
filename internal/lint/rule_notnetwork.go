package lint

// notNetwork finds JSON that is neither a network nor a plugin's configuration.
func notNetwork() Rule {
	return Rule{
		ID: "L003", Name: "not-a-network",
		Why: "A network's file holds one object with a name and a list of plugins. Other JSON in the folder, such as a " +
			"runtime's own settings, is reported as a broken network by whoever reads the folder.",
		check: func(r *run) {
			for _, d := range r.docs {
				switch {
				case d.root == nil || !d.isJudged():
				case !d.root.IsObject():
					r.value(d, d.root, Error, "a network is an object, and this is %s", d.root.Kind()).
						hint(`write {"cniVersion": …, "name": …, "plugins": […]}`)
				case d.Network == "" && member(d.root, "plugins") == nil && member(d.root, "type") == nil && member(d.root, "name") == nil:
					r.key(d, d.root, Error, "this is no network: it has no plugins and no type").
						hint(`a network has "name" and "plugins", a single plugin "name" and "type"`)
				}
			}
		},
	}
}

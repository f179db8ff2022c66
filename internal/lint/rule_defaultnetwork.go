package lint

// defaultNetwork tells which network of a folder pods are attached to.
func defaultNetwork() Rule {
	return Rule{
		ID: "L502", Name: "default-network",
		Why: "A kubelet's runtime attaches pods to one network: that of the file whose name sorts first. A file of another " +
			"stack that sorts before it takes all pods; if that file is broken, some runtimes take the next one, and others " +
			"none.",
		check: func(r *run) {
			if !r.folder.Whole {
				return
			}
			var configs []*document
			for _, d := range r.docs {
				if d.isConfig() && d.Network == "" && d.Err == nil {
					configs = append(configs, d)
				}
			}
			if len(configs) < 2 {
				return
			}
			first := configs[0]
			for _, d := range configs {
				if d.name() < first.name() {
					first = d
				}
			}
			switch n := r.networkOf(first); {
			case n == nil:
				r.file(first, Warning, "this file sorts first, and is no network: which one pods get depends on the runtime").
					hint("mend it, or remove it")
			case n.name != "":
				r.key(first, member(n.root, "name"), Info, "%s is the network that pods get by default: its file sorts first of %d", n.name, len(configs)).
					hint("the order is that of the names of the files")
			}
		},
	}
}

// networkOf is the network in a file; nil if there is none.
func (r *run) networkOf(d *document) *network {
	for _, n := range r.networks {
		if n.doc == d {
			return n
		}
	}
	return nil
}

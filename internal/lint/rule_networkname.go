package lint

import "github.com/cleat-cni/cleat/cni"

// networkName finds names that no network can have.
func networkName() Rule {
	return Rule{
		ID: "L201", Name: "network-name",
		Why: "The name becomes part of paths, so the specification allows letters, digits, _ . and - alone. Most runtimes " +
			"look at it only when a pod starts.",
		check: func(r *run) {
			for _, n := range r.networks {
				t := member(n.root, "name")
				if t == nil {
					continue
				}
				name, ok := t.Text()
				if !ok {
					continue // L104
				}
				if err := cni.CheckNetworkName(name); err != nil {
					r.value(n.doc, t, Error, "%s", err).hint("it begins with a letter or digit, and holds letters, digits, _ . and -")
				}
			}
		},
	}
}

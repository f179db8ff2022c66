package lint

import "github.com/cleat-cni/cleat/cni"

// badType finds types that can't be the name of a program.
func badType() Rule {
	return Rule{
		ID: "L209", Name: "bad-type",
		Why: "The type is the name of a program in the plugin folders. A path in it would run any program of the host as root " +
			"(CVE-2021-20206), so it is refused.",
		check: func(r *run) {
			for _, s := range r.sections() {
				if s.typAt == nil || s.typ == "" && s.node.Key == "ipam" {
					continue // an ipam section without a type is none
				}
				if err := cni.CheckType(s.typ); err != nil {
					r.value(s.doc, s.typAt, Error, "%s", err).hint("write the bare name of the program")
				}
			}
		},
	}
}

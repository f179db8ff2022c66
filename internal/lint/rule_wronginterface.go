package lint

import (
	"slices"
	"strings"
)

// wrongInterface finds chained plugins behind an interface that they can't work on.
func wrongInterface() Rule {
	return Rule{
		ID: "L309", Name: "wrong-interface",
		Why: "portmap and firewall rule over what the host forwards, and bandwidth shapes the host's end of a pair. Packets " +
			"of a macvlan, an ipvlan or a VLAN don't pass there: mapped ports lead nowhere, and rules let nothing through and " +
			"keep nothing out.",
		check: func(r *run) {
			for _, n := range r.networks {
				var maker *step
				for _, s := range n.steps {
					if s.known && s.def.Profile.Makes != "" {
						maker = s
					}
					behind := s.def.Profile.Behind
					if maker == nil || len(behind) == 0 || slices.Contains(behind, maker.def.Profile.Makes) {
						continue
					}
					kinds, made := strings.Join(behind, " or "), maker.def.Profile.Makes
					r.value(s.doc, s.typAt, Warning, "%s works on a %s alone, and %s makes a %s", s.typ, kinds, maker.typ, made).
						hint("remove it, or take a plugin that makes a %s, such as bridge or ptp", kinds)
				}
			}
		},
	}
}

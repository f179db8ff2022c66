package doctor

import "slices"

// bridgeDown looks for bridges that pods stand on and that are down, or gone.
func bridgeDown() Check {
	return Check{
		Name: "bridge-down", Looks: "bridges of networks that have pods: whether they are there, and up",
		Why: "A tool that manages interfaces may take a bridge down, or remove it when it restarts. Its pods are then alone, " +
			"and look well.",
		Mend:  "cleat repair --all puts back what is missing",
		Good:  "the bridges of all pods are there, and up",
		Needs: ofState,
		find: func(f *Facts) []Result {
			var all []Result
			for _, s := range f.Steps {
				if !slices.ContainsFunc(f.living(), func(a attachment) bool { return a.Network == s.Network }) {
					continue
				}
				for _, name := range (&Facts{Steps: []Step{s}}).bridges() {
					switch l, there := f.Net.Link(name); {
					case !there:
						all = append(all, failed("the bridge %s of the network %s is gone, and pods are attached to it", name, s.Network))
					case l.Down:
						all = append(all, failed("the bridge %s of the network %s is down, and pods are attached to it", name, s.Network))
					}
				}
			}
			return all
		},
	}
}

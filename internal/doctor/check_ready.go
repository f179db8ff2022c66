package doctor

// ready looks whether networks can serve an ADD.
func ready() Check {
	return Check{
		Name: "ready", Looks: "whether each plugin of each network could serve an ADD now, as cleat status tells it",
		Why:   "The next pod would fail.",
		Mend:  "cleat status says more",
		Good:  "all networks can serve an ADD",
		Needs: ofFeatures,
		find: func(f *Facts) []Result {
			var all []Result
			for _, r := range f.Ready {
				if r.Err != nil {
					all = append(all, failed("network %s: %s: %v", r.Network, r.Plugin, r.Err).with("%s", r.Fix))
				}
			}
			return all
		},
	}
}

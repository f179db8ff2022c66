package doctor

import "strings"

// pluginsInstalled looks whether all plugins are there.
func pluginsInstalled() Check {
	return Check{
		Name: "plugins-installed", Looks: "whether each plugin that a network names is built in or in a plugin folder",
		Why:  "One that is missing fails every attachment to the network, and a DEL of what is attached.",
		Mend: "install it, or take it out of the network; cleat install puts Cleat's own into the folder",
		Good: "all plugins are there",
		find: func(f *Facts) []Result {
			var all []Result
			for _, p := range f.Plugins {
				if p.Err != nil {
					all = append(all, failed("%s, which %s names, is not there: %v", p.Type, networksOf(p), p.Err))
				}
			}
			return all
		},
	}
}

func networksOf(p Plugin) string {
	var names []string
	for _, u := range p.Networks {
		names = append(names, u.Network)
	}
	return strings.Join(names, ", ")
}

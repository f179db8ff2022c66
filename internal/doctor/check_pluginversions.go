package doctor

import (
	"slices"
	"strings"
)

// pluginVersions looks whether all plugins speak the version that they are called in.
func pluginVersions() Check {
	return Check{
		Name: "plugin-versions", Looks: "the versions of the specification that each plugin says it speaks",
		Why:  "A plugin refuses a call in a version that it doesn't speak: 'incompatible CNI versions', at the first pod.",
		Mend: "update the plugin, or lower the network's cniVersion",
		Good: "all plugins speak the versions that they are called in",
		find: func(f *Facts) []Result {
			var all []Result
			for _, p := range f.Plugins {
				for _, u := range p.Networks {
					if len(p.Versions) > 0 && !slices.Contains(p.Versions, u.Version) {
						all = append(all, failed("%s does not speak %s, which the network %s calls it in, but "+
							"%s", p.Type, u.Version, u.Network, strings.Join(p.Versions, ", ")).
							with("update %s, or write a cniVersion that it speaks", p.Where))
					}
				}
			}
			return all
		},
	}
}

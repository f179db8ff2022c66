package lint

import "path/filepath"

// addedPlugins tells of plugins that a network gets from its own folder.
func addedPlugins() Rule {
	return Rule{
		ID: "L507", Name: "added-plugins",
		Why: "Unless a network says loadOnlyInlinedPlugins, the files that end in .conf in a folder of its name beside it are " +
			"appended to its plugins. The file itself doesn't show that.",
		check: func(r *run) {
			for _, d := range r.docs {
				if d.Network == "" {
					continue
				}
				for _, n := range r.networks {
					switch list := member(n.root, "plugins"); {
					case n.name != d.Network:
					case n.onlyInlined():
						r.file(d, Info, "%s says loadOnlyInlinedPlugins: this plugin is not run", n.doc.name()).hint("remove the file, or the flag")
					case list != nil:
						r.key(n.doc, list, Info, "%s is appended to the plugins", filepath.Join(d.Network, d.name())).
							hint(`"loadOnlyInlinedPlugins": true keeps plugins of other files out`)
					}
				}
			}
		},
	}
}

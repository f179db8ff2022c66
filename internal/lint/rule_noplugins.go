package lint

// noPlugins finds networks that have nothing to run.
func noPlugins() Rule {
	return Rule{
		ID: "L206", Name: "no-plugins",
		Why: "A network without a plugin attaches nothing. Plugins may lie in a folder of the network's name beside its file, " +
			"unless loadOnlyInlinedPlugins says otherwise.",
		check: func(r *run) {
			for _, n := range r.networks {
				list := member(n.root, "plugins")
				switch {
				case n.single:
				case list != nil && list.IsList() && len(list.Children) == 0 && len(n.steps) == 0:
					r.value(n.doc, list, Error, "plugins is empty").hint("a network has at least one plugin")
				case list == nil && n.onlyInlined():
					r.key(n.doc, member(n.root, "loadOnlyInlinedPlugins"), Error, "plugins is missing, and with this flag they may not stand elsewhere").
						hint("give plugins, or remove it")
				case list == nil && len(n.steps) == 0 && !isMissing(n.root, "name"):
					r.key(n.doc, n.root, Error, "plugins is missing").
						hint(`write "plugins": […], or put files into the folder %s/ beside this one`, n.name)
				}
			}
		},
	}
}

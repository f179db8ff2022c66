package doctor

// loopbackPlugin looks whether runtimes can set lo up.
func loopbackPlugin() Check {
	return Check{
		Name: "loopback", Looks: "the plugin loopback in a plugin folder, where containerd is set up",
		Why:  "containerd calls it for every pod beside the network, and no pod starts without it.",
		Mend: "cleat install",
		Good: "the plugin loopback is there, or nobody calls it",
		find: func(f *Facts) []Result {
			if !f.has("etc/containerd/config.toml") {
				return nil
			}
			for _, dir := range f.PluginDirs {
				if f.has(inRoot(dir) + "/loopback") {
					return nil
				}
			}
			return []Result{failed("containerd is set up here, and no plugin folder has loopback")}
		},
	}
}

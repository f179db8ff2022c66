package doctor

import "strings"

// pluginFolders looks whether runtimes find plugins.
func pluginFolders() Check {
	return Check{
		Name: "plugin-folders", Looks: "whether a plugin folder is there, where a container runtime is set up",
		Why:  "cleat itself has its plugins built in; a runtime starts them from the folder, and without it no pod starts.",
		Mend: "cleat install",
		Good: "there is a folder of plugins, or no runtime that needs one",
		find: func(f *Facts) []Result {
			if !f.runsRuntime() {
				return nil
			}
			for _, dir := range f.PluginDirs {
				if f.has(inRoot(dir)) {
					return nil
				}
			}
			return []Result{failed("a container runtime is set up here, and there is no folder of plugins (%s)", strings.Join(f.PluginDirs, ", "))}
		},
	}
}

// inRoot is an absolute path as a name in the machine's root.
func inRoot(path string) string { return strings.TrimPrefix(path, "/") }

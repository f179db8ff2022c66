package doctor

// pluginBuilds looks whether the plugins in the folder are of this release.
func pluginBuilds() Check {
	return Check{
		Name: "plugin-builds", Looks: "whether the cleat-cni in a plugin folder is of the same build as this program",
		Why: "Where it is another, it is run as a program and not in this process: slower, and with the faults that this " +
			"build has mended.",
		Mend: "cleat install puts this build's into the folder",
		Good: "the plugins in the folders are of this build, or of others",
		find: func(f *Facts) []Result {
			for _, p := range f.Plugins {
				if p.OtherBuild {
					return []Result{warning("the plugins in the folder are a cleat-cni of another build: %s", p.Where)}
				}
			}
			return nil
		},
	}
}

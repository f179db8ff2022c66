package doctor

import "io/fs"

// stateFolder looks whether records can be kept.
func stateFolder() Check {
	return Check{
		Name: "state-folder", Looks: "whether the folders of records are folders",
		Why:  "Where a record can't be written, an ADD is undone and fails.",
		Mend: "move away what is there: the folder is made anew",
		Good: "records can be kept",
		find: func(f *Facts) []Result {
			var all []Result
			for _, dir := range []string{f.StateDir, f.StateDir + "/results", f.StateDir + "/cleat", f.StateDir + "/networks", "/run/cleat"} {
				if info, err := fs.Stat(f.FS, inRoot(dir)); err == nil && !info.IsDir() {
					all = append(all, failed("%s is no folder, and records are to lie in it", dir))
				}
			}
			return all
		},
	}
}

package doctor

import (
	"io/fs"
	"path"
)

// openFolders looks who can write what is run as root.
func openFolders() Check {
	return Check{
		Name: "open-folders", Looks: "folders of configurations, plugins and records, and the files in them, that everybody can write to",
		Why:   "What they say and hold is run as root, so whoever can write there is root.",
		Mend:  "look who wrote what is there, then chmod o-w",
		Good:  "nobody but their owner can write to the folders",
		Fixes: true,
		find: func(f *Facts) []Result {
			var all []Result
			for _, dir := range append([]string{f.ConfDir, f.StateDir}, f.PluginDirs...) {
				info, err := fs.Stat(f.FS, inRoot(dir))
				if err != nil {
					continue
				}
				all = append(all, open(dir, info)...)
				files, err := fs.ReadDir(f.FS, inRoot(dir))
				if err != nil {
					continue
				}
				for _, file := range files {
					if info, err := fs.Stat(f.FS, path.Join(inRoot(dir), file.Name())); err == nil && info.Mode().IsRegular() {
						all = append(all, open(path.Join(dir, file.Name()), info)...)
					}
				}
			}
			return all
		},
	}
}

func open(name string, info fs.FileInfo) []Result {
	if info.Mode().Perm()&0o002 == 0 {
		return nil
	}
	return []Result{failed("everybody can write to %s (mode %04o)", name, info.Mode().Perm()).
		with("look who wrote what is there, then chmod o-w %s", name).by(Remedy{Close: name})}
}

package doctor

import (
	"io/fs"
	"path"
	"regexp"
	"slices"
)

// runtimeFolders looks whether runtimes use the folders that are examined here.
func runtimeFolders() Check {
	return Check{
		Name: "runtime-folders", Looks: "bin_dir, bin_dirs and conf_dir of containerd, plugin_dirs and network_dir of CRI-O",
		Why: "A runtime that reads another folder does not see what is configured, or starts other plugins, and all that is " +
			"told here is of no account.",
		Mend: "set the runtime's folders to these, or name its folders by --conf-dir and --plugin-dir",
		Good: "runtimes use the folders that were looked at",
		find: func(f *Facts) []Result {
			var all []Result
			files := []string{"etc/containerd/config.toml", "etc/crio/crio.conf"}
			if more, err := fs.Glob(f.FS, "etc/crio/crio.conf.d/*"); err == nil {
				files = append(files, more...)
			}
			for _, file := range files {
				text := f.text(file)
				for _, key := range []struct {
					name string
					want []string
				}{{"bin_dirs?", f.PluginDirs}, {"plugin_dirs", f.PluginDirs}, {"conf_dir", []string{f.ConfDir}}, {"network_dir", []string{f.ConfDir}}} {
					for _, dir := range folders(text, key.name) {
						if !slices.Contains(cleaned(key.want), path.Clean(dir)) {
							all = append(all, warning("/%s names the folder %s, and this looks at %v", file, dir, key.want))
						}
					}
				}
			}
			return all
		},
	}
}

// folders are the strings that a key of a TOML file is set to, on one line.
func folders(text, key string) []string {
	line := regexp.MustCompile(`(?m)^\s*` + key + `\s*=\s*(.*)$`)
	word := regexp.MustCompile(`["']([^"']+)["']`)
	var all []string
	for _, m := range line.FindAllStringSubmatch(text, -1) {
		for _, w := range word.FindAllStringSubmatch(m[1], -1) {
			all = append(all, w[1])
		}
	}
	return all
}

func cleaned(paths []string) []string {
	all := make([]string, len(paths))
	for i, p := range paths {
		all[i] = path.Clean(p)
	}
	return all
}

package doctor

import (
	"io/fs"
	"strings"
)

// deadNamespaces looks for names of namespaces that lead to none.
func deadNamespaces() Check {
	return Check{
		Name: "dead-namespaces", Looks: "files in /run/netns on which no namespace is mounted",
		Why: "A runtime that was killed, or an unmount that failed, left the name. ip netns fails on it, and a runtime that " +
			"wants the name can't have it.",
		Mend:  "remove the file",
		Good:  "every name in /run/netns leads to a namespace",
		Fixes: true,
		find: func(f *Facts) []Result {
			files, err := fs.ReadDir(f.FS, "run/netns")
			mounts := f.text("proc/self/mountinfo")
			if err != nil || mounts == "" {
				return nil
			}
			var all []Result
			for _, file := range files {
				name := file.Name()
				if file.IsDir() || mounted(mounts, "/run/netns/"+name) || mounted(mounts, "/var/run/netns/"+name) {
					continue
				}
				info, err := file.Info()
				if err == nil && info.Mode().IsRegular() {
					all = append(all, warning("/run/netns/%s leads to no namespace", name).by(Remedy{Remove: "/run/netns/" + name}))
				}
			}
			return all
		},
	}
}

// mounted reports whether something is mounted at a path, by the lines of /proc/self/mountinfo, whose fifth field it is.
func mounted(mounts, path string) bool {
	for line := range strings.Lines(mounts) {
		if f := strings.Fields(line); len(f) > 4 && f[4] == path {
			return true
		}
	}
	return false
}

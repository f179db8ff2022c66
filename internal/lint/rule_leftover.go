package lint

import (
	"path/filepath"
	"strings"
)

// leftover finds files that editors, packages and people leave behind.
func leftover() Rule {
	return Rule{
		ID: "L503", Name: "leftover",
		Why: "A backup that keeps its ending is read as a network, and may sort before the one that it was made of; one with " +
			"another ending is not read, and only looks as if it were.",
		check: func(r *run) {
			for _, d := range r.docs {
				name := d.name()
				switch how := leftBy(name); {
				case how == "":
				case d.isConfig():
					r.file(d, Warning, "%s looks like a copy, and is read as a network", name).hint("remove it, or move it out of the folder")
				default:
					r.file(d, Warning, "%s is left by %s, and is not read", name, how).hint("remove it")
				}
			}
		},
	}
}

// leftBy says who leaves files of such a name; "" for nobody.
func leftBy(name string) string {
	ext := filepath.Ext(name)
	switch {
	case strings.HasSuffix(name, "~"), strings.HasPrefix(name, "#"), strings.HasPrefix(name, ".#"),
		strings.HasPrefix(ext, ".sw") && len(ext) == 4, ext == ".tmp":
		return "an editor"
	case strings.HasPrefix(ext, ".rpm"), strings.HasPrefix(ext, ".dpkg-"), ext == ".pacnew", ext == ".ucf-old", ext == ".ucf-dist":
		return "a package"
	case ext == ".bak", ext == ".old", ext == ".orig", ext == ".save", ext == ".disabled", ext == ".backup", ext == ".rej":
		return "somebody"
	}
	base := strings.ToLower(strings.TrimSuffix(name, ext))
	for _, word := range []string{" copy", "-copy", "_copy", "(copy)", ".bak", "-bak", "_bak", "-old", "_old", "-backup", "_backup", ".orig"} {
		if strings.HasSuffix(base, word) {
			return "somebody"
		}
	}
	return ""
}

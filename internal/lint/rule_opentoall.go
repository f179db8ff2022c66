package lint

// openToAll finds files that everybody can write to.
func openToAll() Rule {
	return Rule{
		ID: "L504", Name: "open-to-all",
		Why: "What a configuration names is run as root, so whoever can write it is root. Cleat does not use such a file when " +
			"it runs as root.",
		check: func(r *run) {
			if r.folder.Whole && r.folder.Mode.Perm()&0o002 != 0 {
				r.file(newDocument(File{Path: r.folder.Path}), Warning, "everybody can write to this folder (mode %04o), and what its files say is done as root",
					r.folder.Mode.Perm()).hint("look who wrote what is there, then chmod o-w %s", r.folder.Path)
			}
			for _, d := range r.docs {
				if d.Mode.IsRegular() && d.Mode.Perm()&0o002 != 0 {
					r.file(d, Warning, "everybody can write to this file (mode %04o), and what it says is done as root", d.Mode.Perm()).
						hint("look who wrote what is there, then chmod o-w %s", d.Path)
				}
			}
		},
	}
}

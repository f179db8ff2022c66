package lint

// syntax finds text that is not JSON.
func syntax() Rule {
	return Rule{
		ID: "L001", Name: "syntax", Fixes: true,
		Why: "A file that is not JSON is no network: runtimes pass over it, or over the whole folder, and most don't say " +
			"where the fault is. Commas, quotes and words of other languages are mended; a comment says something to people, " +
			"and is left to them.",
		check: func(r *run) {
			for _, d := range r.docs {
				if !d.isJudged() {
					continue
				}
				mends := d.root != nil
				for _, f := range d.faults {
					mends = mends && f.edits != nil
				}
				for _, f := range d.faults {
					found := r.add(d, span{f.at, f.at + 1}, Error, f.message).hint("%s", f.hint)
					if mends { // else the file would be no better
						found.fix(f.edits...)
					}
				}
			}
		},
	}
}

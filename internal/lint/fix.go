package lint

import (
	"bytes"
	"slices"

	"github.com/cleat-cni/cleat/cni"
)

// maxRounds bounds how often what was mended is looked at again.
const maxRounds = 20

// Fix mends in a folder what can be mended without changing what a configuration means, and returns the files that changed, with their
// new content. A file that would not be JSON afterwards stays as it is. Fixing what was fixed changes nothing.
func (l *Linter) Fix(f Folder) []File {
	f.Files = slices.Clone(f.Files)
	changed := map[string]bool{}
	for range maxRounds {
		r := l.read(f)
		for _, rule := range Rules() {
			if rule.Fixes {
				r.rule = rule.ID
				rule.check(r)
			}
		}
		again := false
		for i := range f.Files {
			data, ok := apply(f.Files[i].Data, r.editsOf(f.Files[i].Path))
			if ok {
				f.Files[i].Data, changed[f.Files[i].Path], again = data, true, true
			}
		}
		if !again {
			break
		}
	}
	return slices.DeleteFunc(f.Files, func(file File) bool { return !changed[file.Path] })
}

// editsOf are the edits of all findings in a file, in their order, without those that touch an earlier one.
func (r *run) editsOf(path string) []Edit {
	var all []Edit
	for _, f := range r.findings {
		if f.File == path {
			all = append(all, f.edits...)
		}
	}
	slices.SortStableFunc(all, func(a, b Edit) int { return a.Start - b.Start })
	var apart []Edit
	for _, e := range all {
		if n := len(apart); n == 0 || e.Start > apart[n-1].End || e.Start == apart[n-1].End && e.Start < e.End {
			apart = append(apart, e)
		}
	}
	return apart
}

// apply makes edits, and reports whether the text is another one and JSON now.
func apply(data []byte, edits []Edit) ([]byte, bool) {
	var out bytes.Buffer
	at := 0
	for _, e := range edits {
		out.Write(data[at:e.Start])
		out.WriteString(e.Text)
		at = e.End
	}
	out.Write(data[at:])
	if len(edits) == 0 || bytes.Equal(out.Bytes(), data) {
		return nil, false
	}
	_, err := cni.ParseTree(out.Bytes())
	return out.Bytes(), err == nil
}

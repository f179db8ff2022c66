package lint

import (
	"bytes"

	"github.com/cleat-cni/cleat/cni"
)

// duplicateKey finds a key that stands twice in an object.
func duplicateKey() Rule {
	return Rule{
		ID: "L002", Name: "duplicate-key", Fixes: true,
		Why: "JSON doesn't say which of two values counts: one program takes the first, the next one the last. Cleat refuses " +
			"the file. One of two that say the same is removed.",
		check: func(r *run) {
			for _, d := range r.docs {
				if d.root != nil && d.isJudged() {
					r.duplicates(d, d.root)
				}
			}
		},
	}
}

func (r *run) duplicates(d *document, t *cni.Tree) {
	seen := map[string]*cni.Tree{}
	for _, c := range t.Children {
		r.duplicates(d, c)
		if !t.IsObject() {
			continue
		}
		first, twice := seen[c.Key]
		if !twice {
			seen[c.Key] = c
			continue
		}
		line, _ := d.position(first.KeyStart)
		f := r.key(d, c, Error, "the key %q stands twice in this object", c.Key).hint("remove one: the first is in line %d", line)
		if bytes.Equal(first.Raw, c.Raw) {
			f.fix(removal(d.Data, c))
		}
	}
}

// removal takes out a member that is not the first of its object, with the comma before it.
func removal(text []byte, t *cni.Tree) Edit {
	before := bytes.LastIndexByte(text[:t.KeyStart], ',')
	return Edit{Start: before, End: t.End}
}

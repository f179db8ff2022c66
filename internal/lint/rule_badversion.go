package lint

import (
	"strings"

	"github.com/cleat-cni/cleat/cni"
)

// badVersion finds versions that are none, or that nobody speaks.
func badVersion() Rule {
	return Rule{
		ID: "L202", Name: "bad-version",
		Why: "Every call is made in the version that the file names. One that isn't spoken fails with the first pod.",
		check: func(r *run) {
			for _, n := range r.networks {
				spoken := false
				t := member(n.root, "cniVersion")
				if t != nil {
					spoken = r.version(n, t)
				}
				list := member(n.root, "cniVersions")
				if list != nil && list.IsList() {
					for _, v := range list.Children {
						spoken = r.version(n, v) || spoken
					}
				}
				if text := textOf(n.root, "cniVersion"); !spoken && text != "" && isVersion(text) {
					r.value(n.doc, t, Error, "version %s of the specification is not spoken here", text).
						hint("write one of %s", strings.Join(cni.Versions(), ", "))
				}
			}
		},
	}
}

// version judges one version as it is written, and reports whether it is spoken.
func (r *run) version(n *network, t *cni.Tree) bool {
	text, ok := t.Text()
	if !ok {
		return true // L104
	}
	if text != "" && !isVersion(text) {
		r.value(n.doc, t, Error, "%q is no version of the specification", text).hint("write one of %s", strings.Join(cni.Versions(), ", "))
		return true
	}
	return cni.Supported(text)
}

func isVersion(text string) bool {
	_, err := cni.Compare(text, cni.Current)
	return err == nil
}

package doctor

import (
	"fmt"
	"slices"

	"github.com/cleat-cni/cleat/internal/lint"
	"github.com/cleat-cni/cleat/libcni"
)

// attachment is short for what checks ask about most.
type attachment = *libcni.NetworkAttachment

// linted are the findings of rules of cleat lint as results, but for advice.
func (f *Facts) linted(status Status, rules ...string) []Result {
	var all []Result
	for _, found := range f.Findings {
		if found.Severity != lint.Info && slices.Contains(rules, found.Rule) {
			all = append(all, fromLint(status, found))
		}
	}
	return all
}

func fromLint(status Status, found lint.Finding) Result {
	r := Result{Status: status, Message: fmt.Sprintf("%s:%d:%d: %s", found.File, found.Line, found.Column, found.Message)}
	r.Fix = found.Hint
	return r
}

// elsewhere are the rules of cleat lint that a check of its own tells of.
func elsewhere() []string { return []string{"L310", "L401", "L502", "L504", "L601", "L602", "L605"} }

package doctor

import (
	"slices"

	"github.com/cleat-cni/cleat/internal/lint"
)

// advice looks what may be wrong with the configurations.
func advice() Check {
	return Check{
		Name: "advice", Looks: "warnings that cleat lint has",
		Why:  "They may be meant so, and mostly are not.",
		Mend: "cleat lint shows the place",
		Good: "cleat lint warns of nothing",
		find: func(f *Facts) []Result {
			var all []Result
			for _, found := range f.Findings {
				if found.Severity == lint.Warning && !slices.Contains(elsewhere(), found.Rule) {
					all = append(all, fromLint(Warning, found))
				}
			}
			return all
		},
	}
}

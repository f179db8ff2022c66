package doctor

import (
	"slices"

	"github.com/cleat-cni/cleat/internal/lint"
)

// configurations looks what is wrong with the configurations.
func configurations() Check {
	return Check{
		Name: "configurations", Looks: "errors that cleat lint finds",
		Why:  "What it calls an error keeps a configuration from doing what it says, on any machine.",
		Mend: "cleat lint shows the place; cleat lint --fix mends what is safe",
		Good: "the configurations have no errors",
		find: func(f *Facts) []Result {
			var all []Result
			for _, found := range f.Findings {
				if found.Severity == lint.Error && !slices.Contains(elsewhere(), found.Rule) {
					all = append(all, fromLint(Failed, found))
				}
			}
			return all
		},
	}
}

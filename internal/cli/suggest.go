package cli

import (
	"fmt"
	"strings"

	"github.com/cleat-cni/cleat/internal/nearmiss"
)

// didYouMean returns a hint with the names close to got, or with all names if none is close and they
// are few. It is "" when there is nothing to say.
func didYouMean(got string, names []string) string {
	const few = 10
	near := nearmiss.Of(got, names)
	if len(near) == 0 && len(got) >= 2 {
		for _, n := range names {
			if strings.HasPrefix(n, got) && len(near) < 3 {
				near = append(near, n)
			}
		}
	}
	switch {
	case len(near) > 0:
		return fmt.Sprintf("did you mean %s?", strings.Join(near, " or "))
	case len(names) > 0 && len(names) <= few:
		return "there is " + strings.Join(names, ", ")
	default:
		return ""
	}
}

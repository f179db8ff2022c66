package nearmiss

import (
	"fmt"
	"strings"
)

// Hint asks whether one of the names was meant that are close to got, or begin with it, or tells all names if none is and they are few. It
// is "" when there is nothing to say.
func Hint(got string, names []string) string {
	const few = 10
	near := Of(got, names)
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

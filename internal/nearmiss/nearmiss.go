// Package nearmiss finds the names that somebody who mistyped one may have meant.
package nearmiss

import (
	"slices"
	"strings"
)

// Of returns the candidates that differ from name by at most a third of its letters (one at
// least, three at most), the nearest first, at most three.
func Of(name string, candidates []string) []string {
	limit := min(max(len(name)/3, 1), 3)
	type near struct {
		name string
		dist int
	}
	var found []near
	for _, c := range candidates {
		if d := distance(strings.ToLower(name), strings.ToLower(c), limit); d <= limit && c != name {
			found = append(found, near{c, d})
		}
	}
	slices.SortFunc(found, func(a, b near) int {
		if a.dist != b.dist {
			return a.dist - b.dist
		}
		return strings.Compare(a.name, b.name)
	})
	var names []string
	for _, f := range slices.Compact(found) {
		names = append(names, f.name)
	}
	return names[:min(len(names), 3)]
}

// distance is the number of letters to insert, delete or change, or of neighbours to swap, to get from a to
// b; anything over limit is limit+1. A hyphen or underscore costs as any letter.
func distance(a, b string, limit int) int {
	if len(a)-len(b) > limit || len(b)-len(a) > limit {
		return limit + 1
	}
	older, above, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range above {
		above[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := above[j-1]
			if a[i-1] != b[j-1] {
				change++
			}
			row[j] = min(change, above[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], older[j-2]+1)
			}
		}
		older, above, row = above, row, older
	}
	return min(above[len(b)], limit+1)
}

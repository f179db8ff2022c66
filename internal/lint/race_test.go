//go:build race

package lint_test

// raced: the race detector is on, under which all is slower.
const raced = true

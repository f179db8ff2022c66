//go:build !race

package lint_test

const raced = false

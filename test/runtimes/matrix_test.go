//go:build peers && linux

package runtimes

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// outcomes are the cells of the matrix runtime × form × case, in the order in which they were tried.
type outcomes struct{ rows []outcome }

type outcome struct{ runtime, form, name, result string }

// run runs a case as a subtest and notes how it ended.
func (o *outcomes) run(t *testing.T, cell outcome, test func(*testing.T)) {
	t.Run(cell.name, func(t *testing.T) {
		t.Cleanup(func() {
			cell.result = "passed"
			if t.Failed() {
				cell.result = "FAILED"
			} else if t.Skipped() {
				cell.result = "skipped"
			}
			o.rows = append(o.rows, cell)
		})
		test(t)
	})
}

// write writes the matrix to a file: a line a runtime and form, with a column a case.
func (o *outcomes) write(path string) error {
	if path == "" || len(o.rows) == 0 {
		return nil
	}
	var names, lines []string
	for _, r := range o.rows {
		if !slices.Contains(names, r.name) {
			names = append(names, r.name)
		}
	}
	head := fmt.Sprintf("%-12s%-9s", "RUNTIME", "FORM")
	for _, name := range names {
		head += fmt.Sprintf("%-*s", len(name)+2, strings.ToUpper(name))
	}
	cells := map[outcome]string{}
	for _, r := range o.rows {
		cells[outcome{r.runtime, r.form, r.name, ""}] = r.result
	}
	for _, r := range o.rows {
		line := fmt.Sprintf("%-12s%-9s", r.runtime, r.form)
		for _, name := range names {
			result := cells[outcome{r.runtime, r.form, name, ""}]
			if result == "" {
				result = "-"
			}
			line += fmt.Sprintf("%-*s", len(name)+2, result)
		}
		if !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return os.WriteFile(path, []byte(head+"\n"+strings.Join(lines, "\n")+"\n"), 0o644)
}

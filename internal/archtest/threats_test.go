package archtest_test

import (
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

const threatPage = "docs/threat-model.md"

// threatFaults wants of each row of the page's tables that its last cell names tests, and that these exist.
func threatFaults(files fs.FS) (rows int, faults []string) {
	text, err := fs.ReadFile(files, threatPage)
	if err != nil {
		return 0, []string{err.Error()}
	}
	inTable := false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			inTable = false
			continue
		}
		if !inTable || strings.HasPrefix(line, "|---") {
			inTable = true // the heading
			continue
		}
		rows++
		cells := strings.Split(strings.Trim(line, "|"), "|")
		tests := span.FindAllStringSubmatch(cells[len(cells)-1], -1)
		if len(cells) != 4 || len(tests) == 0 {
			faults = append(faults, fmt.Sprintf("%s: not four cells of which the last names a test", strings.TrimSpace(cells[0])))
		}
		for _, test := range tests {
			if fault := noTest(files, test[1]); fault != "" {
				faults = append(faults, strings.TrimSpace(cells[0])+": "+fault)
			}
		}
	}
	return rows, faults
}

func TestThreatModel(t *testing.T) {
	rows, faults := threatFaults(os.DirFS("../.."))
	if rows < 30 {
		t.Errorf("%s: %d rows", threatPage, rows)
	}
	for _, fault := range faults {
		t.Errorf("%s: %s", threatPage, fault)
	}
}

// TestThreatModelFindsFaults breaks a page that is right, in each way once.
func TestThreatModelFindsFaults(t *testing.T) {
	const right = "| who | can | can't | tests |\n|---|---|---|---|\n| x | `y` | z | `a/a_test.go TestX`; `e2e/x.txtar` |\n"
	for _, tc := range []struct{ name, old, new, want string }{
		{"nothing", "", "", ""},
		{"no-test", "`a/a_test.go TestX`; `e2e/x.txtar`", "", "x: not four cells"},
		{"cell-missing", "| z ", "", "x: not four cells"},
		{"file-missing", "a/a_test.go", "a/b_test.go", "x: open a/b_test.go"},
		{"test-missing", "TestX", "TestY", "x: a/a_test.go has no TestY"},
		{"script-missing", "e2e/x", "e2e/y", "x: open e2e/y.txtar"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rows, faults := threatFaults(fstest.MapFS{
				threatPage:    {Data: []byte(strings.Replace(right, tc.old, tc.new, 1))},
				"a/a_test.go": {Data: []byte("package a\n\nfunc TestX(t *testing.T) {}\n")},
				"e2e/x.txtar": {},
			})
			if rows != 1 || tc.want == "" && len(faults) > 0 || tc.want != "" && !slices.ContainsFunc(faults, func(f string) bool { return strings.Contains(f, tc.want) }) {
				t.Errorf("%d rows, faults %q, want %q", rows, faults, tc.want)
			}
		})
	}
}

package archtest_test

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

const fieldPage = "docs/field-cases.md"

// fieldCases are the numbers of the collection of reports. They have gaps.
const fieldCases = "B001 B002 B003 B004 B005 B006 B007 B008 B009 B010 B011 B012 B014 B015 B016 B017 B019 B020 B023 B024 B026 B027 B028 B029 " +
	"B030 B032 B033 B034 B035 B037 B038 B039 B041 B042 B043 B044 B047 B048 B049 B052 B053 B054 B056 B058 B059 B060 B061 B062 B063 B065 B067 " +
	"B068 B069 B071 B072 B074 B075 B076 B078 B079 B081 B083 B084 B085 B087 B089 B092 B093 B094 B095 B096 B097 B098 B100 B101 B102 B104"

// span is code in a Markdown text.
var span = regexp.MustCompile("`([^`]+)`")

// fieldFaults compares the page of field reports with the numbers and with the tests in files: each number has one row, each
// row a test or what it waits for, each test exists, and one of the row's bears its number.
func fieldFaults(files fs.FS, numbers []string) []string {
	text, err := fs.ReadFile(files, fieldPage)
	if err != nil {
		return []string{err.Error()}
	}
	var faults, have []string
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		number := strings.TrimSpace(cells[0])
		if len(cells) != 4 || !strings.HasPrefix(number, "B") {
			continue
		}
		have = append(have, number)
		tests := span.FindAllStringSubmatch(cells[3], -1)
		if len(tests) == 0 && !strings.Contains(cells[3], "waits for ") {
			faults = append(faults, number+": neither a test nor what it waits for")
		}
		named := len(tests) == 0
		for _, test := range tests {
			if fault := noTest(files, test[1]); fault != "" {
				faults = append(faults, number+": "+fault)
			}
			named = named || strings.Contains(strings.ToUpper(test[1]), number)
		}
		if !named {
			faults = append(faults, number+": no test bears the number")
		}
	}
	if diff := cmp.Diff(numbers, have); diff != "" {
		faults = append(faults, fmt.Sprintf("rows (-want +got):\n%s", diff))
	}
	return faults
}

// noTest says what is wrong with "path/x_test.go TestX" or "path/x.txtar", if anything is.
func noTest(files fs.FS, test string) string {
	name, function, isGo := strings.Cut(test, " ")
	text, err := fs.ReadFile(files, name)
	switch {
	case err != nil:
		return err.Error()
	case isGo != strings.HasSuffix(name, "_test.go") || !isGo && path.Ext(name) != ".txtar":
		return test + " is neither a Go test nor a script"
	case isGo && !strings.Contains(string(text), "\nfunc "+function+"(t *testing.T)"):
		return name + " has no " + function
	}
	return ""
}

func TestFieldCases(t *testing.T) {
	for _, fault := range fieldFaults(os.DirFS("../.."), strings.Fields(fieldCases)) {
		t.Errorf("%s: %s", fieldPage, fault)
	}
}

// TestFieldCasesFindsFaults breaks a page that is right, in each way once.
func TestFieldCasesFindsFaults(t *testing.T) {
	const right = "| case | what | area | where |\n|---|---|---|---|\n" +
		"| B001 | x | y | `a/a_test.go TestB001X`; `e2e/b001_x.txtar` |\n| B002 | x | y | waits for z |\n"
	for _, tc := range []struct{ name, old, new, want string }{
		{"nothing", "", "", ""},
		{"row-missing", "| B002 | x | y | waits for z |\n", "", "rows (-want"},
		{"row-twice", "| B002 |", "| B001 |", "rows (-want"},
		{"nothing-said", "waits for z", "", "B002: neither a test"},
		{"file-missing", "a/a_test.go", "a/b_test.go", "B001: open a/b_test.go"},
		{"script-missing", "b001_x", "b001_y", "B001: open e2e/b001_y.txtar"},
		{"test-missing", "TestB001X", "TestB001", "B001: a/a_test.go has no TestB001"},
		{"no-test", " TestB001X", "", "neither a Go test"},
		{"another-number", "| B002 | x | y | waits for z |", "| B002 | x | y | `a/a_test.go TestB001X` |", "B002: no test bears"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			files := fstest.MapFS{
				fieldPage:          {Data: []byte(strings.Replace(right, tc.old, tc.new, 1))},
				"a/a_test.go":      {Data: []byte("package a\n\nfunc TestB001X(t *testing.T) {}\n")},
				"e2e/b001_x.txtar": {},
			}
			faults := fieldFaults(files, []string{"B001", "B002"})
			if tc.want == "" && len(faults) > 0 || tc.want != "" && !slices.ContainsFunc(faults, func(f string) bool { return strings.Contains(f, tc.want) }) {
				t.Errorf("faults %q, want %q", faults, tc.want)
			}
		})
	}
}

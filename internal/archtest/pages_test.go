package archtest_test

import (
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// pageFaults lists the tests that a page names and that are in none of the folders.
func pageFaults(files fs.FS, page string, folders ...string) ([]string, error) {
	text, err := fs.ReadFile(files, page)
	if err != nil {
		return nil, err
	}
	var sources strings.Builder
	for _, dir := range folders {
		names, err := fs.Glob(files, dir+"/*_test.go")
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			source, err := fs.ReadFile(files, name)
			if err != nil {
				return nil, err
			}
			sources.Write(source)
		}
	}
	var faults []string
	named := 0
	for _, code := range span.FindAllStringSubmatch(string(text), -1) {
		function := regexp.MustCompile(`^Test\w+`).FindString(code[1])
		if function == "" {
			continue
		}
		named++
		if !strings.Contains(sources.String(), "\nfunc "+function+"(t *testing.T)") && !slices.Contains(faults, function) {
			faults = append(faults, function)
		}
	}
	if named == 0 {
		faults = append(faults, "no test is named")
	}
	return faults, nil
}

func TestReliabilityPage(t *testing.T) {
	faults, err := pageFaults(os.DirFS("../.."), "docs/reliability.md", "test/reliability", "test/crash", "internal/pluginexec", "libcni")
	if err != nil || len(faults) > 0 {
		t.Errorf("docs/reliability.md names tests that are not there: %q, %v", faults, err)
	}
}

func TestPageFaults(t *testing.T) {
	files := fstest.MapFS{
		"page.md":       {Data: []byte("`TestA`, `TestA/sub`, `TestGone`; `make test`")},
		"none.md":       {Data: []byte("nothing")},
		"dir/a_test.go": {Data: []byte("package a\n\nfunc TestA(t *testing.T) {}\n")},
	}
	for page, want := range map[string][]string{"page.md": {"TestGone"}, "none.md": {"no test is named"}} {
		got, err := pageFaults(files, page, "dir")
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", page, err, diff)
		}
	}
}

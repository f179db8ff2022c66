package archtest_test

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/cleat-cni/cleat/internal/archtest"
)

// clean is a small module that keeps every rule about the files it has.
func clean() map[string]string {
	files := map[string]string{
		"go.mod":                            "module example.com/m\n\ngo 1.26\n",
		"cni/doc.go":                        "// Package cni is data.\npackage cni\n\nimport \"errors\"\n\nvar ErrX = errors.New(\"x\")\n\nvar _ error = ErrX\n\nvar table = []int{1}\n\n//go:embed x\nvar embedded string\n",
		"cni/cni_test.go":                   "package cni_test\n\nimport \"github.com/google/go-cmp/cmp\"\n\nvar table = []int{1}\n\nfunc Example() { cmp.Diff(1, 1) }\n",
		"plugins/a/a.go":                    "// Package a is\n// a plugin.\npackage a\n\nimport \"example.com/m/cni\"\n",
		"plugins/a/a_test.go":               "package a\n\nfunc FuzzParse() {}\n",
		"plugins/a/README.md":               "# a\n## Name\n## Config\n## Behaviour\n### More\n## Example\n",
		"plugins/a/testdata/plan.txtar":     "",
		"plugins/a/testdata/broken.go":      "this is not Go",
		"internal/netns/netns.go":           "// Package netns moves threads.\npackage netns\n\nimport \"runtime\"\n\nfunc on() { runtime.LockOSThread() }\n",
		"internal/kernel/kernel.go":         "// Package kernel is the kernel's.\npackage kernel\n\nimport \"github.com/mdlayher/netlink\"\n",
		"internal/kernel/kerneltest/kit.go": "// Package kerneltest is a kit.\npackage kerneltest\n\nimport \"strings\"\n\nfunc is(err error) bool { return strings.Contains(err.Error(), \"x\") }\n",
		"cmd/cleat/main.go":                 "// Command cleat is the tool.\npackage main\n\nimport \"context\"\nimport \"example.com/m/internal/cli\"\n\nvar version = v()\n\nvar _ = context.Background\n",
		"internal/cli/cli.go":               "// Package cli has the commands.\npackage cli\n\nimport \"github.com/spf13/cobra\"\n",
		"cmd/cleat-cni/main.go":             "// Command cleat-cni is all plugins.\npackage main\n\nimport \"example.com/m/plugins\"\n",
		"plugins/plugins.go":                "// Package plugins is the list.\npackage plugins\n\nimport \"example.com/m/plugins/a\"\n",
		"compat/go.mod":                     "module example.com/m/compat\n",
		"compat/util.go":                    "package util\n\nfunc init() {}\n",
	}
	return files
}

func find(t *testing.T, rule string, files map[string]string) []string {
	t.Helper()
	dir := fstest.MapFS{}
	for name, text := range files {
		dir[name] = &fstest.MapFile{Data: []byte(text)}
	}
	m, err := archtest.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	rules := archtest.Rules()
	i := slices.IndexFunc(rules, func(r archtest.Rule) bool { return r.Name == rule })
	if i < 0 {
		t.Fatalf("no rule %s", rule)
	}
	var list []string
	for _, f := range rules[i].Check(m) {
		// The table is this module's: that the fixture lacks packages of it is no news, but see TestStale.
		if f.Place != "internal/archtest" {
			list = append(list, f.String())
		}
	}
	return list
}

// violation is a change of the clean module that breaks a rule, and a piece of what is found.
type violation struct {
	rule, name string
	file, text string // "" removes the file
	want       string
}

func violations() []violation {
	return slices.Concat(importViolations(), codeViolations(), folderViolations())
}

func importViolations() []violation {
	imports := func(pkg string, paths ...string) string {
		var text strings.Builder
		text.WriteString("package " + pkg + "\n\n")
		for _, p := range paths {
			text.WriteString("import _ \"" + p + "\"\n")
		}
		return text.String()
	}
	return []violation{
		{"imports", "cni-imports-module", "cni/b.go", imports("cni", "os", "example.com/m/plugin"), "cni/b.go:4: cni may not import example.com/m/plugin"},
		{"imports", "cni-imports-foreign", "cni/b.go", imports("cni", "golang.org/x/sys/unix"), "cni may not import golang.org/x/sys/unix"},
		{"imports", "plugin-imports-kernel", "plugins/a/b.go", imports("a", "example.com/m/internal/kernel"), "plugins/a may not import"},
		{"imports", "plugin-imports-plugin", "plugins/a/b.go", imports("a", "example.com/m/plugins/b"), "plugins/a may not import"},
		{"imports", "plugin-imports-netlink", "plugins/a/b.go", imports("a", "github.com/mdlayher/netlink"), "plugins/a may not import"},
		{"imports", "planned-imports-kernel", "planned/add.go", imports("planned", "example.com/m/internal/kernel"), "planned may not import"},
		{"imports", "libcni-imports-plugin", "libcni/b.go", imports("libcni", "example.com/m/plugin"), "libcni may not import"},
		{"imports", "libcni-imports-planned", "libcni/b.go", imports("libcni", "example.com/m/planned"), "libcni may not import"},
		{"imports", "libcni-imports-plugins", "libcni/b.go", imports("libcni", "example.com/m/plugins/a"), "libcni may not import"},
		{"imports", "libcni-imports-kernel", "libcni/b.go", imports("libcni", "example.com/m/internal/kernel"), "libcni may not import"},
		{"imports", "netlink-elsewhere", "internal/netns/b.go", imports("netns", "github.com/mdlayher/netlink/nlenc"), "internal/netns may not import"},
		{"imports", "nftables-elsewhere", "internal/cli/b.go", imports("cli", "github.com/google/nftables"), "internal/cli may not import"},
		{"imports", "like-prefix", "internal/kernel/b.go", imports("kernel", "github.com/google/nftablesx"), "may not import github.com/google/nftablesx"},
		{"imports", "no-row", "internal/new/new.go", imports("new"), "internal/new/new.go: the package stands in no row"},
		{"test-imports", "gomega", "cni/b_test.go", imports("cni", "github.com/onsi/gomega"), "a test may not import github.com/onsi/gomega"},
		{"imports", "kit-in-production", "internal/kernel/b.go", imports("kernel", "example.com/m/internal/kernel/kerneltest"), "internal/kernel may not import"},
		{"test-imports", "kit", "internal/kernel/kerneltest/b.go", imports("kerneltest", "github.com/onsi/ginkgo/v2"), "a test may not import"},
		{"test-imports", "testify", "internal/kernel/b_test.go", imports("kernel", "github.com/stretchr/testify/assert"), "testify"},
		{"pure", "os", "cni/b.go", imports("cni", "os"), "cni is pure and may not import os"},
		{"pure", "dial", "cni/b.go", "package cni\n\nimport \"net\"\n\nvar _ = net.DialTimeout\n", "may not use net.DialTimeout"},
		{"pure", "clock", "plugins/a/b.go", "package a\n\nimport clock \"time\"\n\nvar _ = clock.Now\n", "plugins/a is pure and may not use time.Now"},
		{"light", "heavy-direct", "cmd/cleat/b.go", imports("main", "k8s.io/client-go/rest"), "cmd/cleat links k8s.io/client-go/rest"},
		{"light", "heavy-deep", "plugins/a/b.go", imports("a", "go.opentelemetry.io/otel"), "cmd/cleat-cni links go.opentelemetry.io/otel"},
		{"light", "cobra-in-plugin", "cmd/cleat-cni/b.go", imports("main", "example.com/m/internal/cli"), "cmd/cleat-cni links github.com/spf13/cobra"},
	}
}

func codeViolations() []violation {
	body := func(imports, code string) string {
		var text strings.Builder
		text.WriteString("package cni\n\n")
		for name := range strings.FieldsSeq(imports) {
			text.WriteString("import \"" + name + "\"\n")
		}
		return text.String() + "\n" + code + "\n"
	}
	long := strings.Repeat("\tx()\n", 79)
	return []violation{
		{"threads", "lock", "cni/b.go", body("runtime", "func f() { runtime.LockOSThread() }"), "cni/b.go:5: runtime.LockOSThread moves threads"},
		{"threads", "setns-in-test", "cni/b_test.go", body("golang.org/x/sys/unix", "func f() { unix.Setns(1, 2) }"), "unix.Setns moves threads"},
		{"package-name", "util", "internal/util/x.go", "package util\n", "package name util says nothing"},
		{"package-name", "errors", "internal/errors/x.go", "package errors\n", "package name errors says nothing"},
		{"package-name", "file", "cni/helpers.go", "package cni\n", "cni/helpers.go: file name says nothing"},
		{"length", "func", "cni/b.go", body("", "func f() {\n"+long+"}"), "func f has 81 lines, at most 80"},
		{"length", "method", "cni/b.go", body("", "func (t T) f() {\n"+long+"}"), "func f has 81 lines"},
		{"length", "file", "cni/b_test.go", body("", strings.Repeat("// x\n", 600)), "lines, at most 600"},
		{"state", "init", "cni/b.go", body("", "func init() {}"), "func init runs"},
		{"state", "var", "cni/b.go", body("", "var cache map[string]int"), "var cache is package state"},
		{"state", "empty", "cni/b.go", body("", "var (\n\tcache = map[string]int{}\n)"), "cni/b.go:5: var cache is package state"},
		{"state", "made", "cni/b.go", body("", "var once = sync.OnceValue(f)"), "var once is package state"},
		{"state", "made-in-part", "cni/b.go", body("", "var table = []T{f(1)}"), "var table is package state"},
		{"state", "exported", "cni/b.go", body("", "var Table = []int{1}"), "var Table is package state"},
		{"state", "assigned", "cni/b.go", body("", "var table = []int{1}\n\nfunc f() { table = nil }"), "var table is package state"},
		{"state", "element", "cni/b.go", body("", "var table = []T{{}}\n\nfunc f() { table[0].n++ }"), "var table is package state"},
		{"state", "address", "cni/b.go", body("", "var table = []int{1}\n\nfunc f() *int { return &table[0] }"), "var table is package state"},
		{"state", "deleted", "cni/b.go", body("", "var table = map[int]int{1: 1}\n\nfunc f() { delete(table, 1) }"), "var table is package state"},
		{"state", "sorted", "cni/b.go", body("slices", "var table = []int{1}\n\nfunc f() { slices.Sort(table) }"), "var table is package state"},
		{"state", "beside-sentinel", "cni/b.go", body("errors", "var a, b = errors.New(\"a\"), 1"), "var a is package state"},
		{"error-text", "failed-to", "cni/b.go", body("fmt", "var err = fmt.Errorf(\"Failed to open\")"), "failed to"},
		{"error-text", "raw-string", "cni/b.go", body("fmt", "var err = fmt.Errorf(`failed to open`)"), "failed to"},
		{"error-text", "equal", "cni/b.go", body("", "func f(err error) bool { return err.Error() == \"x\" }"), "matched by its text"},
		{"error-text", "contains", "cni/b.go", body("strings", "func f(err error) bool { return strings.Contains(err.Error(), \"x\") }"), "matched by its text"},
		{"error-text", "prefix", "cni/b.go", body("strings", "func f(err error) bool { return strings.HasPrefix(err.Error(), \"x\") }"), "matched by its text"},
		{"context", "background", "cni/b.go", body("context", "func f() { g(context.Background()) }"), "context.Background outside main"},
		{"context", "todo", "cni/b.go", body("context", "func f() { g(context.TODO()) }"), "context.TODO outside main"},
		{"sleep", "sleep", "cni/b.go", body("time", "func f() { time.Sleep(1) }"), "time.Sleep polls"},
		{"listen", "tcp", "cni/b.go", body("net", "func f() { net.Listen(\"tcp\", \":80\") }"), "net.Listen lets others connect"},
		{"setenv", "test", "cni/b_test.go", body("os", "func f() { os.Setenv(\"A\", \"b\") }"), "os.Setenv changes the process"},
	}
}

func folderViolations() []violation {
	return []violation{
		{"package-comment", "none", "cni/doc.go", "package cni\n", "cni: no package comment"},
		{"package-comment", "two", "cni/b.go", "// Package cni is more.\npackage cni\n", "a second package comment"},
		{"package-comment", "wrong-beginning", "cni/doc.go", "// This package is data.\npackage cni\n", `does not begin with "Package cni "`},
		{"package-comment", "command", "cmd/cleat/main.go", "// Package main is the tool.\npackage main\n", `does not begin with "Command cleat "`},
		{"plugin-folder", "no-readme", "plugins/a/README.md", "", "plugins/a/README.md: is missing"},
		{"plugin-folder", "no-section", "plugins/a/README.md", "## Name\n## Config\n## Example\n", "no section Behaviour"},
		{"plugin-folder", "order", "plugins/a/README.md", "## Config\n## Name\n## Behaviour\n## Example\n", "no section Config where it belongs"},
		{"plugin-folder", "no-golden", "plugins/a/testdata/plan.txtar", "", "plugins/a: no golden plan"},
		{"plugin-folder", "no-fuzz", "plugins/a/a_test.go", "", "plugins/a: no fuzz target"},
		{"example", "none", "cni/cni_test.go", "", "cni: a public package without an Example"},
	}
}

// TestViolations proves that each rule finds what breaks it, and nothing in the clean module.
func TestViolations(t *testing.T) {
	proved := map[string]bool{}
	for _, tc := range violations() {
		proved[tc.rule] = true
		t.Run(tc.rule+"/"+tc.name, func(t *testing.T) {
			files := clean()
			if got := find(t, tc.rule, files); len(got) != 0 {
				t.Fatalf("in the clean module: %q", got)
			}
			files[tc.file] = tc.text
			if tc.text == "" {
				delete(files, tc.file)
			}
			got := find(t, tc.rule, files)
			if !slices.ContainsFunc(got, func(s string) bool { return strings.Contains(s, tc.want) }) {
				t.Errorf("found %q, want one with %q", got, tc.want)
			}
		})
	}
	for _, r := range archtest.Rules() {
		if !proved[r.Name] {
			t.Errorf("no fixture proves rule %s", r.Name)
		}
	}
}

// TestStale: a row of the import table, a pure package or a program that is not there any more is found, so that
// the lists cannot outlive what they are about.
func TestStale(t *testing.T) {
	dir := fstest.MapFS{
		"go.mod":     &fstest.MapFile{Data: []byte("module example.com/m\n")},
		"cni/doc.go": &fstest.MapFile{Data: []byte("package cni\n")},
	}
	m, err := archtest.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"imports": "row for netstate  matches nothing",
		"pure":    "the pure package netstate is not there",
		"light":   "the program is not there",
		"threads": "the exception for internal/kernel/floor_linux_test.go",
		"context": "the exception for plugin/main.go",
	}
	for _, r := range archtest.Rules() {
		if want[r.Name] == "" {
			continue
		}
		if !slices.ContainsFunc(r.Check(m), func(f archtest.Finding) bool { return strings.Contains(f.Text, want[r.Name]) }) {
			t.Errorf("%s: nothing with %q in %v", r.Name, want[r.Name], r.Check(m))
		}
	}
}

func TestLoadRefuses(t *testing.T) {
	for name, dir := range map[string]fstest.MapFS{
		"no-module":  {"a.go": &fstest.MapFile{Data: []byte("package a\n")}},
		"no-name":    {"go.mod": &fstest.MapFile{Data: []byte("go 1.26\n")}},
		"broken-go":  {"go.mod": &fstest.MapFile{Data: []byte("module m\n")}, "a.go": &fstest.MapFile{Data: []byte("package")}},
		"empty-file": {"go.mod": &fstest.MapFile{Data: []byte("module m\n")}, "a.go": &fstest.MapFile{}},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := archtest.Load(dir); err == nil {
				t.Error("no error")
			}
		})
	}
}

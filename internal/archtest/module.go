// Package archtest holds the rules of how this module is built as tests: who may import whom, where
// threads are moved, how long a function may be, what a plugin's folder holds.
//
// It parses the files itself and starts no program: the test cache knows the files that a test has opened,
// but not what a child of it read, and would repeat a pass that no longer holds. Every [Rule] is
// proved by a fixture that breaks it. Modules within the module (folders with a go.mod of their own) and
// testdata are left out.
package archtest

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Module is a parsed module.
type Module struct {
	Path     string // of its go.mod
	Packages []*Package
	files    fs.FS
	set      *token.FileSet
}

// Package is a folder with Go files. Those of its external tests are among them.
type Package struct {
	Dir   string // below the module; "." is its root
	Files []*File
}

// File is a parsed Go file.
type File struct {
	Path  string // below the module
	Test  bool   // _test.go
	Lines int
	AST   *ast.File
}

// Finding is a place where a rule is broken.
type Finding struct {
	Place string // path, or path:line
	Text  string
}

func (f Finding) String() string { return f.Place + ": " + f.Text }

// Rule is one rule.
type Rule struct {
	Name  string
	Check func(m *Module) []Finding
}

// Rules returns all rules.
func Rules() []Rule {
	return []Rule{
		{"imports", checkImports},
		{"test-imports", checkTestImports},
		{"pure", checkPure},
		{"threads", checkThreads},
		{"light", checkLight},
		{"package-comment", checkPackageComments},
		{"package-name", checkNames},
		{"length", checkLength},
		{"state", checkState},
		{"error-text", checkErrorText},
		{"context", checkContext},
		{"sleep", checkSleep},
		{"setenv", checkSetenv},
		{"listen", checkListen},
		{"plugin-folder", checkPluginFolders},
		{"example", checkExamples},
	}
}

// Load parses the module whose root files is.
func Load(files fs.FS) (*Module, error) {
	mod, err := fs.ReadFile(files, "go.mod")
	if err != nil {
		return nil, fmt.Errorf("read module: %w", err)
	}
	m := &Module{files: files, set: token.NewFileSet()}
	for line := range strings.Lines(string(mod)) {
		if p, ok := strings.CutPrefix(line, "module "); ok {
			m.Path = strings.TrimSpace(p)
		}
	}
	if m.Path == "" {
		return nil, fmt.Errorf("read module: go.mod names none")
	}
	err = fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && m.isForeign(name):
			return fs.SkipDir
		case d.IsDir() || path.Ext(name) != ".go":
			return nil
		}
		return m.parse(name)
	})
	if err != nil {
		return nil, fmt.Errorf("read module: %w", err)
	}
	return m, nil
}

// isForeign reports whether a folder is not part of the module.
func (m *Module) isForeign(dir string) bool {
	base := path.Base(dir)
	if base == "testdata" || base == "vendor" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") {
		return true
	}
	_, err := fs.Stat(m.files, path.Join(dir, "go.mod"))
	return err == nil
}

func (m *Module) parse(name string) error {
	src, err := fs.ReadFile(m.files, name)
	if err != nil {
		return err
	}
	tree, err := parser.ParseFile(m.set, name, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	f := &File{Path: name, Test: strings.HasSuffix(name, "_test.go"), Lines: bytes.Count(src, []byte("\n")), AST: tree}
	dir := path.Dir(name)
	i := slices.IndexFunc(m.Packages, func(p *Package) bool { return p.Dir == dir })
	if i < 0 {
		i = len(m.Packages)
		m.Packages = append(m.Packages, &Package{Dir: dir})
	}
	m.Packages[i].Files = append(m.Packages[i].Files, f)
	return nil
}

// at is the place of a node.
func (m *Module) at(n ast.Node) string {
	p := m.set.Position(n.Pos())
	return fmt.Sprintf("%s:%d", p.Filename, p.Line)
}

// sources are the files of all packages that are no tests, or the tests alone.
func (m *Module) sources(tests bool) func(yield func(*Package, *File) bool) {
	return func(yield func(*Package, *File) bool) {
		for _, p := range m.Packages {
			for _, f := range p.Files {
				if f.Test == tests && !yield(p, f) {
					return
				}
			}
		}
	}
}

// isKit reports whether the package is a test kit, which only tests import: x/…test, and the sandbox.
func (p *Package) isKit() bool {
	return strings.HasSuffix(p.Dir, "test") || p.Dir == "internal/sandbox" || strings.HasPrefix(p.Dir, "internal/sandbox/")
}

// isPublic reports whether others can import the package.
func (p *Package) isPublic() bool {
	parts := strings.Split(p.Dir, "/")
	return !slices.Contains(parts, "internal") && parts[0] != "cmd" && parts[0] != "test"
}

// match reports whether dir is what a pattern of the table says: * stands for one name, and a last /... for
// everything below.
func match(pattern, dir string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "/..."); ok {
		return dir == prefix || strings.HasPrefix(dir, prefix+"/")
	}
	ok, err := path.Match(pattern, dir)
	return ok && err == nil
}

func matchAny(patterns []string, dir string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return match(p, dir) })
}

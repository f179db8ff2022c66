package archtest

import (
	"fmt"
	"go/ast"
	"io/fs"
	"path"
	"strings"
)

// checkPackageComments wants one package comment a package, in a file that is no test, and that it begins as
// comments do.
func checkPackageComments(m *Module) []Finding {
	var list []Finding
	for _, p := range m.Packages {
		var docs []*File
		var first *File
		for _, f := range p.Files {
			if f.Test {
				continue
			}
			if first == nil {
				first = f
			}
			if f.AST.Doc != nil && strings.TrimSpace(f.AST.Doc.Text()) != "" {
				docs = append(docs, f)
			}
		}
		switch {
		case first == nil: // tests alone
		case len(docs) == 0:
			list = append(list, Finding{p.Dir, "no package comment"})
		case len(docs) > 1:
			list = append(list, Finding{docs[1].Path, "a second package comment, beside that of " + docs[0].Path})
		default:
			want := "Package " + first.AST.Name.Name + " "
			if first.AST.Name.Name == "main" {
				want = "Command " + path.Base(p.Dir) + " "
			}
			// A line break may stand where the blank does.
			text := strings.Join(strings.Fields(docs[0].AST.Doc.Text()), " ")
			if !strings.HasPrefix(text, want) {
				list = append(list, Finding{docs[0].Path, fmt.Sprintf("the package comment does not begin with %q", want)})
			}
		}
	}
	return list
}

// checkPluginFolders wants of every folder of plugins/ what a plugin consists of.
func checkPluginFolders(m *Module) []Finding {
	var list []Finding
	for _, p := range m.Packages {
		if !match("plugins/*", p.Dir) {
			continue
		}
		list = append(list, m.checkReadme(p.Dir)...)
		golden, err := fs.Glob(m.files, path.Join(p.Dir, "testdata", "*.txtar"))
		deeper, err2 := fs.Glob(m.files, path.Join(p.Dir, "testdata", "*", "*.txtar"))
		if err != nil || err2 != nil || len(golden)+len(deeper) == 0 {
			list = append(list, Finding{p.Dir, "no golden plan in testdata/*.txtar"})
		}
		if !p.hasTestFunc("Fuzz") {
			list = append(list, Finding{p.Dir, "no fuzz target"})
		}
	}
	return list
}

// checkReadme wants the sections of a plugin's README, in their order.
func (m *Module) checkReadme(dir string) []Finding {
	name := path.Join(dir, "README.md")
	text, err := fs.ReadFile(m.files, name)
	if err != nil {
		return []Finding{{name, "is missing"}}
	}
	var have []string
	for line := range strings.Lines(string(text)) {
		if section, ok := strings.CutPrefix(line, "## "); ok {
			have = append(have, strings.TrimSpace(section))
		}
	}
	var list []Finding
	for _, want := range []string{"Name", "Config", "Behaviour", "Example"} {
		i := 0
		for i < len(have) && have[i] != want {
			i++
		}
		if i == len(have) {
			list = append(list, Finding{name, "no section " + want + " where it belongs"})
			continue
		}
		have = have[i+1:]
	}
	return list
}

// checkExamples wants an Example of every public package. A plugin's folder has its README, whose configurations a
// test runs, and a test kit has nothing to print.
func checkExamples(m *Module) []Finding {
	var list []Finding
	for _, p := range m.Packages {
		if p.isPublic() && !p.isKit() && !match("plugins/...", p.Dir) && !p.hasTestFunc("Example") {
			list = append(list, Finding{p.Dir, "a public package without an Example"})
		}
	}
	return list
}

// hasTestFunc reports whether a test of the package declares a function whose name begins so.
func (p *Package) hasTestFunc(prefix string) bool {
	for _, f := range p.Files {
		for _, d := range f.AST.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && f.Test && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, prefix) {
				return true
			}
		}
	}
	return false
}

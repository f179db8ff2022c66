package archtest

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

// checkState refuses package state: init functions, and variables that can change. What may be is an error to
// match, a proof that a type fits an interface, an embedded file, the version that the linker sets in a program, and
// an unexported table that is written down once and that no code of its package writes to.
func checkState(m *Module) []Finding {
	var list []Finding
	for _, p := range m.Packages {
		if p.isKit() {
			continue
		}
		written := p.written()
		for _, f := range p.Files {
			if f.Test {
				continue
			}
			for _, d := range f.AST.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
					list = append(list, Finding{m.at(fn), "func init runs before anybody asked"})
				}
				gen, ok := d.(*ast.GenDecl)
				if !ok || gen.Tok != token.VAR {
					continue
				}
				for _, s := range gen.Specs {
					spec, ok := s.(*ast.ValueSpec)
					if ok && !isSentinel(spec) && !isEmbed(gen, spec) && !isVersion(f, spec) && !isTable(spec, written) {
						list = append(list, Finding{m.at(spec), "var " + spec.Names[0].Name + " is package state: make it a constant, a function or a field"})
					}
				}
			}
		}
	}
	return list
}

func isSentinel(spec *ast.ValueSpec) bool {
	for i, name := range spec.Names {
		if name.Name == "_" {
			continue
		}
		if i >= len(spec.Values) {
			return false
		}
		call, ok := spec.Values[i].(*ast.CallExpr)
		if !ok || !isCallOf(call, "errors.New", "fmt.Errorf") {
			return false
		}
	}
	return true
}

func isEmbed(gen *ast.GenDecl, spec *ast.ValueSpec) bool {
	for _, doc := range []*ast.CommentGroup{gen.Doc, spec.Doc} {
		if doc == nil {
			continue
		}
		for _, c := range doc.List {
			if strings.HasPrefix(c.Text, "//go:embed ") {
				return true
			}
		}
	}
	return false
}

// isVersion reports whether it is what go build -ldflags=-X sets.
func isVersion(f *File, spec *ast.ValueSpec) bool {
	return f.AST.Name.Name == "main" && len(spec.Names) == 1 && spec.Names[0].Name == "version"
}

// isTable reports whether all names are unexported, have a value that is written down, and are never written to.
func isTable(spec *ast.ValueSpec, written map[string]bool) bool {
	if len(spec.Values) != len(spec.Names) {
		return false
	}
	for i, name := range spec.Names {
		if name.IsExported() || written[name.Name] || !isLiteral(spec.Values[i]) {
			return false
		}
	}
	return true
}

// isLiteral reports whether a value is written down: no call makes it or a part of it when the program starts,
// except one that parses an address.
func isLiteral(e ast.Expr) bool {
	if lit, ok := e.(*ast.CompositeLit); ok && len(lit.Elts) == 0 {
		return false // an empty one waits to be filled
	}
	literal := true
	ast.Inspect(e, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && !isCallOf(call, "netip.MustParseAddr", "netip.MustParsePrefix") {
			literal = false
		}
		_, isFunc := n.(*ast.FuncLit)
		return !isFunc // its calls come later
	})
	return literal
}

// written are the names that code of the package may write to: assigned, in whole or in part, counted up,
// sorted, cleared, or with their address taken. A local variable of the name counts too.
func (p *Package) written() map[string]bool {
	names := map[string]bool{}
	add := func(e ast.Expr) {
		if name := root(e); name != "" {
			names[name] = true
		}
	}
	for _, f := range p.Files {
		if f.Test {
			continue
		}
		ast.Inspect(f.AST, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				if n.Tok != token.DEFINE {
					for _, e := range n.Lhs {
						add(e)
					}
				}
			case *ast.IncDecStmt:
				add(n.X)
			case *ast.UnaryExpr:
				if _, literal := n.X.(*ast.CompositeLit); n.Op == token.AND && !literal {
					add(n.X)
				}
			case *ast.CallExpr:
				if len(n.Args) > 0 && writes(n) {
					add(n.Args[0])
				}
			}
			return true
		})
	}
	return names
}

// writes reports whether a call changes its first argument.
func writes(call *ast.CallExpr) bool {
	if name, ok := call.Fun.(*ast.Ident); ok {
		return slices.Contains([]string{"delete", "clear", "copy"}, name.Name)
	}
	return isCallOf(call, "slices.Sort", "slices.SortFunc", "slices.SortStableFunc", "slices.Reverse", "slices.Delete",
		"slices.DeleteFunc", "slices.Compact", "maps.Copy", "maps.DeleteFunc", "sort.Slice", "sort.Strings", "rand.Shuffle")
}

// root is the variable that an expression is of: table of table[i].name, "" if it is of none.
func root(e ast.Expr) string {
	for {
		switch x := e.(type) {
		case *ast.Ident:
			return x.Name
		case *ast.SelectorExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.SliceExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		default:
			return ""
		}
	}
}

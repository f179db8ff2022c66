package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// The limits of length, in lines.
const (
	maxFunc = 80
	maxFile = 600
)

// selector is a use of an exported name of an imported package: os.Setenv.
type selector struct {
	name string // the package by the last part of its path, whatever the file calls it
	node ast.Node
}

// selectors lists what a file uses of the packages that it imports.
func selectors(f *File) []selector {
	names := map[string]string{}
	for _, spec := range f.AST.Imports {
		imported := importPath(spec)
		base := path.Base(imported)
		if spec.Name != nil {
			names[spec.Name.Name] = base
		} else {
			names[base] = base
		}
	}
	var list []selector
	ast.Inspect(f.AST, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := sel.X.(*ast.Ident); ok && names[x.Name] != "" {
				list = append(list, selector{names[x.Name] + "." + sel.Sel.Name, sel})
			}
		}
		return true
	})
	return list
}

// checkThreads lets internal/netns alone move threads. Holding on to one, which moves nothing, is what a process
// needs whose plugin is to die with it. Two tests do by hand what the package is for or does
// not offer: the floor that a benchmark is compared with, and a thread with mounts of its own.
func checkThreads(m *Module) []Finding {
	calls := []string{"runtime.LockOSThread", "runtime.UnlockOSThread", "unix.Setns", "unix.Unshare", "syscall.Unshare"}
	exempt := []string{"internal/pluginexec/death_linux.go", "internal/kernel/floor_linux_test.go", "internal/kernel/message_linux_test.go"}
	return append(m.missing(exempt...),
		m.ban(calls, "moves threads: only internal/netns does", func(p *Package, f *File) bool {
			return p.Dir == "internal/netns" || slices.Contains(exempt, f.Path)
		})...)
}

// missing reports files that a rule makes an exception of and that are not there any more.
func (m *Module) missing(files ...string) []Finding {
	var list []Finding
	for _, name := range files {
		if _, err := fs.Stat(m.files, name); err != nil {
			list = append(list, Finding{"internal/archtest", "the exception for " + name + " is of no use: it is not there"})
		}
	}
	return list
}

// ban reports every use of names in all files but the exempt ones.
func (m *Module) ban(names []string, why string, exempt func(*Package, *File) bool) []Finding {
	var list []Finding
	for _, p := range m.Packages {
		for _, f := range p.Files {
			if exempt(p, f) {
				continue
			}
			for _, sel := range selectors(f) {
				if matchAny(names, sel.name) {
					list = append(list, Finding{m.at(sel.node), sel.name + " " + why})
				}
			}
		}
	}
	return list
}

func checkContext(m *Module) []Finding {
	return append(m.missing(mains()...), m.ban([]string{"context.Background", "context.TODO"}, "outside main: take a context",
		func(p *Package, f *File) bool {
			return f.Test || p.isKit() || strings.HasPrefix(p.Dir, "cmd/") || strings.HasPrefix(p.Dir, "test/") ||
				slices.Contains(mains(), f.Path)
		})...)
}

// mains are files whose exported Main is all that a plugin's main function does.
func mains() []string { return []string{"plugin/main.go"} }

func checkSleep(m *Module) []Finding {
	return m.ban([]string{"time.Sleep"}, "polls: wait for the event, under a context", func(_ *Package, f *File) bool { return f.Test })
}

func checkSetenv(m *Module) []Finding {
	return m.ban([]string{"os.Setenv", "os.Unsetenv", "os.Clearenv"}, "changes the process for everybody: pass values, or t.Setenv",
		func(*Package, *File) bool { return false })
}

// checkListen refuses sockets that others could connect to, but for those of the node agent, which docs/threat-model.md speaks of.
func checkListen(m *Module) []Finding {
	// What the demo serves, it serves in a namespace that it made.
	const demo, agent = "internal/cli/demo_linux.go", "internal/agent/server/server.go"
	listening := []string{"net.Listen", "net.ListenTCP", "net.ListenUDP", "net.ListenUnix", "net.ListenPacket", "net.ListenUnixgram", "net.ListenConfig",
		"unix.Listen", "syscall.Listen"}
	return append(m.missing(demo, agent), m.ban(listening, "lets others connect: say in docs/threat-model.md who, and make an exception of the file",
		func(p *Package, f *File) bool {
			return f.Test || f.Path == demo || f.Path == agent || p.isKit() || matchAny([]string{"internal/sandbox/...", "test/..."}, p.Dir)
		})...)
}

// checkNames refuses names that say nothing.
func checkNames(m *Module) []Finding {
	empty := []string{"util", "utils", "helper", "helpers", "common", "misc", "types", "errors", "base", "shared", "lib"}
	var list []Finding
	for _, p := range m.Packages {
		for _, f := range p.Files {
			if slices.Contains(empty, strings.TrimSuffix(f.AST.Name.Name, "_test")) {
				list = append(list, Finding{m.at(f.AST.Name), "package name " + f.AST.Name.Name + " says nothing"})
			}
			// errors.go, with the errors of a package, says what is in it.
			base := strings.TrimSuffix(strings.TrimSuffix(path.Base(f.Path), ".go"), "_test")
			if base != "errors" && slices.Contains(empty, base) {
				list = append(list, Finding{f.Path, "file name says nothing"})
			}
		}
	}
	return list
}

// checkLength bounds files, and functions outside tests.
func checkLength(m *Module) []Finding {
	var list []Finding
	for _, p := range m.Packages {
		for _, f := range p.Files {
			if f.Lines > maxFile {
				list = append(list, Finding{f.Path, fmt.Sprintf("%d lines, at most %d", f.Lines, maxFile)})
			}
			for _, d := range f.AST.Decls {
				fn, ok := d.(*ast.FuncDecl)
				if !ok || f.Test {
					continue
				}
				if n := m.set.Position(fn.End()).Line - m.set.Position(fn.Pos()).Line + 1; n > maxFunc {
					list = append(list, Finding{m.at(fn), fmt.Sprintf("func %s has %d lines, at most %d", fn.Name.Name, n, maxFunc)})
				}
			}
		}
	}
	return list
}

func isCallOf(call *ast.CallExpr, names ...string) bool {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	x, ok := sel.X.(*ast.Ident)
	return ok && slices.Contains(names, x.Name+"."+sel.Sel.Name)
}

// checkErrorText refuses texts that say nothing, and decisions made by an error's text. Tests may look at
// what a person reads.
func checkErrorText(m *Module) []Finding {
	var list []Finding
	for p, f := range m.sources(false) {
		if p.Dir == "internal/archtest" {
			continue // it names what it forbids
		}
		ast.Inspect(f.AST, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BasicLit:
				if text, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING && strings.Contains(strings.ToLower(text), "failed to") {
					list = append(list, Finding{m.at(n), `"failed to": say what was done to which object, and the cause`})
				}
			case *ast.BinaryExpr:
				if (n.Op == token.EQL || n.Op == token.NEQ) && (isErrorText(n.X) || isErrorText(n.Y)) {
					list = append(list, Finding{m.at(n), "an error is matched by its text: use errors.Is or errors.AsType"})
				}
			case *ast.CallExpr:
				compares := isCallOf(n, "strings.Contains", "strings.HasPrefix", "strings.HasSuffix", "strings.EqualFold", "strings.Index")
				if compares && !p.isKit() && slices.ContainsFunc(n.Args, isErrorText) {
					list = append(list, Finding{m.at(n), "an error is matched by its text: use errors.Is or errors.AsType"})
				}
			}
			return true
		})
	}
	return list
}

// isErrorText reports whether an expression is x.Error().
func isErrorText(e ast.Expr) bool {
	call, ok := e.(*ast.CallExpr)
	if !ok || len(call.Args) > 0 {
		return false
	}
	sel, ok := call.Fun.(*ast.SelectorExpr)
	return ok && sel.Sel.Name == "Error"
}

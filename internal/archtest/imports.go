package archtest

import (
	"fmt"
	"go/ast"
	"path"
	"slices"
	"strconv"
	"strings"
)

// layer is a row of the table of who may import whom. What it does not name, packages of this module
// or other modules, is forbidden; the standard library is free, but see [checkPure].
type layer struct {
	dirs    []string // the packages, as patterns for match
	file    string   // only this file of them, beside what the row of the whole package says
	module  []string // packages of this module
	foreign []string // other modules, or packages of them
}

const sysModule = "golang.org/x/sys"

// layers returns the table, "The parts and who may import whom". What of it nobody needs any more is
// reported.
func layers() []layer {
	return append(agentLayers(), []layer{
		{dirs: []string{"cni", "netstate", "internal/dbus", "internal/nearmiss", "internal/output", "internal/testsum"}},
		{dirs: []string{"plugin"}, module: []string{"cni", "netstate", "internal/netns", "internal/pluginexec"}},
		{dirs: []string{"planned"}, module: []string{"cni", "netstate", "plugin"}},
		{dirs: []string{"planned"}, file: "main_linux.go", module: []string{"internal/kernel", "internal/leases", "internal/originals"}},
		{dirs: []string{"plugins"}, module: []string{"planned", "plugins/*"}},
		{dirs: []string{"plugins/*"}, module: []string{"cni", "netstate", "plugin", "planned", "internal/attached", "internal/backend", "internal/ipamconf", "internal/masq",
			"internal/podip", "internal/spoof"}},
		{dirs: []string{"libcni"}, module: []string{"cni", "netstate", "internal/atomicfile", "internal/filelock", "internal/nearmiss",
			"internal/netns", "internal/ownfile", "internal/pluginexec"}, foreign: []string{sysModule}},
		{dirs: []string{"internal/attached"}, module: []string{"cni"}},
		{dirs: []string{"internal/backend", "internal/podip"}, module: []string{"cni", "netstate"}},
		{dirs: []string{"internal/ipamconf"}, module: []string{"cni", "plugin"}},
		{dirs: []string{"internal/masq", "internal/spoof"}, module: []string{"netstate"}},
		{dirs: []string{"internal/ownfile"}},
		{dirs: []string{"internal/atomicfile"}, foreign: []string{sysModule}},
		{dirs: []string{"internal/filelock"}, module: []string{"internal/ownfile"}, foreign: []string{sysModule}},
		{dirs: []string{"internal/netns"}, module: []string{"netstate"}, foreign: []string{sysModule}},
		{dirs: []string{"internal/pluginexec"}, module: []string{"cni", "internal/nearmiss", "internal/ownfile"}},
		{dirs: []string{"internal/leases"}, module: []string{"cni", "netstate", "internal/filelock", "internal/netns", "internal/ownfile"},
			foreign: []string{sysModule}},
		{dirs: []string{"internal/originals"}, module: []string{"netstate", "internal/atomicfile", "internal/ownfile"}},
		{dirs: []string{"internal/firewalld"}, module: []string{"netstate", "internal/dbus", "internal/filelock", "internal/ownfile"}},
		{dirs: []string{"internal/kernel"}, module: []string{"netstate", "internal/filelock", "internal/firewalld", "internal/netns", "internal/ownfile"},
			foreign: []string{"github.com/mdlayher/netlink", "github.com/google/nftables", sysModule}},
		{dirs: []string{"internal/builtin"}, module: []string{"cni", "netstate", "libcni", "plugin", "planned", "internal/pluginexec"}},
		{dirs: []string{"internal/cli"}, module: []string{"cni", "netstate", "libcni", "planned", "internal/atomicfile", "internal/builtin", "internal/doctor",
			"internal/hostnet", "internal/lint", "internal/nearmiss", "internal/netns", "internal/output", "internal/schema", "internal/usage"},
			foreign: []string{"github.com/spf13/cobra", "github.com/spf13/pflag", sysModule}},
		{dirs: []string{"internal/engine"}, module: []string{"libcni", "planned", "plugins", "internal/builtin", "internal/kernel", "internal/leases", "internal/netns",
			"internal/originals"}},
		{dirs: []string{"internal/program"}},
		{dirs: []string{"internal/usage"}, foreign: []string{"github.com/spf13/pflag"}},
		{dirs: []string{"internal/schema"}, module: []string{"cni", "planned"}},
		{dirs: []string{"internal/hostnet"}},
		{dirs: []string{"internal/doctor"}, module: []string{"cni", "libcni", "netstate", "planned", "internal/hostnet", "internal/lint"}},
		{dirs: []string{"internal/lint"}, module: []string{"cni", "netstate", "planned", "plugin", "internal/hostnet", "internal/nearmiss", "internal/output", "internal/schema"}},
		{dirs: []string{"cmd/*"}, module: []string{"cni", "libcni", "plugin", "plugins", "internal/agent/monitor", "internal/agent/pause", "internal/builtin", "internal/cli", "internal/daemon",
			"internal/engine", "internal/nearmiss", "internal/program"}},
		{dirs: []string{"test/*"}},
	}...)
}

// covers reports whether the row speaks about a file.
func (l layer) covers(p *Package, f *File) bool {
	return matchAny(l.dirs, p.Dir) && (l.file == "" || f.Path == p.Dir+"/"+l.file)
}

func (l layer) allows(m *Module, imported string) bool {
	if dir, ok := strings.CutPrefix(imported, m.Path+"/"); ok {
		return matchAny(l.module, dir)
	}
	return within(imported, l.foreign)
}

// within reports whether an import path is one of a list or below it.
func within(imported string, list []string) bool {
	return slices.ContainsFunc(list, func(m string) bool { return imported == m || strings.HasPrefix(imported, m+"/") })
}

// isStandard reports whether an import is of the standard library: its first part has no dot.
func isStandard(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return !strings.Contains(first, ".")
}

func importPath(spec *ast.ImportSpec) string {
	s, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		return spec.Path.Value // the parser has seen to it
	}
	return s
}

func checkImports(m *Module) []Finding { return checkLayers(m, layers()) }

func checkLayers(m *Module, table []layer) []Finding {
	var list []Finding
	use := make([]usage, len(table))
	for p, f := range m.sources(false) {
		if p.isKit() {
			continue // it is test code: see checkTestImports
		}
		var rows []int
		for i, l := range table {
			if l.covers(p, f) {
				rows = append(rows, i)
				use[i].dirs = append(use[i].dirs, p.Dir)
			}
		}
		if len(rows) == 0 {
			list = append(list, Finding{f.Path, "the package stands in no row of the import table"})
		}
		for _, spec := range f.AST.Imports {
			imported := importPath(spec)
			allowed := isStandard(imported)
			for _, i := range rows {
				if table[i].allows(m, imported) {
					allowed = true
					use[i].imports = append(use[i].imports, strings.TrimPrefix(imported, m.Path+"/"))
				}
			}
			if !allowed {
				list = append(list, Finding{m.at(spec), fmt.Sprintf("%s may not import %s", p.Dir, imported)})
			}
		}
	}
	for i, l := range table {
		for _, text := range use[i].stale(l) {
			list = append(list, Finding{"internal/archtest", text})
		}
	}
	return list
}

// usage is what was seen of a row.
type usage struct {
	dirs    []string // of packages that it covers
	imports []string // that it allowed: folders of this module, or paths
}

// stale says what of a row is about nothing: a package that is not there, or an import that nobody needs.
func (u usage) stale(l layer) []string {
	var list []string
	for _, pattern := range l.dirs {
		if !slices.ContainsFunc(u.dirs, func(dir string) bool { return match(pattern, dir) }) {
			list = append(list, fmt.Sprintf("the import table's row for %s %s matches nothing", pattern, l.file))
		}
	}
	for _, pattern := range l.module {
		if !slices.ContainsFunc(u.imports, func(dir string) bool { return match(pattern, dir) }) {
			list = append(list, fmt.Sprintf("the import table lets %s import %s, and none does", l.dirs, pattern))
		}
	}
	for _, prefix := range l.foreign {
		if !slices.ContainsFunc(u.imports, func(imported string) bool { return within(imported, []string{prefix}) }) {
			list = append(list, fmt.Sprintf("the import table lets %s import %s, and none does", l.dirs, prefix))
		}
	}
	return list
}

// checkTestImports lets tests and test kits import any package of the module, of others what the package itself
// may and a few that tests need, and no library of assertions. Kits are imported by nobody else: no row allows it.
func checkTestImports(m *Module) []Finding {
	free := []string{"github.com/google/go-cmp", "github.com/rogpeppe/go-internal", "sigs.k8s.io/yaml", "k8s.io/api", "k8s.io/apimachinery", sysModule}
	var list []Finding
	for _, p := range m.Packages {
		for _, f := range p.Files {
			if !f.Test && !p.isKit() {
				continue
			}
			for _, spec := range f.AST.Imports {
				imported := importPath(spec)
				if isStandard(imported) || strings.HasPrefix(imported, m.Path+"/") || within(imported, free) {
					continue
				}
				if !slices.ContainsFunc(layers(), func(l layer) bool {
					return (l.covers(p, f) || p.isKit() && matchAny(l.dirs, path.Dir(p.Dir))) && l.allows(m, imported)
				}) {
					list = append(list, Finding{m.at(spec), "a test may not import " + imported})
				}
			}
		}
	}
	return list
}

// pure are the packages that are data and text, or plans: no file, no dialing, no clock, no randomness.
func pure() []string {
	return []string{"cni", "netstate", "plugins/*", "internal/attached", "internal/backend", "internal/ipamconf", "internal/masq",
		"internal/nearmiss", "internal/podip", "internal/schema", "internal/spoof", "internal/agent/decide", "internal/agent/manifest"}
}

// checkPure keeps the outside world out of pure packages: whole packages of the standard library, and single
// functions of those that hold data types too.
func checkPure(m *Module) []Finding {
	impure := []string{"os", "io/ioutil", "syscall", "net/http", "net/rpc", "net/smtp", "os/exec", "os/signal", "os/user",
		"math/rand", "math/rand/v2", "crypto/rand", "plugin", "runtime", "unsafe", "log"}
	calls := []string{"net.Dial*", "net.Listen*", "net.Lookup*", "net.Interface*", "net.Resolve*", "net.FileConn", "time.Now", "time.Since",
		"time.Until", "time.Sleep", "time.After*", "time.NewTimer", "time.NewTicker", "time.Tick", "filepath.Walk*", "filepath.Glob",
		"filepath.Abs", "filepath.EvalSymlinks"}
	var list []Finding
	for _, dir := range pure() {
		if !slices.ContainsFunc(m.Packages, func(p *Package) bool { return match(dir, p.Dir) }) {
			list = append(list, Finding{"internal/archtest", "the pure package " + dir + " is not there"})
		}
	}
	for p, f := range m.sources(false) {
		if !matchAny(pure(), p.Dir) {
			continue
		}
		for _, spec := range f.AST.Imports {
			if slices.Contains(impure, importPath(spec)) {
				list = append(list, Finding{m.at(spec), p.Dir + " is pure and may not import " + importPath(spec)})
			}
		}
		for _, sel := range selectors(f) {
			if matchAny(calls, sel.name) {
				list = append(list, Finding{m.at(sel.node), p.Dir + " is pure and may not use " + sel.name})
			}
		}
	}
	return list
}

// heavy are modules that cost every start of a program, or megabytes of it.
func heavy() []string {
	return []string{"k8s.io", "google.golang.org", "go.opentelemetry.io", "github.com/prometheus", "go.etcd.io",
		"github.com/google/go-containerregistry", "github.com/containerd", "github.com/opencontainers",
		"github.com/vishvananda/netlink", "sigs.k8s.io/knftables", "github.com/sirupsen/logrus", "go.uber.org/zap"}
}

// checkLight keeps heavy modules out of the programs that have to start in milliseconds: whatever they
// import within this module, and so on.
func checkLight(m *Module) []Finding {
	bans := map[string][]string{
		"cmd/cleat":     heavy(),
		"cmd/cleat-cni": append(heavy(), "github.com/spf13", "sigs.k8s.io", "net/http", "text/template", "html/template", "encoding/xml"),
	}
	var list []Finding
	for program, banned := range bans {
		seen := map[string]bool{}
		todo := []string{program}
		for len(todo) > 0 {
			dir := todo[0]
			todo = todo[1:]
			if seen[dir] {
				continue
			}
			seen[dir] = true
			for p, f := range m.sources(false) {
				if p.Dir != dir {
					continue
				}
				for _, spec := range f.AST.Imports {
					imported := importPath(spec)
					if within(imported, banned) {
						list = append(list, Finding{m.at(spec), fmt.Sprintf("%s links %s through this", program, imported)})
					}
					if next, ok := strings.CutPrefix(imported, m.Path+"/"); ok {
						todo = append(todo, next)
					}
				}
			}
		}
		if len(seen) == 1 {
			list = append(list, Finding{program, "the program is not there, or imports nothing of this module"})
		}
	}
	return list
}

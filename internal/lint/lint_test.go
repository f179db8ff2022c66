package lint_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/hostnet"
	"github.com/cleat-cni/cleat/internal/lint"
	"github.com/cleat-cni/cleat/netstate"
	"github.com/cleat-cni/cleat/planned"
	"github.com/cleat-cni/cleat/plugin"
	"github.com/cleat-cni/cleat/plugins"
)

var update = flag.Bool("update", false, "rewrite golden files and docs/lint.md")

// uplinked is a plugin whose interface stands on one of the host, which may be missing, or have a smaller MTU.
func uplinked() planned.Definition {
	type conf struct {
		Master string `json:"master" schema:"required"`
		MTU    int    `json:"mtu"`
	}
	return planned.Define(planned.Spec[conf]{
		Info:  plugin.Info{Type: "uplinked", About: "stands on an interface of the host"},
		Parse: func(req *plugin.Request) (c conf, err error) { return c, planned.DecodeConfig(req.Conf, &c) },
		Ask: func(c conf, _ planned.Input) netstate.Query {
			return netstate.Query{Links: []netstate.Ref{{Place: netstate.Host, Name: c.Master}}}
		},
		Plan: func(c conf, in planned.Input, seen netstate.Facts) (planned.Plan, error) {
			master, ok := seen.Link(netstate.Host, c.Master)
			switch {
			case !ok:
				return planned.Plan{}, cni.Errorf(cni.CodeNotAvailable, "master %s is not there", c.Master)
			case c.MTU > master.MTU:
				return planned.Plan{}, cni.Errorf(cni.CodeInvalidConfig, "mtu %d is above that of master %s, which is %d", c.MTU, c.Master, master.MTU)
			case c.MTU == 1:
				return planned.Plan{}, cni.Errorf(cni.CodeInvalidConfig, "mtu 1 is too small")
			}
			return planned.Plan{State: netstate.State{Links: []netstate.Link{{Place: netstate.Pod, Name: in.IfName, Kind: "macvlan", MTU: c.MTU}}}}, nil
		},
		IPAM:    func(conf) planned.IPAMUse { return planned.OptionalIPAM },
		Profile: planned.Profile{Conf: conf{}, Makes: "macvlan"},
	})
}

// node is a machine that a case describes in node.json.
type node struct {
	Plugins map[string][]string // the versions that a type speaks; null for one that is not there
	Routes  [][2]string         // network and interface
	Links   []hostnet.Link
	Kernel  netstate.Facts
	Blind   bool // nothing can be read of it
	MaxPods int
}

var _ lint.Node = (*node)(nil)

func (n *node) Plugin(_ context.Context, typ string) (lint.Installed, error) {
	versions, told := n.Plugins[typ]
	_, builtIn := plugins.ByType(typ)
	switch {
	case told && versions == nil, !told && !builtIn && typ != "uplinked":
		return lint.Installed{}, errors.New("not there")
	case told:
		return lint.Installed{Where: "/opt/cni/bin/" + typ, Versions: versions}, nil
	}
	return lint.Installed{Where: "built in", Versions: cni.Versions()}, nil
}

func (n *node) Facts(_ context.Context, q netstate.Query) (netstate.Facts, error) {
	if n.Blind {
		return netstate.Facts{}, errors.New("nothing can be read")
	}
	seen := n.Kernel
	seen.Links = slices.DeleteFunc(slices.Clone(seen.Links), func(l netstate.Link) bool { return !slices.Contains(q.Links, l.Ref()) })
	return seen, nil
}

func (n *node) Net() (hostnet.State, error) {
	if n.Blind {
		return hostnet.State{}, errors.New("nothing can be read")
	}
	s := hostnet.State{Links: n.Links}
	for _, r := range n.Routes {
		s.Routes = append(s.Routes, hostnet.Route{Dst: netip.MustParsePrefix(r[0]), Dev: r[1]})
	}
	return s, nil
}

func linter(t testing.TB, n lint.Node, maxPods int) *lint.Linter {
	t.Helper()
	l, err := lint.New(lint.Config{Plugins: append(plugins.All(), uplinked()), Node: n, MaxPods: maxPods})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// suite is a folder of cases: testdata/rules/ID.txtar has a case in each of its folders, with the findings in want, what is mended in
// fixed/, the modes of files in modes, files that can't be read in errors, and the machine in node.json.
type suite struct {
	file    string
	archive *txtar.Archive
	cases   []string
}

func suites(t testing.TB) []suite {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "rules", "*.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	var all []suite
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		s := suite{file: file, archive: archive}
		for _, f := range archive.Files {
			if name, _, _ := strings.Cut(f.Name, "/"); !slices.Contains(s.cases, name) {
				s.cases = append(s.cases, name)
			}
		}
		all = append(all, s)
	}
	return all
}

// id is the rule that the suite is about.
func (s suite) id() string { return strings.TrimSuffix(filepath.Base(s.file), ".txtar") }

// read returns a case's files, machine and goldens.
func (s suite) read(t testing.TB, name string) (files []lint.File, n *node, golden map[string]string) {
	t.Helper()
	golden = map[string]string{}
	modes := map[string]fs.FileMode{}
	for _, f := range s.archive.Files {
		rest, ok := strings.CutPrefix(f.Name, name+"/")
		if !ok {
			continue
		}
		switch {
		case rest == "want" || strings.HasPrefix(rest, "fixed/"):
			golden[rest] = string(f.Data)
		case rest == "node.json":
			n = &node{}
			d := json.NewDecoder(bytes.NewReader(f.Data))
			d.DisallowUnknownFields()
			if err := d.Decode(n); err != nil {
				t.Fatal(err)
			}
		case rest == "modes":
			for line := range strings.Lines(string(f.Data)) {
				file, mode, _ := strings.Cut(strings.TrimSpace(line), " ")
				bits, err := strconv.ParseUint(mode, 8, 32)
				if err != nil {
					t.Fatal(err)
				}
				modes[file] = fs.FileMode(bits)
			}
		case rest == "errors": // files that can't be read, and why
			for line := range strings.Lines(string(f.Data)) {
				file, why, _ := strings.Cut(strings.TrimSpace(line), " ")
				files = append(files, lint.File{Path: file, Err: errors.New(why)})
			}
		default:
			file := lint.File{Path: rest, Data: unescape(f.Data), Mode: 0o644}
			if dir := path.Dir(rest); dir != "." {
				file.Network = dir
			}
			files = append(files, file)
		}
	}
	for i := range files {
		if mode, ok := modes[files[i].Path]; ok {
			files[i].Mode = mode
		}
	}
	slices.SortFunc(files, func(a, b lint.File) int { return strings.Compare(a.Path, b.Path) })
	return files, n, golden
}

// unescape puts bytes that an archive of text can't hold in place of their names.
func unescape(data []byte) []byte {
	for name, b := range map[string]string{"<BOM>": "\xef\xbb\xbf", "<NUL>": "\x00", "<FF>": "\xff", "<NBSP>": "\u00a0"} {
		data = bytes.ReplaceAll(data, []byte(name), []byte(b))
	}
	if before, _, ok := bytes.Cut(data, []byte("<END>")); ok {
		return before // without the newline that an archive's file ends with
	}
	return data
}

// check runs all rules over a case.
func check(t testing.TB, files []lint.File, n *node) []lint.Finding {
	t.Helper()
	var machine lint.Node
	maxPods := 0
	if n != nil {
		machine, maxPods = n, n.MaxPods
		if n.Plugins == nil && n.Links == nil && n.Routes == nil && !n.Blind && n.Kernel.Links == nil {
			machine = nil
		}
	}
	found, err := linter(t, machine, maxPods).Check(t.Context(), []lint.Folder{{Path: ".", Whole: true, Files: files, Mode: 0o755}})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func text(found []lint.Finding) string {
	var b strings.Builder
	for _, f := range found {
		fmt.Fprintf(&b, "%s:%d:%d: %s %s %s\n", f.File, f.Line, f.Column, f.Severity, f.Rule, f.Message)
		if f.Hint != "" {
			fmt.Fprintf(&b, "\t%s\n", f.Hint)
		}
	}
	return b.String()
}

// TestRules runs every case of every rule. -update rewrites what they want.
func TestRules(t *testing.T) {
	total := 0
	for _, s := range suites(t) {
		changed := false
		for _, name := range s.cases {
			t.Run(s.id()+"/"+name, func(t *testing.T) {
				files, n, golden := s.read(t, name)
				found := check(t, files, n)
				if !slices.ContainsFunc(found, func(f lint.Finding) bool { return f.Rule == s.id() }) && !strings.HasPrefix(name, "good") {
					t.Errorf("%s finds nothing; all that is found:\n%s", s.id(), text(found))
				}
				if strings.HasPrefix(name, "good") && slices.ContainsFunc(found, func(f lint.Finding) bool { return f.Rule == s.id() }) {
					t.Errorf("%s has something against what is good:\n%s", s.id(), text(found))
				}
				got := map[string]string{"want": text(found)}
				for _, f := range linter(t, nil, 0).Fix(lint.Folder{Path: ".", Whole: true, Files: files}) {
					got["fixed/"+f.Path] = string(f.Data)
				}
				if *update {
					changed = true
					s.rewrite(name, got)
					return
				}
				if diff := cmp.Diff(golden, got); diff != "" {
					t.Errorf("(-want +got)\n%s", diff)
				}
			})
			if !strings.HasPrefix(name, "good") {
				total++
			}
		}
		if changed {
			if err := os.WriteFile(s.file, txtar.Format(s.archive), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	if total < 150 {
		t.Errorf("%d broken configurations, want at least 150", total)
	}
}

// rewrite puts goldens behind the files of a case.
func (s suite) rewrite(name string, golden map[string]string) {
	var files []txtar.File
	last := 0
	for _, f := range s.archive.Files {
		rest, ok := strings.CutPrefix(f.Name, name+"/")
		if ok && (rest == "want" || strings.HasPrefix(rest, "fixed/")) {
			continue
		}
		files = append(files, f)
		if ok {
			last = len(files)
		}
	}
	var added []txtar.File
	for rest, data := range golden {
		added = append(added, txtar.File{Name: name + "/" + rest, Data: []byte(data)})
	}
	slices.SortFunc(added, func(a, b txtar.File) int { return strings.Compare(b.Name, a.Name) })
	s.archive.Files = slices.Insert(files, last, added...)
}

// TestEveryRuleHasACase wants an archive of each rule, whose first case is the example in docs/lint.md.
func TestEveryRuleHasACase(t *testing.T) {
	var have []string
	for _, s := range suites(t) {
		have = append(have, s.id())
		if s.cases[0] != "example" {
			t.Errorf("%s: the first case is %s and not example", s.file, s.cases[0])
		}
	}
	seen := map[string]bool{}
	for _, r := range lint.Rules() {
		if !slices.Contains(have, r.ID) {
			t.Errorf("%s %s has no case", r.ID, r.Name)
		}
		if seen[r.ID] || seen[r.Name] || r.Why == "" {
			t.Errorf("%s %s is there twice, or doesn't say why", r.ID, r.Name)
		}
		seen[r.ID], seen[r.Name] = true, true
		if got, ok := lint.RuleOf(strings.ToLower(r.ID)); !ok || got.Name != r.Name {
			t.Errorf("RuleOf(%s) = %s, %v", r.ID, got.Name, ok)
		}
	}
	if _, ok := lint.RuleOf("L999"); ok {
		t.Error("there is a rule L999")
	}
}

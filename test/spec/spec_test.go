package spec

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/sandbox"
)

// TestMain is the fake plugin when it is called as one, else it makes the programs that the tests run.
func TestMain(m *testing.M) {
	if verb := os.Getenv("CNI_COMMAND"); verb != "" {
		os.Exit(fakePlugin(verb))
	}
	os.Exit(withPrograms(m))
}

func withPrograms(m *testing.M) int {
	if err := os.Mkdir(programs(), 0o755); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(programs())
	cmd := exec.Command("go", "build", "-buildvcs=false", "-o", program(), "github.com/cleat-cni/cleat/cmd/cleat-cni")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%v: %v\n%s", cmd.Args, err, out)
		return 1
	}
	return m.Run()
}

// programs is the folder of this process's programs.
func programs() string {
	return filepath.Join(os.TempDir(), fmt.Sprintf("cleat-spec-%d", os.Getpid()))
}

func program() string { return filepath.Join(programs(), "cleat-cni") }

// ruleTest is the test of one rule. Which plugins and versions it ran on is noted for the report.
type ruleTest struct {
	*testing.T
	seen *seen
}

// seen is what the tests of one rule ran on.
type seen struct {
	mu       sync.Mutex
	plugins  map[string]bool
	versions map[string]bool
	forms    map[form]bool
}

func newSeen() *seen {
	return &seen{plugins: make(map[string]bool), versions: make(map[string]bool), forms: make(map[form]bool)}
}

func (s *seen) note(c caseOf) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.plugin != "" {
		s.plugins[c.plugin] = true
	}
	if c.version != "" {
		s.versions[c.version] = true
	}
	if c.form != "" {
		s.forms[c.form] = true
	}
}

// caseOf names a case: what it runs on; fields may be empty.
type caseOf struct {
	plugin, version string
	form            form
}

func (c caseOf) String() string {
	var words []string
	for _, w := range []string{c.plugin, c.version, string(c.form)} {
		if w != "" {
			words = append(words, w)
		}
	}
	return strings.Join(words, "-")
}

// form is how a plugin is run.
type form string

const (
	asProgram form = "exec"
	inProcess form = "builtin"
)

// run runs a case beside the others.
func (r ruleTest) run(c caseOf, f func(t *testing.T)) {
	r.seen.note(c)
	r.T.Run(c.String(), func(t *testing.T) {
		t.Parallel()
		f(t)
	})
}

// each runs f for every plugin that pick wants (nil: all), in both forms, at the newest version.
func (r ruleTest) each(pick func(sample) bool, f func(m *machine, s sample)) {
	r.versions([]string{cni.Current}, pick, f)
}

// versions is each for several versions.
func (r ruleTest) versions(versions []string, pick func(sample) bool, f func(m *machine, s sample)) {
	sandbox.Require(r.T)
	for _, s := range samples() {
		if pick != nil && !pick(s) {
			continue
		}
		for _, v := range versions {
			for _, how := range []form{asProgram, inProcess} {
				r.run(caseOf{s.typ, v, how}, func(t *testing.T) { f(newMachine(t, v, how), s) })
			}
		}
	}
}

// programs is each for the program alone: what is about processes.
func (r ruleTest) programs(pick func(sample) bool, f func(m *machine, s sample)) {
	sandbox.Require(r.T)
	for _, s := range samples() {
		if pick == nil || pick(s) {
			r.run(caseOf{s.typ, cni.Current, asProgram}, func(t *testing.T) { f(newMachine(t, cni.Current, asProgram), s) })
		}
	}
}

// since returns the versions from min on.
func since(min string) []string {
	return slices.DeleteFunc(cni.Versions(), func(v string) bool { return !cni.AtLeast(v, min) })
}

// ruleTests are the tests of the rules, by number.
func ruleTests() map[string]func(ruleTest) {
	all := make(map[string]func(ruleTest))
	for _, part := range []map[string]func(ruleTest){
		configTests(), versionTests(), runtimeTests(), recordTests(), addTests(), delTests(), checkTests(), statusTests(), gcTests(),
		delegateTests(), resultTests(), codeTests(), environmentTests(),
	} {
		maps.Copy(all, part)
	}
	return all
}

// TestSpec runs the test of every rule and prints what they covered.
func TestSpec(t *testing.T) {
	tests := ruleTests()
	covered := make(map[string]*seen)
	t.Cleanup(func() { t.Log("\n" + report(covered)) })
	for _, r := range checklist() {
		f := tests[r.id]
		if f == nil {
			continue // TestEveryRuleHasATest
		}
		t.Run(r.id, func(t *testing.T) {
			covered[r.id] = newSeen()
			f(ruleTest{t, covered[r.id]})
		})
	}
}

// report lists what was covered, a rule a line.
func report(covered map[string]*seen) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, r := range checklist() {
		s := covered[r.id]
		switch {
		case r.open != "":
			fmt.Fprintf(w, "%s\t%s\tnot made use of\t%s: %s\n", r.id, r.level, r.text, r.open)
		case s != nil:
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", r.id, r.level, s, r.text)
		}
	}
	w.Flush() // into memory
	return b.String()
}

// String says what the rule's tests ran on.
func (s *seen) String() string {
	if len(s.plugins) == 0 && len(s.versions) == 0 {
		return "runtime"
	}
	words := slices.Sorted(maps.Keys(s.plugins))
	if len(words) == 0 {
		words = []string{"runtime"}
	}
	for _, f := range slices.Sorted(maps.Keys(s.forms)) {
		words = append(words, string(f))
	}
	versions := slices.SortedFunc(maps.Keys(s.versions), func(a, b string) int {
		return cmp.Compare(slices.Index(cni.Versions(), a), slices.Index(cni.Versions(), b))
	})
	switch n := len(versions); n {
	case 0:
	case 1:
		words = append(words, versions[0])
	default:
		words = append(words, versions[0]+"…"+versions[n-1])
	}
	return strings.Join(words, " ")
}

func TestEveryRuleHasATest(t *testing.T) {
	tests := ruleTests()
	known := make(map[string]bool)
	for _, r := range checklist() {
		if known[r.id] {
			t.Errorf("%s is in the checklist twice", r.id)
		}
		known[r.id] = true
		if f := tests[r.id]; (f == nil) == (r.open == "") {
			t.Errorf("%s (%s, %s): test %v, open %q: it has to be one of the two", r.id, r.level, r.text, f != nil, r.open)
		}
		if r.open != "" && r.level != "MAY" {
			t.Errorf("%s is a %s and can't be left open", r.id, r.level)
		}
	}
	for id := range tests {
		if !known[id] {
			t.Errorf("the test %s is of no rule", id)
		}
	}
}

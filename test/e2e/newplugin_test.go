package e2e

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/internal/sandbox"
)

const docs = "../../docs"

// blocksOf reads the blocks of a document that name a file, in a comment before them.
func blocksOf(t *testing.T, document string) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	blocks := map[string][]string{}
	for _, after := range strings.Split(string(text), "<!-- ")[1:] {
		name, rest, ok := strings.Cut(after, " -->\n```")
		_, rest, okLang := strings.Cut(rest, "\n")
		block, _, okEnd := strings.Cut(rest, "\n```\n")
		if !ok || !okLang || !okEnd {
			t.Fatalf("no block follows the name of a file: %.80q", after)
		}
		blocks[name] = append(blocks[name], block)
	}
	return blocks
}

// TestREADMEExamples: the Go code of README is that of examples, which the compiler and their tests have seen.
func TestREADMEExamples(t *testing.T) {
	blocks := blocksOf(t, "../../README.md")
	if len(blocks) < 2 {
		t.Errorf("%d files are named", len(blocks))
	}
	for name, list := range blocks {
		file, err := os.ReadFile(filepath.Join("../..", name))
		if err != nil {
			t.Error(err)
			continue
		}
		for _, block := range list {
			if !strings.Contains(string(file), block) {
				t.Errorf("%s does not hold\n%s", name, block)
			}
		}
	}
}

// TestNewPluginDocument: the blocks of docs/new-plugin.md that name a file are of that file, and those of a Go file are all of it.
func TestNewPluginDocument(t *testing.T) {
	blocks := blocksOf(t, filepath.Join(docs, "new-plugin.md"))
	for _, name := range slices.Sorted(maps.Keys(blocks)) {
		file, err := os.ReadFile(filepath.Join(docs, name))
		if err != nil {
			t.Error(err)
			continue
		}
		if filepath.Ext(name) == ".go" {
			if diff := cmp.Diff(string(file), strings.Join(blocks[name], "\n\n")+"\n"); diff != "" {
				t.Errorf("%s (-file +document):\n%s", name, diff)
			}
			continue
		}
		for _, block := range blocks[name] {
			if !strings.Contains(string(file), block) {
				t.Errorf("%s does not hold\n%s", name, block)
			}
		}
	}
	if len(blocks["example-plugin/main.go"]) < 2 || len(blocks["example-plugin/main_test.go"]) == 0 {
		t.Error("the document lacks the plugin or its tests")
	}
}

// TestNewPluginIsShort keeps the promise of the document.
func TestNewPluginIsShort(t *testing.T) {
	lines := 0
	for _, name := range []string{"main.go", "main_test.go"} {
		text, err := os.ReadFile(filepath.Join(docs, "example-plugin", name))
		if err != nil {
			t.Fatal(err)
		}
		lines += strings.Count(string(text), "\n")
	}
	if lines >= 100 {
		t.Errorf("%d lines of Go", lines)
	}
}

// TestNewPluginModule runs the tests of the example, which is a module of its own, as its author would: with nothing from the network, and
// its go.mod as it is.
func TestNewPluginModule(t *testing.T) {
	sandbox.Require(t)
	cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-mod=readonly", "-v", "./...")
	cmd.Dir = filepath.Join(docs, "example-plugin")
	cmd.Env = append(os.Environ(), "GOPROXY=off", "GOFLAGS=", "GOWORK=off")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	for _, test := range []string{"TestSpec/1.1.0/undo", "TestSpecOnThisKernel/1.1.0/add", "TestPlan/two-families", "TestREADME", "FuzzParse"} {
		if !strings.Contains(string(out), "--- PASS: "+test+" ") {
			t.Errorf("%s did not pass:\n%s", test, out)
		}
	}
}

// buildExample builds the example plugin as a program in dir.
func buildExample(t *testing.T, dir string) {
	t.Helper()
	cmd := exec.Command("go", "build", "-buildvcs=false", "-mod=readonly", "-o", filepath.Join(dir, "static-route"), ".")
	cmd.Dir = filepath.Join(docs, "example-plugin")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOPROXY=off", "GOFLAGS=", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
}

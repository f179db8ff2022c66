package lint_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/cleat-cni/cleat/internal/lint"
)

// TestGeneratedRules keeps docs/lint.md, behind its introduction, as it is made of the rules and of the first case of each. -update rewrites it.
func TestGeneratedRules(t *testing.T) {
	const mark = "<!-- from here on made by: go test ./internal/lint -update -->\n"
	path := filepath.Join("..", "..", "docs", "lint.md")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	introduction, have, ok := strings.Cut(string(text), mark)
	if !ok {
		t.Fatalf("%s has no line %s", path, mark)
	}
	want := table(t) + sections(t)
	if *update {
		if err := os.WriteFile(path, []byte(introduction+mark+want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("docs/lint.md is not what is made now (go test ./internal/lint -update) (-want +have):\n%s", diff)
	}
}

// table lists the rules, each with what it finds and how bad that is, by its cases.
func table(t *testing.T) string {
	var b strings.Builder
	b.WriteString("\n| rule | finds | severity | `--fix` |\n|---|---|---|---|\n")
	for _, r := range sorted() {
		s := suiteOf(t, r)
		fixes := ""
		if r.Fixes {
			fixes = "some"
		}
		var severities []string
		for _, severity := range []lint.Severity{lint.Error, lint.Warning, lint.Info} {
			if slices.ContainsFunc(s.archive.Files, func(f txtar.File) bool {
				return strings.HasSuffix(f.Name, "/want") && strings.Contains(string(f.Data), fmt.Sprintf(": %s %s ", severity, r.ID))
			}) {
				severities = append(severities, string(severity))
			}
		}
		about := strings.TrimSpace(string(s.archive.Comment))
		fmt.Fprintf(&b, "| [%s](#%s-%s) %s | %s | %s | %s |\n", r.ID, strings.ToLower(r.ID), r.Name, r.Name, about, strings.Join(severities, ", "), fixes)
	}
	return b.String()
}

// sections say of each rule why it matters, and show an example.
func sections(t *testing.T) string {
	var b strings.Builder
	for _, r := range sorted() {
		s := suiteOf(t, r)
		files, n, _ := s.read(t, s.cases[0])
		found := check(t, files, n)
		i := slices.IndexFunc(found, func(f lint.Finding) bool { return f.Rule == r.ID })
		if i < 0 {
			t.Fatalf("%s: the example has no finding", r.ID)
		}
		fmt.Fprintf(&b, "\n## %s %s\n\n%s\n\n```text\n%s```\n", r.ID, r.Name, wrap(r.Why), found[i].Render(nil))
	}
	return b.String()
}

func sorted() []lint.Rule {
	rules := lint.Rules()
	slices.SortFunc(rules, func(a, b lint.Rule) int { return strings.Compare(a.ID, b.ID) })
	return rules
}

func suiteOf(t *testing.T, r lint.Rule) suite {
	t.Helper()
	all := suites(t)
	i := slices.IndexFunc(all, func(s suite) bool { return s.id() == r.ID })
	if i < 0 {
		t.Fatalf("%s has no case", r.ID)
	}
	return all[i]
}

// wrap breaks a text into lines of a document.
func wrap(text string) string {
	var b strings.Builder
	n := 0
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0:
		case n+1+len(word) > 120:
			b.WriteByte('\n')
			n = 0
		default:
			b.WriteByte(' ')
			n++
		}
		b.WriteString(word)
		n += len(word)
	}
	return b.String()
}

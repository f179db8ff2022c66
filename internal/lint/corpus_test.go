package lint_test

import (
	"bytes"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/cleat-cni/cleat/internal/lint"
)

// TestGood wants no error in what the field documents.
func TestGood(t *testing.T) {
	archive, err := txtar.ParseFile(filepath.Join("testdata", "good.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	if len(archive.Files) < 60 {
		t.Errorf("%d configurations, want at least 60", len(archive.Files))
	}
	for _, f := range archive.Files {
		t.Run(f.Name, func(t *testing.T) {
			found := check(t, []lint.File{{Path: path.Base(f.Name), Data: f.Data, Mode: 0o644}}, nil)
			errors := slices.DeleteFunc(found, func(f lint.Finding) bool { return f.Severity != lint.Error })
			if len(errors) > 0 {
				t.Errorf("errors:\n%s", text(errors))
			}
		})
	}
}

// corpus are the networks of this repository: whole files, those in archives of tests, and blocks of documents.
func corpus(t *testing.T) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	root := os.DirFS(filepath.Join("..", ".."))
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || name == "internal/lint/testdata" || name == "bin"):
			return fs.SkipDir
		case d.IsDir():
			return nil
		}
		data, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		switch path.Ext(name) {
		case ".conflist", ".conf":
			all[name] = data
		case ".txtar":
			for _, f := range txtar.Parse(data).Files {
				if path.Ext(f.Name) == ".conflist" {
					all[name+":"+f.Name] = f.Data
				}
			}
		case ".md":
			for i, block := range bytes.Split(data, []byte("```json\n"))[1:] {
				block, _, _ = bytes.Cut(block, []byte("\n```"))
				if bytes.Contains(block, []byte(`"plugins"`)) {
					all[name+":"+strings.Repeat("i", i+1)] = block
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestCorpus judges every network that stands in this repository: none panics, and those of documents are good.
func TestCorpus(t *testing.T) {
	all := corpus(t)
	documents := 0
	for name, data := range all {
		found := check(t, []lint.File{{Path: "net.conflist", Data: data, Mode: 0o644}}, nil)
		if path.Ext(strings.Split(name, ":")[0]) != ".md" {
			continue
		}
		documents++
		for _, f := range found {
			if f.Severity == lint.Error {
				t.Errorf("%s: %s", name, text([]lint.Finding{f}))
			}
		}
	}
	if len(all) < 50 || documents < 10 {
		t.Errorf("only %d networks were found, %d of them in documents", len(all), documents)
	}
}

package lint_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cleat-cni/cleat/internal/lint"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// loaded is what of a file matters to the tests.
type loaded struct {
	Path, Data, Network, Err string
	Given                    bool
}

func load(t *testing.T, dir string, names ...string) ([]lint.Folder, [][]loaded) {
	t.Helper()
	var paths []string
	for _, name := range names {
		paths = append(paths, filepath.Join(dir, name))
	}
	folders, err := lint.Load(paths)
	if err != nil {
		t.Fatal(err)
	}
	var all [][]loaded
	for _, f := range folders {
		var files []loaded
		for _, file := range f.Files {
			rel, err := filepath.Rel(dir, file.Path)
			if err != nil {
				t.Fatal(err)
			}
			l := loaded{Path: rel, Data: string(file.Data), Network: file.Network, Given: file.Given}
			if file.Err != nil {
				l.Err = file.Err.Error()
			}
			files = append(files, l)
		}
		all = append(all, files)
	}
	return folders, all
}

func TestLoadFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "net[1].d") // letters that a pattern knows
	write(t, filepath.Join(dir, "10-a.conflist"), "a")
	write(t, filepath.Join(dir, "README"), "r")
	write(t, filepath.Join(dir, "net1", "10-p.conf"), "p")
	write(t, filepath.Join(dir, "net1", ".hidden.conf"), "h")
	write(t, filepath.Join(dir, "net1", "x.txt"), "x")
	write(t, filepath.Join(dir, "large.conf"), strings.Repeat("x", 1<<20+1))
	write(t, filepath.Join(dir, "folder.conflist", "x"), "")
	if err := os.Symlink("nowhere", filepath.Join(dir, "link.conflist")); err != nil {
		t.Fatal(err)
	}
	folders, got := load(t, dir, "")
	want := [][]loaded{{
		{Path: "10-a.conflist", Data: "a"}, {Path: "README", Data: "r"},
		{Path: "folder.conflist", Err: "it is a folder, not a file"},
		{Path: "large.conf", Err: "it has more than 1024 KiB"},
		{Path: "link.conflist", Err: "no such file or directory"},
		{Path: "net1/10-p.conf", Data: "p", Network: "net1"},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if !folders[0].Whole || folders[0].Mode&fs.ModeDir == 0 {
		t.Errorf("folder %+v", folders[0])
	}
}

func TestLoadFiles(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a", "1.conflist"), "1")
	write(t, filepath.Join(dir, "a", "2.txt"), "2")
	write(t, filepath.Join(dir, "a", "3.conflist"), "not named")
	write(t, filepath.Join(dir, "a", "net", "p.conf"), "p")
	write(t, filepath.Join(dir, "b", "1.conflist"), "b")
	folders, got := load(t, dir, "a/1.conflist", "b/1.conflist", "a/2.txt", "a/1.conflist")
	want := [][]loaded{
		{{Path: "a/net/p.conf", Data: "p", Network: "net"}, {Path: "a/1.conflist", Data: "1", Given: true}, {Path: "a/2.txt", Data: "2", Given: true}},
		{{Path: "b/1.conflist", Data: "b", Given: true}},
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if folders[0].Whole {
		t.Error("a folder of named files is whole")
	}
}

// TestLoadedAreJudged wants what was given to be judged whatever its name, and folders that nothing belongs to to be passed over.
func TestLoadedAreJudged(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "notes.txt"), `{"cniVersion": "1.1.0", "name": "n", "plugins": []}`)
	write(t, filepath.Join(dir, "other", "p.conf"), `not json`)
	folders, _ := load(t, dir, "notes.txt")
	found, err := linter(t, nil, 0).Check(t.Context(), folders)
	if err != nil {
		t.Fatal(err)
	}
	var rules []string
	for _, f := range found {
		rules = append(rules, f.Rule)
	}
	if diff := cmp.Diff([]string{"L506", "L206"}, rules); diff != "" {
		t.Errorf("rules (-want +got)\n%s", diff)
	}
}

func TestLoadRefuses(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "large.conf"), strings.Repeat("x", 1<<20+1))
	for _, path := range []string{"no-such", "large.conf"} {
		if _, err := lint.Load([]string{filepath.Join(dir, path)}); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: error %v, want one that names it", path, err)
		}
	}
}

// TestOpenFolder tells of a folder that everybody can write to.
func TestOpenFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "net.d")
	write(t, filepath.Join(dir, "a.conflist"), `{"cniVersion": "1.1.0", "name": "n", "plugins": [{"type": "bridge"}]}`)
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	folders, _ := load(t, dir, "")
	found, err := linter(t, nil, 0).Check(t.Context(), folders)
	if err != nil || len(found) != 1 || found[0].Rule != "L504" || found[0].File != dir || found[0].Line != 1 {
		t.Errorf("found %+v, error %v", found, err)
	}
}

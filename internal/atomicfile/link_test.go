package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// TestLinkNew: where there is no exclusive rename the two steps have the same effect.
func TestLinkNew(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	if err := os.WriteFile(from, []byte("first"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := linkNew(from, to); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(from); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the old name stays: %v", err)
	}
	if err := os.WriteFile(from, []byte("second"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := linkNew(from, to); !errors.Is(err, fs.ErrExist) {
		t.Errorf("linkNew over a file: %v, want fs.ErrExist", err)
	}
	if data, err := os.ReadFile(to); err != nil || string(data) != "first" {
		t.Errorf("content %q, %v", data, err)
	}
}

func TestSymlink(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "bridge")
	for _, target := range []string{"one", "two"} { // a new one, and in place of another
		if err := Symlink(target, path); err != nil {
			t.Fatal(err)
		}
		if got, err := os.Readlink(path); err != nil || got != target {
			t.Errorf("leads to %s, %v; want %s", got, err, target)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := Symlink("one", filepath.Join(dir, "folder")); err == nil {
		t.Error("a link in place of a folder")
	}
	if err := Symlink("one", filepath.Join(dir, "none", "x")); err == nil {
		t.Error("a link in no folder")
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("left: %v, %v", entries, err)
	}
}

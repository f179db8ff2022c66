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

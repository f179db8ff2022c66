package agent

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/cleat-cni/cleat/internal/ownfile"
)

// TestRootOfOthers: whoever can write to the agent's folder says what runs as root.
func TestRootOfOthers(t *testing.T) {
	root := filepath.Join(t.TempDir(), "root")
	if err := os.Mkdir(root, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(root, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := Run(t.Context(), Config{Root: root, Node: "n1"}); !errors.Is(err, ownfile.ErrForeign) {
		t.Errorf("run: %v, want %v", err, ownfile.ErrForeign)
	}
}

// TestControlGroupOfARoot: two agents on one machine share no group, though their pods may have the same UIDs.
func TestControlGroupOfARoot(t *testing.T) {
	a, b := ControlGroup("/srv/a"), ControlGroup("/srv/b")
	if own := ControlGroup(DefaultRoot); own != "cleat" || a == own || a == b || a != ControlGroup("/srv/a") {
		t.Errorf("groups %s, %s and %s", own, a, b)
	}
}

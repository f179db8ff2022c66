//go:build unix

package libcni_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/cleat-cni/cleat/libcni"
)

// TestSpecialFiles: nothing in the folder is waited for.
func TestSpecialFiles(t *testing.T) {
	dir := confDir(t, map[string]string{"real": listOf("linked", "bridge"), "90-x.conflist": listOf("x", "bridge")})
	for _, err := range []error{
		syscall.Mkfifo(filepath.Join(dir, "10-fifo.conflist"), 0o600),
		os.Symlink("nowhere", filepath.Join(dir, "20-dead.conflist")),
		os.Symlink("real", filepath.Join(dir, "30-link.conflist")),
		os.Mkdir(filepath.Join(dir, "40-dir.conflist"), 0o700),
		os.Symlink("/dev/zero", filepath.Join(dir, "50-zero.conf")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	d, err := libcni.LoadDir(dir)
	if err != nil || len(d.Networks) != 2 || d.Networks[0].Name != "linked" || len(d.Ignored) != 3 {
		t.Errorf("%+v, %v", d, err)
	}
	if _, err := libcni.ConfListFromFile(filepath.Join(dir, "10-fifo.conflist")); err == nil {
		t.Error("a FIFO is read")
	}
}

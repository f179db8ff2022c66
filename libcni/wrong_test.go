package libcni_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cleat-cni/cleat/libcni"
)

// TestFileForAFolderOfRecords: ADD is refused before a plugin runs, DEL and listing go on with a warning, and GC, which does not know
// what is attached, frees nothing.
func TestFileForAFolderOfRecords(t *testing.T) {
	locks := t.TempDir()
	for _, place := range []string{".", "results", "cleat", "cleat/adding"} {
		t.Run(strings.ReplaceAll(place, "/", "-"), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "state")
			k := newKit(t, func(cfg *libcni.Config) { cfg.StateDir, cfg.LockDir = dir, locks })
			file := filepath.Join(dir, place)
			write(t, file, "")
			list := network(t, "1.1.0", "a")
			if _, err := k.AddNetworkList(t.Context(), list, attachment()); err == nil || !strings.Contains(err.Error(), file) {
				t.Errorf("ADD: error %v", err)
			}
			if err := k.GCNetworkList(t.Context(), list, &libcni.GCArgs{}); err == nil || !strings.Contains(err.Error(), "not a folder") {
				t.Errorf("GC: error %v", err)
			}
			if ran := k.lines(); ran != nil {
				t.Errorf("ran %q", ran)
			}
			k.mustDel(t, list, attachment())
			if all, err := k.Attachments(t.Context()); err != nil || len(all) != 0 {
				t.Errorf("attachments %v, error %v", all, err)
			}
			if !strings.Contains(k.log.String(), "nothing can be recorded") {
				t.Errorf("no warning:\n%s", k.log)
			}
			if info, err := os.Lstat(file); err != nil || !info.Mode().IsRegular() {
				t.Errorf("the file: %v, %v", info, err)
			}
		})
	}
}

package libcni_test

import (
	"errors"
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
			k := newKit(t, lockDir(locks), func(cfg *libcni.Config) { cfg.StateDir = dir })
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

// lockDir spares a test that makes many CNIs the making of the locks for each.
func lockDir(dir string) func(*libcni.Config) { return func(cfg *libcni.Config) { cfg.LockDir = dir } }

// TestUnusableIntent: what a killed runtime left and a disk spoilt. It is told of, DEL by names frees what plugins can find and removes
// it, and the next ADD works.
func TestUnusableIntent(t *testing.T) {
	locks := t.TempDir()
	remake := func(f func(path string) error) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			if err := errors.Join(os.RemoveAll(path), os.MkdirAll(filepath.Dir(path), 0o700), f(path)); err != nil {
				t.Fatal(err)
			}
		}
	}
	text := func(s string) func(*testing.T, string) {
		return remake(func(path string) error { return os.WriteFile(path, []byte(s), 0o600) })
	}
	for _, tc := range []struct {
		name string
		make func(*testing.T, string)
	}{
		{"nuls", text(strings.Repeat("\x00", 512) + "\n")},
		{"noise", text("\xff\x80{]\n")},
		{"null", text("null\n")},
		{"list", text("[\n")},
		{"other-kind", text(`{"kind":"cniCacheV9"` + "\n")},
		{"nameless", text(`{"kind":"cniCacheV1"` + "\n")},
		{"wrong-types", text(`{"kind":"cniCacheV1","containerId":7` + "\n")},
		{"half-a-result", text(`{"kind":"cniCacheV1","containerId":7` + "\n" + `,"result":{"cni`)},
		{"folder", remake(func(path string) error { return os.Mkdir(path, 0o700) })},
		{"dead-link", remake(func(path string) error { return os.Symlink("nowhere", path) })},
		{"looping-link", remake(func(path string) error { return os.Symlink(filepath.Base(path), path) })},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k, list := newKit(t, lockDir(locks)), network(t, "1.1.0", "a")
			path := filepath.Join(k.state, "cleat", "adding", "net1-c1-eth0~"+intentHash)
			tc.make(t, path)
			all, err := k.Attachments(t.Context())
			if err != nil || len(all) != 1 || all[0].State != libcni.StateBroken || all[0].File != path || all[0].Err == nil {
				t.Errorf("attachments %+v, error %v", all, err)
			}
			if err := k.GCNetworkList(t.Context(), list, &libcni.GCArgs{}); err != nil {
				t.Errorf("GC: %v", err)
			}
			if err := k.CheckNetworkList(t.Context(), list, attachment()); err == nil {
				t.Error("CHECK succeeds")
			}
			k.lines()
			k.mustDel(t, list, attachment())
			if ran := k.lines(); len(ran) != 1 {
				t.Errorf("DEL ran %v", ran)
			}
			tc.make(t, path)
			k.mustAdd(t, list, attachment())
			k.mustDel(t, list, attachment())
			if records, intents := k.stored(t); len(records)+len(intents) > 0 {
				t.Errorf("left: %v %v", records, intents)
			}
		})
	}
}

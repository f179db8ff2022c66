//go:build unix

package libcni_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/libcni"
)

// TestPlantedRecords puts a record that may be another user's word in a record's place. It says that plugin c ran, and c must not
// run: DEL runs the configured list, and takes the file away.
func TestPlantedRecords(t *testing.T) {
	for name, plant := range map[string]func(text []byte, elsewhere, path string) error{
		"link": func(text []byte, elsewhere, path string) error {
			return errors.Join(os.WriteFile(elsewhere, text, 0o600), os.Symlink(elsewhere, path))
		},
		"writable-by-everybody": func(text []byte, _, path string) error {
			return errors.Join(os.WriteFile(path, text, 0o600), os.Chmod(path, 0o602))
		},
		"of-another-user": func(text []byte, _, path string) error {
			return errors.Join(os.WriteFile(path, text, 0o600), os.Chown(path, 12345, -1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKit(t)
			k.mustAdd(t, network(t, "1.1.0", "c"), attachment())
			text, err := os.ReadFile(k.recordPath())
			if err := errors.Join(err, os.Remove(k.recordPath())); err != nil {
				t.Fatal(err)
			}
			elsewhere := filepath.Join(t.TempDir(), "elsewhere")
			if err := plant(text, elsewhere, k.recordPath()); errors.Is(err, os.ErrPermission) {
				t.Skip(err)
			} else if err != nil {
				t.Fatal(err)
			}
			k.lines()
			k.mustDel(t, network(t, "1.1.0", "a"), attachment())
			if diff := cmp.Diff([]string{"DEL a"}, k.lines()); diff != "" {
				t.Errorf("ran (-want +got):\n%s", diff)
			}
			if records, _ := k.stored(t); len(records) > 0 {
				t.Errorf("left %q", records)
			}
			if _, err := os.Stat(elsewhere); name == "link" && err != nil {
				t.Errorf("the file elsewhere: %v", err)
			}
		})
	}
}

// TestPlantedIntent: the result is not written where a link in the intent's place leads.
func TestPlantedIntent(t *testing.T) {
	k := newKit(t)
	victim := filepath.Join(t.TempDir(), "victim")
	if err := os.WriteFile(victim, []byte("victim"), 0o600); err != nil {
		t.Fatal(err)
	}
	k.plugins["a"] = verbs{cni.VerbAdd: func(call libcni.Call) ([]byte, error) {
		_, intents := k.stored(t)
		path := filepath.Join(k.state, "cleat", "adding", intents[0])
		if err := errors.Join(os.Remove(path), os.Symlink(victim, path)); err != nil {
			t.Fatal(err)
		}
		return silent(call)
	}}
	if _, err := k.AddNetworkList(t.Context(), network(t, "1.1.0", "a"), attachment()); err == nil {
		t.Error("ADD succeeds")
	}
	if text, err := os.ReadFile(victim); err != nil || string(text) != "victim" {
		t.Errorf("the file elsewhere holds %q, %v", text, err)
	}
}

// TestOpenStateFolder: nothing is attached with a state folder that everybody can write to, and DEL still works.
func TestOpenStateFolder(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root is refused")
	}
	for _, folder := range []string{"", "results", "cleat/adding"} {
		t.Run("state/"+folder, func(t *testing.T) {
			k := newKit(t)
			list, other := network(t, "1.1.0", "a"), attachment()
			other.ContainerID = "c2"
			k.mustAdd(t, list, attachment())
			path := filepath.Join(k.state, folder)
			if err := os.Chmod(path, 0o777|os.ModeSticky); err != nil {
				t.Fatal(err)
			}
			k.lines()
			_, err := k.AddNetworkList(t.Context(), list, other)
			if e, ok := errors.AsType[*cni.Error](err); !ok || !strings.Contains(e.Hint, "chmod o-w "+path) {
				t.Errorf("error %v", err)
			}
			if ran := k.lines(); slices.Contains(ran, "ADD a") {
				t.Errorf("ran %q", ran)
			}
			k.mustDel(t, list, attachment())
		})
	}
}

// TestFilesArePrivate: what holds arguments and configuration can be read by its user alone.
func TestFilesArePrivate(t *testing.T) {
	k := newKit(t)
	check := func(dir string) {
		t.Helper()
		err := filepath.WalkDir(filepath.Join(k.state, dir), func(path string, d os.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err == nil && info.Mode().Perm()&0o077 != 0 {
				t.Errorf("%s has mode %04o", path, info.Mode().Perm())
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
	k.plugins["a"] = verbs{cni.VerbAdd: func(call libcni.Call) ([]byte, error) {
		check("cleat/adding")
		return silent(call)
	}}
	rt := attachment()
	rt.Args = cni.Args{{"TOKEN", "s3cret"}}
	k.mustAdd(t, network(t, "1.1.0", "a"), rt)
	check("results")
	if strings.Contains(k.log.String(), "s3cret") {
		t.Errorf("logged: %s", k.log)
	}
}

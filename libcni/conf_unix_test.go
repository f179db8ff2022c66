//go:build unix

package libcni_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/cni"
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
		os.Symlink("60-loop.conflist", filepath.Join(dir, "60-loop.conflist")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	d, err := libcni.LoadDir(dir)
	if err != nil || len(d.Networks) != 2 || d.Networks[0].Name != "linked" {
		t.Fatalf("%+v, %v", d, err)
	}
	var ignored []string
	for _, f := range d.Ignored {
		ignored = append(ignored, strings.ReplaceAll(f.String(), dir+"/", ""))
	}
	want := []string{
		"10-fifo.conflist: not a regular file",
		"open configuration: stat 20-dead.conflist: no such file or directory",
		"40-dir.conflist: a folder, not a file",
		"open configuration: stat 60-loop.conflist: too many levels of symbolic links",
		"50-zero.conf: not a regular file",
	}
	if diff := cmp.Diff(want, ignored); diff != "" {
		t.Errorf("ignored (-want +got):\n%s", diff)
	}
	if _, err := libcni.ConfListFromFile(filepath.Join(dir, "10-fifo.conflist")); err == nil {
		t.Error("a FIFO is read")
	}
}

// TestNetworkNamedLikeAFile: its folder of plugins is no file that is not used.
func TestNetworkNamedLikeAFile(t *testing.T) {
	dir := confDir(t, map[string]string{"10-x.conflist": listOf("x.conf", "a"), "x.conf/10-b.conf": `{"type":"b"}`})
	d, err := libcni.LoadDir(dir)
	if err != nil || len(d.Networks) != 1 || len(d.Networks[0].Plugins) != 2 || len(d.Ignored) != 0 {
		t.Errorf("%+v, %v", d, err)
	}
}

// TestEditorLeftovers are neither opened nor told of.
func TestEditorLeftovers(t *testing.T) {
	files := map[string]string{"10-x.conflist": listOf("x", "a")}
	for _, name := range []string{
		"10-x.conflist~", ".10-x.conflist.swp", "#10-x.conflist#", ".#10-x.conflist", "10-x.conflist.bak", "10-x.conflist.orig",
		"10-x.conflist.rpmnew", "10-x.conflist.dpkg-dist", "4913", ".10-x.conflist", "10-x.CONFLIST",
	} {
		files[name] = "{"
	}
	d, err := libcni.LoadDir(confDir(t, files))
	if err != nil || len(d.Networks) != 1 || len(d.Ignored) != 0 {
		t.Errorf("%+v, %v", d, err)
	}
}

// TestWritableByEverybody: what anybody can write is not run as root, and is no reason to lose the other networks.
func TestWritableByEverybody(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("who isn't root runs what he likes")
	}
	files := map[string]string{
		"10-open.conflist": listOf("open", "a"), "20-shut.conflist": listOf("shut", "a"), "30-more.conflist": listOf("more", "a"),
		"more/10-b.conf": `{"type":"b"}`, "40-folder.conflist": listOf("folder", "a"), "folder/10-b.conf": `{"type":"b"}`,
	}
	for _, tc := range []struct {
		name, open string // what everybody can write to
		want       string // names of the networks that are left, and the number of plugins of each
	}{
		{"nothing", "", "folder:2 more:2 open:1 shut:1"},
		{"file", "10-open.conflist", "folder:2 more:2 shut:1"},
		{"plugin-file", "more/10-b.conf", "folder:2 more:1 open:1 shut:1"},
		{"plugin-folder", "folder", "more:2 open:1 shut:1"},
		{"folder", ".", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := confDir(t, files)
			if tc.open != "" {
				if err := os.Chmod(filepath.Join(dir, tc.open), 0o777); err != nil {
					t.Fatal(err)
				}
			}
			d, err := libcni.LoadDir(dir)
			faults := []error{err}
			var got []string
			if err == nil {
				for _, list := range d.Networks {
					got = append(got, fmt.Sprintf("%s:%d", list.Name, len(list.Plugins)))
				}
				slices.Sort(got)
				for _, f := range d.Ignored {
					faults = append(faults, f.Err)
				}
			}
			if diff := cmp.Diff(tc.want, strings.Join(got, " ")); diff != "" {
				t.Errorf("networks (-want +got):\n%s", diff)
			}
			fault := errors.Join(faults...)
			if tc.open == "" {
				if fault != nil {
					t.Error(fault)
				}
				return
			}
			e, ok := errors.AsType[*cni.Error](fault)
			if path := filepath.Join(dir, tc.open); !ok || e.Code != cni.CodeInvalidConfig ||
				!strings.Contains(e.Msg, path+": everybody can write to it") || !strings.Contains(e.Hint, "chmod o-w "+path) {
				t.Errorf("error %v", fault)
			}
		})
	}
}

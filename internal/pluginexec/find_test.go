package pluginexec_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/pluginexec"
)

// TestB030Find: each thing that can be in the way has its own message.
func TestB030Find(t *testing.T) {
	empty, dir := t.TempDir(), t.TempDir()
	for name, mode := range map[string]os.FileMode{"bridge": 0o755, "host-local": 0o755, "noexec": 0o644} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, err := range []error{
		os.Mkdir(filepath.Join(dir, "folder"), 0o755),
		os.Symlink("bridge", filepath.Join(dir, "link")),
		os.Symlink("/no/where", filepath.Join(dir, "dead")),
		os.Mkdir(filepath.Join(empty, "bridge"), 0o755),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		name, typ string
		dirs      []string
		want      string // the path, or
		fault     string // what the error says
	}{
		{"first-folder", "bridge", []string{dir, empty}, filepath.Join(dir, "bridge"), ""},
		{"later-folder", "bridge", []string{"", "/no/such", empty, dir}, filepath.Join(dir, "bridge"), ""},
		{"link", "link", []string{dir}, filepath.Join(dir, "link"), ""},
		{"no-folders", "bridge", nil, "", "no plugin folder is given"},
		{"empty-folders", "bridge", []string{"", ""}, "", "CNI_PATH is empty"},
		{"not-found", "macvlan", []string{"/no/such", dir}, "", "not found in /no/such, " + dir},
		{"near-miss", "hostlocal", []string{dir}, "", "did you mean host-local?"},
		{"nothing-installed", "bridge", []string{"/no/such"}, "", "install them"},
		{"folder", "bridge", []string{empty}, "", "bridge is a directory"},
		{"not-executable", "noexec", []string{dir}, "", "noexec is not executable"},
		{"dead-link", "dead", []string{dir}, "", "dead is a dead link to /no/where"},
		{"below-a-file", "x", []string{filepath.Join(dir, "bridge")}, "", "can't be examined"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := pluginexec.Find(tc.typ, tc.dirs)
			if got != tc.want {
				t.Errorf("Find = %q, %v; want %q", got, err, tc.want)
			}
			if tc.fault == "" {
				return
			}
			e, ok := errors.AsType[*cni.Error](err)
			if !ok || e.Code != cni.CodeInvalidEnvironment || e.Plugin != tc.typ || !strings.Contains(e.Msg+e.Hint, tc.fault) {
				t.Errorf("error %#v, want code 4 and %q", err, tc.fault)
			}
			if missing := strings.HasPrefix(tc.fault, "not found"); missing && !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("error %v is not fs.ErrNotExist", err)
			}
		})
	}
}

// TestFindOpenToAll: what anybody could have written is not run as root; a folder further on that is in order is used.
func TestFindOpenToAll(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root is kept from it")
	}
	folder, program, good := t.TempDir(), t.TempDir(), t.TempDir()
	for _, dir := range []string{folder, program, good} {
		if err := os.WriteFile(filepath.Join(dir, "bridge"), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Chmod(folder, 0o777|os.ModeSticky), os.Chmod(filepath.Join(program, "bridge"), 0o757)); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ name, dir, fault string }{
		{"folder", folder, "everybody can write to " + folder + " (mode 0777)"},
		{"program", program, "everybody can write to " + program + "/bridge (mode 0757)"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path, err := pluginexec.Find("bridge", []string{tc.dir})
			if path != "" || cni.CodeOf(err) != cni.CodeInvalidEnvironment || !strings.Contains(err.Error(), tc.fault) || !strings.Contains(err.Error(), "chmod o-w") {
				t.Errorf("Find = %q, %v", path, err)
			}
			if path, err := pluginexec.Find("bridge", []string{tc.dir, good}); path != filepath.Join(good, "bridge") {
				t.Errorf("Find = %q, %v", path, err)
			}
		})
	}
}

// TestFindRelative: the path is absolute, so that the program is never looked up in PATH.
func TestFindRelative(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("sh", nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if path, err := pluginexec.Find("sh", []string{"."}); err != nil || !filepath.IsAbs(path) {
		t.Errorf("Find = %q, %v", path, err)
	}
}

// TestB084Traversal: a type is a bare name.
func TestB084Traversal(t *testing.T) {
	dir := t.TempDir()
	for _, typ := range []string{"", ".", "..", "../../sbin/reboot", "/bin/sh", `..\x`, "a/b", "a\x00b", strings.Repeat("x", 300)} {
		path, err := pluginexec.Find(typ, []string{dir, "/bin"})
		if path != "" || cni.CodeOf(err) != cni.CodeInvalidConfig {
			t.Errorf("Find(%q) = %q, %v; want code 7", typ, path, err)
		}
	}
}

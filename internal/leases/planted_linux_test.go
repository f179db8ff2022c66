package leases

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cleat-cni/cleat/internal/ownfile"
)

// TestPlantedLinks puts links to a file outside in the place of every file that the store writes. That file stays as it is, and
// ADD and DEL go on, or say what is in the way.
func TestPlantedLinks(t *testing.T) {
	for _, tc := range []struct{ name, in string }{
		{"lock", "net"}, {"last_reserved_ip.0", "net"}, {"last_reserved_ip.1", "net"}, {"10.9.0.2", "net"}, {"10.9.0.3", "net"},
		{"boot_id", "meta"}, {"index", "meta"}, {"new", "meta"}, {"swap", "meta"}, {"spare-1", "meta"},
	} {
		for how, link := range map[string]func(old, name string) error{"symbolic": os.Symlink, "hard": os.Link, "to-nothing": func(old, name string) error {
			return os.Symlink(old+"-new", name)
		}} {
			t.Run(tc.name+"-"+how, func(t *testing.T) {
				s, p := newStore(t, nil), poolOf(t, crowd4, crowd6)
				add(t, s, p, "c1")
				add(t, s, p, "c2")
				del(t, s, p, "c1") // leaves a spare file
				folder := filepath.Join(p.Dir, "net")
				if tc.in == "meta" {
					folder = filepath.Join(p.Dir, ".cleat", "net")
				}
				victim, path := filepath.Join(t.TempDir(), "victim"), filepath.Join(folder, tc.name)
				if err := os.WriteFile(victim, []byte(strings.Repeat("victim\n", 100)), 0o600); err != nil {
					t.Fatal(err)
				}
				if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
					t.Fatal(err)
				}
				if err := link(victim, path); err != nil {
					t.Fatal(err)
				}
				_, addErr := s.Reserve(t.Context(), p, owner("c3"), false)
				delErr := s.Release(t.Context(), p, owner("c2"))
				if tc.name == "lock" {
					if addErr == nil || delErr == nil || !strings.Contains(addErr.Error()+delErr.Error(), path) {
						t.Errorf("with such a lock: %v, %v", addErr, delErr)
					}
				} else if addErr != nil || delErr != nil {
					t.Errorf("ADD: %v, DEL: %v", addErr, delErr)
				}
				if text, err := os.ReadFile(victim); err != nil || string(text) != strings.Repeat("victim\n", 100) {
					t.Errorf("the file outside holds %.20q…, %v", text, err)
				}
				if _, err := os.Lstat(victim + "-new"); err == nil {
					t.Error("a file was made outside")
				}
			})
		}
	}
}

// TestForeignFolders refuses to give addresses from folders that others can write to, and frees what is there all the same.
func TestForeignFolders(t *testing.T) {
	for _, folder := range []string{"", "net", ".cleat", ".cleat/net"} {
		for how, change := range map[string]func(path string) error{
			"writable-by-everybody": func(path string) error { return os.Chmod(path, 0o757) },
			"of-another-user":       func(path string) error { return os.Chown(path, 12345, -1) },
		} {
			t.Run("dataDir/"+folder+"-"+how, func(t *testing.T) {
				s, p := newStore(t, nil), poolOf(t, crowd4)
				add(t, s, p, "c1")
				path := filepath.Join(p.Dir, folder)
				if err := change(path); errors.Is(err, unix.EPERM) || errors.Is(err, unix.EINVAL) {
					t.Skip(err)
				} else if err != nil {
					t.Fatal(err)
				}
				_, err := s.Reserve(t.Context(), p, owner("c2"), false)
				if !errors.Is(err, ownfile.ErrForeign) || !strings.Contains(err.Error(), path) {
					t.Errorf("error %v", err)
				}
				del(t, s, p, "c1")
				if got := leaseFiles(t, p); len(got) > 0 {
					t.Errorf("left %q", got)
				}
			})
		}
	}
}

// TestSharedFolder takes a dataDir that everybody can make files in, but not take away: /tmp.
func TestSharedFolder(t *testing.T) {
	s, p := newStore(t, nil), poolOf(t, crowd4)
	if err := errors.Join(os.MkdirAll(p.Dir, 0o755), os.Chmod(p.Dir, 0o777|os.ModeSticky)); err != nil {
		t.Fatal(err)
	}
	add(t, s, p, "c1")
	del(t, s, p, "c1")
}

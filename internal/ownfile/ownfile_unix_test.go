//go:build unix

package ownfile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/cleat-cni/cleat/internal/ownfile"
)

// TestOpen puts each thing in a file's place that somebody could have put there.
func TestOpen(t *testing.T) {
	for _, tc := range []struct {
		name  string
		plant func(path, victim string) error
		flag  int
		want  error // nil: it opens
	}{
		{"file", func(path, _ string) error { return os.WriteFile(path, []byte("x"), 0o600) }, os.O_RDWR, nil},
		{"nothing", func(string, string) error { return nil }, os.O_RDWR, fs.ErrNotExist},
		{"made", func(string, string) error { return nil }, os.O_RDWR | os.O_CREATE, nil},
		{"link", func(path, victim string) error { return os.Symlink(victim, path) }, os.O_RDONLY, ownfile.ErrNotFile},
		{"link-to-nothing", func(path, victim string) error { return os.Symlink(victim+"-new", path) }, os.O_RDWR | os.O_CREATE, ownfile.ErrNotFile},
		{"folder", func(path, _ string) error { return os.Mkdir(path, 0o700) }, os.O_RDONLY, ownfile.ErrNotFile},
		{"fifo-to-read", func(path, _ string) error { return syscall.Mkfifo(path, 0o600) }, os.O_RDONLY, ownfile.ErrNotFile},
		{"fifo-to-write", func(path, _ string) error { return syscall.Mkfifo(path, 0o600) }, os.O_WRONLY, ownfile.ErrNotFile},
		{"hard-link-to-write", func(path, victim string) error { return os.Link(victim, path) }, os.O_WRONLY, ownfile.ErrForeign},
		{"hard-link-to-read", func(path, victim string) error { return os.Link(victim, path) }, os.O_RDONLY, nil},
		{"writable-by-everybody", func(path, _ string) error {
			return errors.Join(os.WriteFile(path, nil, 0o600), os.Chmod(path, 0o602))
		}, os.O_RDONLY, ownfile.ErrForeign},
		{"of-another-user", func(path, _ string) error {
			return errors.Join(os.WriteFile(path, nil, 0o600), os.Chown(path, 12345, -1))
		}, os.O_RDONLY, ownfile.ErrForeign},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path, victim := filepath.Join(t.TempDir(), "file"), filepath.Join(t.TempDir(), "victim")
			if err := os.WriteFile(victim, []byte("secret"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := tc.plant(path, victim); errors.Is(err, fs.ErrPermission) {
				t.Skip(err)
			} else if err != nil {
				t.Fatal(err)
			}
			f, err := ownfile.Open(path, tc.flag, 0o600)
			if err == nil {
				f.Close()
			}
			if !errors.Is(err, tc.want) {
				t.Errorf("error %v, want %v", err, tc.want)
			}
			if _, err := os.Lstat(victim + "-new"); err == nil {
				t.Error("a file was made where the link leads")
			}
			if text, err := os.ReadFile(victim); err != nil || string(text) != "secret" {
				t.Errorf("the other file holds %q, %v", text, err)
			}
		})
	}
}

// TestRead reads at most what was asked for.
func TestRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("12345"), 0o600); err != nil {
		t.Fatal(err)
	}
	if text, err := ownfile.Read(path, 5); err != nil || string(text) != "12345" {
		t.Errorf("Read = %q, %v", text, err)
	}
	if _, err := ownfile.Read(path, 4); !errors.Is(err, ownfile.ErrTooLarge) {
		t.Errorf("error %v, want ErrTooLarge", err)
	}
}

//go:build unix

package filelock_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cleat-cni/cleat/internal/filelock"
)

// TestPlanted puts what somebody else could have put there in the place of a lock file: no lock is taken by it, and no file
// made elsewhere.
func TestPlanted(t *testing.T) {
	for name, plant := range map[string]func(victim, path string) error{
		"link":            os.Symlink,
		"link-to-nothing": func(victim, path string) error { return os.Symlink(victim+"-new", path) },
		"hard-link":       os.Link,
		"fifo":            func(_, path string) error { return syscall.Mkfifo(path, 0o600) },
		"folder":          func(_, path string) error { return os.Mkdir(path, 0o700) },
		"file-of-another-user": func(_, path string) error {
			return errors.Join(os.WriteFile(path, nil, 0o600), os.Chown(path, 12345, -1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			victim, path := filepath.Join(t.TempDir(), "victim"), filepath.Join(t.TempDir(), "lock")
			if err := os.WriteFile(victim, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := plant(victim, path); errors.Is(err, os.ErrPermission) {
				t.Skip(err)
			} else if err != nil {
				t.Fatal(err)
			}
			if l, err := filelock.Acquire(t.Context(), path); err == nil || !strings.Contains(err.Error(), path) {
				l.Release()
				t.Errorf("Acquire: %v", err)
			}
			if l, err := filelock.Try(path); err == nil {
				l.Release()
				t.Error("Try took it")
			}
			if _, err := os.Lstat(victim + "-new"); err == nil {
				t.Error("a file was made where the link leads")
			}
		})
	}
}

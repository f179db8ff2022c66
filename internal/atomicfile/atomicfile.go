// Package atomicfile writes small files so that a reader, and a process that starts after the
// writer was killed, sees all of a file's content or none of it: a temporary file in the same
// folder is renamed or linked to its name.
//
// Nothing is flushed to the disk (no fsync): the files describe things that end with the machine, and what
// a power cut leaves half-written is of an earlier boot and void.
package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// tempPrefix begins the names of temporary files. The dot keeps them out of listings that skip hidden files.
const tempPrefix = ".tmp-"

// Write makes or replaces the file at path. The folder must exist.
func Write(path string, data []byte, perm fs.FileMode) error {
	tmp, err := writeTemp(filepath.Dir(path), data, perm)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.Rename(tmp, path); err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", path, err), os.Remove(tmp))
	}
	return nil
}

// Create makes the file at path. If there is something of that name already the error is
// fs.ErrExist, and what is there stays as it is.
func Create(path string, data []byte, perm fs.FileMode) error {
	tmp, err := writeTemp(filepath.Dir(path), data, perm)
	if err != nil {
		return fmt.Errorf("create %s: %w", path, err)
	}
	err = Publish(tmp, path)
	if err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	return nil
}

// Publish gives the file at from the name to, which must be free: otherwise the error is fs.ErrExist and from
// stays. Both are on one file system.
func Publish(from, to string) error {
	err := os.Link(from, to)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("create %s: %w", to, fs.ErrExist)
	}
	if err != nil {
		return renameFree(from, to)
	}
	if err := os.Remove(from); err != nil {
		return fmt.Errorf("create %s: %w", to, err)
	}
	return nil
}

// renameFree serves file systems without hard links. Between the look and the rename another
// writer may slip in; there is no call that all systems have and that prevents it.
func renameFree(from, to string) error {
	if _, err := os.Lstat(to); err == nil {
		return fmt.Errorf("create %s: %w", to, fs.ErrExist)
	}
	if err := os.Rename(from, to); err != nil {
		return fmt.Errorf("create %s: %w", to, err)
	}
	return nil
}

// IsTemp reports whether name, the last element of a path, is one that this package gives temporary
// files. One that no writer is at work on is left over from a killed process.
func IsTemp(name string) bool { return strings.HasPrefix(name, tempPrefix) }

func writeTemp(dir string, data []byte, perm fs.FileMode) (string, error) {
	f, err := os.CreateTemp(dir, tempPrefix+"*")
	if err != nil {
		return "", err
	}
	_, err = f.Write(data)
	if err == nil && perm != 0o600 { // CreateTemp's own
		err = f.Chmod(perm)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), nil
}

// Package atomicfile makes small files appear at once: a reader, and a process that starts after the
// writer was killed, sees all of a file's content or none of it.
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

// WriteAs is Write with a temporary file whose name is [TempName] of tag, so that whoever comes after a killed writer knows whose it
// is. Only one may write with a tag at a time; what an earlier one left is replaced.
func WriteAs(tag, path string, data []byte, perm fs.FileMode) error {
	tmp := filepath.Join(filepath.Dir(path), TempName(tag))
	err := os.Remove(tmp)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = writeNew(tmp, data, perm)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.Rename(tmp, path); err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", path, err), os.Remove(tmp))
	}
	return nil
}

// TempName is the name of the temporary file of [WriteAs].
func TempName(tag string) string { return tempPrefix + tag }

// writeNew makes a file that must not be there. After an error it is not.
func writeNew(path string, data []byte, perm fs.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err := errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

// Symlink makes the symbolic link at path, which leads to target, or puts it in place of what is there. The folder must exist.
func Symlink(target, path string) error {
	// The file keeps its name, and with it the link's, from everybody else.
	tmp, err := writeTemp(filepath.Dir(path), nil, 0o600)
	if err != nil {
		return fmt.Errorf("link %s: %w", path, err)
	}
	link := tmp + ".link"
	err = os.Symlink(target, link)
	if err == nil {
		if err = os.Rename(link, path); err != nil {
			err = errors.Join(err, os.Remove(link))
		}
	}
	if err := errors.Join(err, os.Remove(tmp)); err != nil {
		return fmt.Errorf("link %s: %w", path, err)
	}
	return nil
}

// Publish renames from to a name that must be free: otherwise the error is fs.ErrExist and both stay as they are. Both
// names are on one file system.
func Publish(from, to string) error {
	err := renameNew(from, to)
	if errors.Is(err, errors.ErrUnsupported) {
		err = linkNew(from, to)
	}
	if err != nil {
		return fmt.Errorf("publish %s: %w", to, err)
	}
	return nil
}

// linkNew does in two steps what not every system or file system can in one. Killed between them, it leaves both names.
func linkNew(from, to string) error {
	if err := os.Link(from, to); err != nil {
		return err
	}
	return os.Remove(from)
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

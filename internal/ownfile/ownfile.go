// Package ownfile opens files that this program keeps for itself, in folders where somebody else may have put something in
// their place: a symbolic or hard link to a file that must not be read or written, a FIFO that would hold whoever
// opens it, or a file with another user's words in it.
//
// It looks at a path's last element and at who may write it. The folders above are the administrator's choice; those that a program makes for
// its files it examines with [Check].
package ownfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// ErrNotFile is in the error for what is not a regular file: a link, a folder, a FIFO, a socket, a device.
var ErrNotFile = errors.New("not a regular file")

// ErrForeign is in the error for a file or folder that others than root and this user can write or have made.
var ErrForeign = errors.New("not this user's alone")

// ErrTooLarge is in the error of [Read] for a file that has more bytes than asked for.
var ErrTooLarge = errors.New("too large")

// Open is os.OpenFile for a regular file that root or this user owns, that not everybody can write to, and, if it is opened for writing, that has
// no other name. A symbolic link is not followed, and nothing is waited for. The file is not truncated before all that is known, so
// flag must not have os.O_TRUNC.
func Open(path string, flag int, perm fs.FileMode) (*os.File, error) {
	f, err := os.OpenFile(path, flag|openFlags, perm)
	if err != nil {
		return nil, openError(path, err)
	}
	info, err := f.Stat()
	if err == nil {
		err = examine(info, flag&(os.O_WRONLY|os.O_RDWR) != 0)
	}
	if err != nil {
		f.Close()
		return nil, fault(path, err)
	}
	return f, nil
}

// openError says what it means that a path could not be opened.
func openError(path string, err error) error {
	if info, statErr := os.Lstat(path); statErr == nil && !info.Mode().IsRegular() {
		return fault(path, ErrNotFile)
	}
	return err
}

func fault(path string, err error) error { return &fs.PathError{Op: "open", Path: path, Err: err} }

func examine(info fs.FileInfo, write bool) error {
	if !info.Mode().IsRegular() {
		return ErrNotFile
	}
	if err := Check(info); err != nil {
		return err
	}
	if n := links(info); write && n > 1 {
		return fmt.Errorf("%w: it has %d names", ErrForeign, n)
	}
	return nil
}

// Read returns the content of a file that [Open] opens, which has at most max bytes.
func Read(path string, max int) ([]byte, error) {
	f, err := Open(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, int64(max)+1))
	if err == nil && len(data) > max {
		err = fault(path, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, max))
	}
	if err != nil {
		return nil, err
	}
	return data, nil
}

// Check refuses a file or folder that somebody else than root and this user owns, or that everybody can write to.
func Check(info fs.FileInfo) error {
	uid, ok := owner(info)
	if !ok {
		return nil
	}
	return CheckOwner(uid, info.Mode())
}

// CheckOwner is [Check] for a user's number and permissions.
func CheckOwner(uid int, mode fs.FileMode) error {
	switch {
	case uid != 0 && uid != os.Geteuid():
		return fmt.Errorf("%w: it belongs to the user %d", ErrForeign, uid)
	case mode&0o002 != 0:
		return fmt.Errorf("%w: everybody can write to it (mode %04o): chmod o-w it, after a look at what is there", ErrForeign, mode.Perm())
	}
	return nil
}

// OpenToAll reports whether everybody can write to a file or folder whose content this process, being root's, would do or run.
func OpenToAll(info fs.FileInfo) bool {
	return os.Geteuid() == 0 && info.Mode()&0o002 != 0
}

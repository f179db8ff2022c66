// Package filelock holds locks across processes: an exclusive lock on a file, which the kernel gives back
// when the process ends, however it ends. Waiting for one ends with the context, and the error then says who holds it
// where the system tells. The files are never removed. A file that another user made, or that is none, is an error.
package filelock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/cleat-cni/cleat/internal/ownfile"
)

// Lock is a lock that is held. Its descriptor is closed on exec: no program started meanwhile inherits it.
type Lock struct{ file *os.File }

// ErrHeld is the error of [Try] for a lock that somebody else holds.
var ErrHeld = errors.New("lock is held")

// Acquire waits for the lock on the file at path, which is made if it isn't there, until ctx ends. The error then
// matches the context's. Two calls in one process exclude each other as those of two processes do, but Go's memory model knows
// nothing of that: what goroutines share in memory needs a lock of its own.
func Acquire(ctx context.Context, path string) (*Lock, error) {
	for {
		f, err := open(path)
		if err != nil {
			return nil, err
		}
		if err := wait(ctx, f, path); err != nil {
			return nil, err
		}
		if current(f, path) {
			return &Lock{f}, nil
		}
		// The folder was cleared while we waited: others lock the new file.
		f.Close()
	}
}

// Try takes the lock if it is free; if not the error is [ErrHeld].
func Try(path string) (*Lock, error) {
	f, err := open(path)
	if err != nil {
		return nil, err
	}
	ok, err := tryLock(f)
	if err == nil && !ok {
		err = ErrHeld
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return &Lock{f}, nil
}

// Release gives the lock back.
func (l *Lock) Release() error { return l.file.Close() }

// open opens or makes the file. Only a missing folder costs a second try, which makes it. What another user put there is refused: he
// could hold it for ever, or have a file made where a link leads.
func open(path string) (*os.File, error) {
	const flags = os.O_RDWR | os.O_CREATE
	f, err := ownfile.Open(path, flags, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		f, err = ownfile.Open(path, flags, 0o600)
	}
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return f, nil
}

// wait closes f unless it returns nil. A thread that waits in the kernel for a lock can't be called off, so when ctx
// ends it stays until it has the lock, and gives it back at once.
func wait(ctx context.Context, f *os.File, path string) error {
	ok, err := tryLock(f)
	if ok {
		return nil
	}
	if err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		f.Close()
		return fmt.Errorf("lock %s: %w", path, err)
	}
	got := make(chan error)
	go func() {
		err := lock(f)
		select {
		case got <- err:
		case <-ctx.Done():
			f.Close()
		}
	}()
	select {
	case err := <-got:
		if err != nil {
			f.Close()
			return fmt.Errorf("lock %s: %w", path, err)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("lock %s: %w%s", path, context.Cause(ctx), heldBy(path))
	}
}

// heldBy says who holds the lock, if that can be learned.
func heldBy(path string) string {
	who := Holder(path)
	if who == "" {
		return ""
	}
	return ": held by " + who
}

// current reports whether path still names the file that is open as f.
func current(f *os.File, path string) bool {
	a, err := f.Stat()
	if err != nil {
		return false
	}
	b, err := os.Stat(path)
	return err == nil && os.SameFile(a, b)
}

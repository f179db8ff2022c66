package libcni

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/filelock"
)

// lockCount is the number of operation locks. All processes that share a lock folder must agree on it.
const lockCount = 256

// operationVar tells a plugin's program, and what it starts, the container whose lock is held until it ends. A plugin that is a runtime
// itself, as the ones that attach a pod to several networks are, would wait for ever for its own caller.
const (
	operationVar  = "CLEAT_OPERATION"
	allContainers = "*" // the value during a GC
)

// lookup returns the value of a variable; "" without it.
func lookup(environ []string, name string) string {
	for _, kv := range environ {
		if value, ok := strings.CutPrefix(kv, name+"="); ok {
			return value
		}
	}
	return ""
}

// lock takes the operation lock of a container, unless this process is part of an operation that holds it.
func (c *CNI) lock(ctx context.Context, containerID string) (release func(), err error) {
	i := lockIndex(containerID)
	if c.isHeld(i) {
		return func() {}, nil
	}
	l, err := filelock.Acquire(ctx, c.lockPath(i))
	if err != nil {
		return nil, operationLock(err, "another operation on container "+containerID)
	}
	return func() { unlock(l) }, nil
}

// tryLock is lock without waiting: the error wraps [ErrBusy] then.
func (c *CNI) tryLock(containerID string) (release func(), err error) {
	i := lockIndex(containerID)
	if c.isHeld(i) {
		return func() {}, nil
	}
	l, err := filelock.Try(c.lockPath(i))
	if errors.Is(err, filelock.ErrHeld) {
		return nil, cni.Errorf(cni.CodeTryAgain, "container %s: %w", containerID, ErrBusy)
	}
	if err != nil {
		return nil, err
	}
	return func() { unlock(l) }, nil
}

// lockAll takes every operation lock, in one order everywhere, so that two that do can't wait for each other.
func (c *CNI) lockAll(ctx context.Context) (release func(), err error) {
	locks := make([]*filelock.Lock, 0, lockCount)
	release = func() {
		for _, l := range locks {
			unlock(l)
		}
	}
	for i := range lockCount {
		if c.isHeld(i) {
			continue
		}
		l, err := filelock.Acquire(ctx, c.lockPath(i))
		if err != nil {
			release()
			return nil, operationLock(err, "running operations")
		}
		locks = append(locks, l)
	}
	return release, nil
}

// isHeld reports whether the operation that this process is part of holds a lock.
func (c *CNI) isHeld(i int) bool {
	return c.within == allContainers || c.within != "" && lockIndex(c.within) == i
}

func lockIndex(containerID string) int {
	sum := sha256.Sum256([]byte(containerID))
	return int(sum[0])
}

func (c *CNI) lockPath(i int) string {
	return filepath.Join(c.lockDir, fmt.Sprintf("operation-%02x.lock", i))
}

// unlock gives a lock back. It fails only where the descriptor is bad, and then there is no lock.
func unlock(l *filelock.Lock) { _ = l.Release() }

func operationLock(err error, what string) error {
	code := cni.CodeIO
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		code = cni.CodeTryAgain
	}
	return cni.Errorf(code, "wait for %s: %w", what, err)
}

package kernel

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cleat-cni/cleat/netstate"
)

// undoTimeout bounds an undo, which does not end with its caller's context.
const undoTimeout = 10 * time.Second

// undoFunc takes back one thing that was done. What is gone already is success.
type undoFunc func(ctx context.Context) error

// journal notes what a call did, in order.
type journal struct{ steps []undoFunc }

func (j *journal) add(f undoFunc) {
	if f != nil {
		j.steps = append(j.steps, f)
	}
}

// rollback takes everything back in reverse, after cause ended the call, and returns cause, with whatever
// could not be undone. A step that fails does not keep the others from running.
func (j *journal) rollback(ctx context.Context, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	errs := []error{cause}
	for _, undo := range slices.Backward(j.steps) {
		if err := undo(ctx); err != nil {
			errs = append(errs, fmt.Errorf("%w: %w", netstate.ErrLeft, err))
		}
	}
	j.steps = nil
	return errors.Join(errs...)
}

// reverse is the undo that sends r, and takes a thing that is missing as success.
func (s *Session) reverse(p netstate.Place, r *request) undoFunc {
	if r.accept == nil {
		r.accept = isMissing
	}
	return func(ctx context.Context) error {
		sp, err := s.space(p)
		if err != nil {
			return err
		}
		return sp.with(func(c *conn) error { return c.run1(ctx, r) })
	}
}

// deletion is the undo of a link that was made. Its index may be unknown, when the kernel's answer was lost.
func (s *Session) deletion(d *device) undoFunc {
	return func(ctx context.Context) error {
		sp, err := s.space(d.place)
		if err != nil {
			return err
		}
		found := d
		if d.index == 0 {
			err := sp.with(func(c *conn) error {
				var err error
				found, err = c.link(ctx, d.ref())
				return err
			})
			if errors.Is(err, netstate.ErrNotExist) {
				return nil
			}
			if err != nil {
				return err
			}
		}
		return sp.deleteLinks(ctx, found)
	}
}

// acceptOnly makes an accept of some error numbers.
func acceptOnly(list ...unix.Errno) func(unix.Errno) bool {
	return func(errno unix.Errno) bool { return slices.Contains(list, errno) }
}

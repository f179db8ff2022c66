//go:build !linux

package netns

import (
	"errors"
	"fmt"
)

// Handle is an open network namespace; there are none on this system.
type Handle struct{}

// Open returns errors.ErrUnsupported.
func Open(path string) (*Handle, error) {
	return nil, fmt.Errorf("open namespace %s: %w", path, errors.ErrUnsupported)
}

// Cookie returns errors.ErrUnsupported.
func (h *Handle) Cookie() (uint64, error) { return 0, errors.ErrUnsupported }

// Close does nothing.
func (h *Handle) Close() error { return nil }

// Current returns errors.ErrUnsupported.
func Current() (*Handle, error) { return nil, errors.ErrUnsupported }

// Same returns errors.ErrUnsupported.
func (h *Handle) Same(other *Handle) (bool, error) { return false, errors.ErrUnsupported }

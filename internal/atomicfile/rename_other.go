//go:build !linux

package atomicfile

import "errors"

func renameNew(_, _ string) error { return errors.ErrUnsupported }

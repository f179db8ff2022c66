//go:build unix

package libcni

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// writable checks that files can be made in dir; root is told of a read-only file system too.
func writable(dir string) error {
	if err := unix.Access(dir+"/.", unix.W_OK); err != nil {
		return fmt.Errorf("write to %s: %w", dir, err)
	}
	return nil
}

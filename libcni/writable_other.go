//go:build !unix

package libcni

import (
	"fmt"
	"os"
)

// writable checks that dir is a folder; whether it can be written to shows when it is.
func writable(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("write to %s: not a folder", dir)
	}
	return nil
}

//go:build !linux

package plugintest

import (
	"testing"

	"github.com/cleat-cni/cleat/internal/sandbox"
)

func newScratch(t testing.TB) world {
	t.Helper()
	sandbox.Need(t, "netns", "this system has no network namespaces")
	return nil
}

package plugintest_test

import (
	"testing"

	"github.com/cleat-cni/cleat/internal/sandbox"
	"github.com/cleat-cni/cleat/plugin/plugintest"
)

// TestScratch runs the same on the real kernel.
func TestScratch(t *testing.T) {
	sandbox.Require(t)
	for name, c := range cases() {
		c.Scratch = true
		t.Run(name, func(t *testing.T) { plugintest.Run(t, c) })
	}
}

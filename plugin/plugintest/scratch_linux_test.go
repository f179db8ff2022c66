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
		c.Planned.Info.Versions = []string{"0.4.0", "1.1.0"} // TestMemory has them all, and takes a hundredth of the time
		t.Run(name, func(t *testing.T) { plugintest.Run(t, c) })
	}
}

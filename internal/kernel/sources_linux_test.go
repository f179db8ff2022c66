package kernel_test

import (
	"path/filepath"
	"testing"

	"github.com/cleat-cni/cleat/internal/firewalld"
	"github.com/cleat-cni/cleat/internal/firewalld/firewalldtest"
	"github.com/cleat-cni/cleat/internal/kernel"
	"github.com/cleat-cni/cleat/internal/kernel/kerneltest"
	"github.com/cleat-cni/cleat/internal/sandbox"
	"github.com/cleat-cni/cleat/netstate"
)

// TestFirewalld holds the kernel to the contract with a firewalld that behaves as the real one.
func TestFirewalld(t *testing.T) {
	sandbox.Require(t)
	kerneltest.Firewalld(t, func(t *testing.T) kerneltest.FirewalldFixture {
		cfg := firewalld.Config{Bus: firewalldtest.StartBus(t), Dir: filepath.Join(t.TempDir(), "firewalld")}
		f := firewalldtest.Start(t, cfg.Bus)
		return kerneltest.FirewalldFixture{
			Fixture:   newFixtureOf(t, newMachine(t), kernel.Config{Firewalld: cfg}),
			Start:     f.Restart,
			Stop:      f.Stop,
			AddSource: func(o netstate.Source) { f.Add(o.Zone, o.Prefix.String()) },
			Sources:   f.Sources,
		}
	})
}

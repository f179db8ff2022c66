package kerneltest_test

import (
	"testing"

	"github.com/cleat-cni/cleat/internal/kernel/kerneltest"
)

func TestMemoryContract(t *testing.T) {
	kerneltest.Contract(t, func(t *testing.T) kerneltest.Fixture {
		return kerneltest.NewMemory(kerneltest.Config{}).Fixture(t)
	})
}

func TestMemoryIptables(t *testing.T) {
	kerneltest.Iptables(t, func(t *testing.T) kerneltest.Fixture {
		return kerneltest.NewMemory(kerneltest.Config{}).Fixture(t)
	})
}

func TestMemoryFirewalld(t *testing.T) {
	kerneltest.Firewalld(t, func(t *testing.T) kerneltest.FirewalldFixture {
		m := kerneltest.NewMemory(kerneltest.Config{Firewalld: true})
		return kerneltest.FirewalldFixture{Fixture: m.Fixture(t), Start: m.StartFirewalld, Stop: m.StopFirewalld,
			AddSource: m.AddSource, Sources: m.SourcesOf}
	})
}

// TestMemoryAgreesWithItself: the same steps come to the same.
func TestMemoryAgreesWithItself(t *testing.T) {
	for seed := range uint64(50) {
		one, other := kerneltest.NewMemory(kerneltest.Config{}), kerneltest.NewMemory(kerneltest.Config{})
		kerneltest.Agree(t, one.Fixture(t), other.Fixture(t), seed)
	}
}

package kernel

import (
	"testing"

	"github.com/cleat-cni/cleat/internal/leaktest"
)

// TestMain: what an ADD makes in the process's own namespace is a bridge, which DEL leaves.
func TestMain(m *testing.M) { leaktest.Main(m, "interface cni0", "interface cni1", "interface cni2") }

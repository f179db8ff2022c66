package planned

import (
	"testing"

	"github.com/cleat-cni/cleat/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

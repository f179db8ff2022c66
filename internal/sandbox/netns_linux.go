package sandbox

import (
	"testing"

	"github.com/cleat-cni/cleat/internal/netns"
)

// Namespace returns a fresh network namespace that ends with the test.
func Namespace(t testing.TB) *netns.Handle {
	t.Helper()
	Require(t)
	h, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return h
}

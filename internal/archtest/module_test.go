package archtest_test

import (
	"os"
	"testing"

	"github.com/cleat-cni/cleat/internal/archtest"
)

// TestModule holds this module to the rules.
func TestModule(t *testing.T) {
	m, err := archtest.Load(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Packages) < 15 {
		t.Fatalf("only %d packages were found", len(m.Packages))
	}
	for _, r := range archtest.Rules() {
		t.Run(r.Name, func(t *testing.T) {
			for _, f := range r.Check(m) {
				t.Error(f)
			}
		})
	}
}

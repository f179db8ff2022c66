package kerneltest

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/netstate"
)

// testSupports: what could be made is tried, and the host keeps nothing of it; what could not names its object.
func testSupports(t *testing.T, f Fixture) {
	before := f.Text("")
	s := attachment(1)
	for range 2 {
		if err := f.Kernel.Supports(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	bad := attachment(1)
	bad.Links[0].Kind = "no-such-kind"
	err := f.Kernel.Supports(t.Context(), bad)
	about, ok := errors.AsType[*netstate.ObjectError](err)
	if !ok || !errors.Is(err, netstate.ErrUnsupported) || about.Object != bad.Links[0].Key() {
		t.Errorf("error %v, want ErrUnsupported about %s", err, bad.Links[0].Key())
	}
	if diff := cmp.Diff(before, f.Text("")); diff != "" {
		t.Errorf("the host changed (-before +after)\n%s", diff)
	}
}

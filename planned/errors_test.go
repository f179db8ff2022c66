package planned_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/planned"
)

// TestDifferencesOf: what a CHECK found is the same from its error and from the error object of a program.
func TestDifferencesOf(t *testing.T) {
	w := newWorld(nil)
	ns := w.kernel.NewPod()
	p := w.engine.Plugin(wire())
	res, err := p.Add(t.Context(), request(t, cni.VerbAdd, ns, withPool, nil))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.kernel.DelLink(ns, "eth0"); err != nil {
		t.Fatal(err)
	}
	err = p.Check(t.Context(), request(t, cni.VerbCheck, ns, withPool, res))
	want, ok := planned.DifferencesOf(fmt.Errorf("check: %w", err))
	if !ok || len(want) == 0 {
		t.Fatalf("no differences in %v", err)
	}
	object, err := json.Marshal(cni.AsError(err))
	if err != nil {
		t.Fatal(err)
	}
	read := new(cni.Error)
	if err := json.Unmarshal(object, read); err != nil {
		t.Fatal(err)
	}
	got, ok := planned.DifferencesOf(fmt.Errorf("plugin wire: %w", read))
	if diff := cmp.Diff(want, got); !ok || diff != "" {
		t.Errorf("from %s (-want +got)\n%s", object, diff)
	}
	for name, err := range map[string]error{
		"none":    nil,
		"other":   errors.New("other"),
		"without": &cni.Error{Code: planned.CodeDifferent},
		"strange": &cni.Error{Extra: map[string]json.RawMessage{"differences": json.RawMessage(`3`)}},
		"empty":   &cni.Error{Extra: map[string]json.RawMessage{"differences": json.RawMessage(`[]`)}},
	} {
		if list, ok := planned.DifferencesOf(err); ok {
			t.Errorf("%s: %v", name, list)
		}
	}
}

package planned_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/planned"
)

// notes is an observer that writes down what it hears. What has not ended stands in the context of what begins meanwhile.
type notes struct{ lines []string }

type notesKey struct{}

func (n *notes) Begin(ctx context.Context, a planned.Action) context.Context {
	return context.WithValue(ctx, notesKey{}, a)
}

func (n *notes) End(ctx context.Context, a planned.Action, err error) {
	if began, _ := ctx.Value(notesKey{}).(planned.Action); began != a {
		n.lines = append(n.lines, fmt.Sprintf("%v ends, and began as %v", a, began))
		return
	}
	line := fmt.Sprintf("%s %s %s", a.Verb, a.Plugin, a.Step)
	if err != nil {
		line += " failed"
	}
	n.lines = append(n.lines, line)
}

func TestObserver(t *testing.T) {
	failing := error(nil)
	w := newWorld(func(step string) error {
		if strings.Contains(step, "link") {
			return failing
		}
		return nil
	})
	ns := w.kernel.NewPod()
	seen := &notes{}
	ctx := planned.WithObserver(t.Context(), seen)
	run := func(verb cni.Verb, do func() error, want ...string) {
		t.Helper()
		seen.lines = nil
		if err := do(); (err != nil) != strings.Contains(strings.Join(want, "\n"), "failed") {
			t.Errorf("%s: error %v", verb, err)
		}
		if diff := cmp.Diff(want, seen.lines); diff != "" {
			t.Errorf("%s (-want +got):\n%s", verb, diff)
		}
	}
	steps := func(verb cni.Verb) []planned.Step {
		return []planned.Step{{Def: wire(), Req: request(t, verb, ns, withPool, nil)}, {Def: tag(), Req: request(t, verb, ns, `{"cniVersion":"1.1.0","name":"n","type":"tag"}`, nil)}}
	}
	add := func() error { _, err := w.engine.AddList(ctx, steps(cni.VerbAdd)); return err }
	planning := []string{"ADD pool ipam", "ADD wire observe", "ADD wire plan", "ADD tag observe", "ADD tag plan"}
	failing = errors.New("broken")
	run(cni.VerbAdd, add, append(planning, "ADD wire+tag apply failed")...)
	failing = nil
	run(cni.VerbAdd, add, append(planning, "ADD wire+tag apply")...)
	run(cni.VerbDel, func() error { return w.engine.DelList(ctx, steps(cni.VerbDel)) },
		"DEL tag plan", "DEL wire plan", "DEL wire+tag remove", "DEL pool ipam")
	p := w.engine.Plugin(wire())
	run(cni.VerbStatus, func() error { return p.Status(ctx, request(t, cni.VerbStatus, "", withPool, nil)) },
		"STATUS pool ipam", "STATUS wire observe", "STATUS wire plan", "STATUS wire try")
	res, err := p.Add(t.Context(), request(t, cni.VerbAdd, ns, withPool, nil))
	if err != nil {
		t.Fatal(err)
	}
	run(cni.VerbCheck, func() error { return p.Check(ctx, request(t, cni.VerbCheck, ns, withPool, res)) },
		"CHECK pool ipam", "CHECK wire observe", "CHECK wire plan", "CHECK wire diff")
	gc := strings.Replace(withPool, "{", `{"cni.dev/valid-attachments":[],`, 1)
	run(cni.VerbGC, func() error { return p.GC(ctx, request(t, cni.VerbGC, "", gc, nil)) }, "GC wire collect", "GC pool ipam")
}

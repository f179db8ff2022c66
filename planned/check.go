package planned

import (
	"context"
	"errors"
	"slices"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/netstate"
	"github.com/cleat-cni/cleat/plugin"
)

// CheckList compares what the ADD of the steps made with the kernel, in one look. What several plugins set is as the last of them
// set it. The error wraps a [*DifferencesError] with the differences of all, and names the plugin of the first.
func (e *Engine) CheckList(ctx context.Context, steps []Step) error {
	session, err := e.openPod(ctx, steps[0].Req)
	if err != nil {
		return at(steps[0], "check", err)
	}
	defer session.Close()
	found := &findings{}
	for _, step := range steps {
		err := (&verbs{e, step.Def}).delegated(ctx, step.Req, plugin.Plugin.Check)
		if err := found.add(step, "ipam", err); err != nil {
			return err
		}
	}
	made, err := recordedStates(ctx, session, steps)
	if err != nil {
		return err
	}
	var diffs []netstate.Difference
	err = action(steps, StepDiff).Do(ctx, func(ctx context.Context) (err error) {
		diffs, err = session.Diff(ctx, made.judged())
		return err
	})
	if err != nil {
		return at(steps[0], "check", err)
	}
	if len(diffs) > 0 {
		err = &DifferencesError{Differences: diffs}
	}
	if err := found.add(made.blame(diffs), "check", err); err != nil {
		return err
	}
	return found.err()
}

// findings are the differences of a list.
type findings struct {
	all   []netstate.Difference
	first *cni.Error // tells of the first of them
}

// add keeps the differences of an error that a step of a plugin brought; another error it returns.
func (f *findings) add(s Step, step string, err error) error {
	diff, ok := errors.AsType[*DifferencesError](err)
	if err == nil || !ok {
		return at(s, step, err)
	}
	f.all = append(f.all, diff.Differences...)
	if f.first == nil {
		f.first = cni.AsError(at(s, step, err))
	}
	return nil
}

// err tells of all differences as the first plugin's error does of its own.
func (f *findings) err() error {
	if f.first == nil {
		return nil
	}
	e := cni.Errorf(f.first.Code, "%w", &DifferencesError{Differences: f.all})
	e.Plugin, e.Verb, e.Step, e.Hint = f.first.Plugin, f.first.Verb, f.first.Step, f.first.Hint
	withDifferences(e, e)
	return e
}

// recorded is what the ADD of a list made, as prevResult tells of it.
type recorded struct {
	steps  []Step
	states []netstate.State
}

// recordedStates plans the steps once more, from prevResult.
func recordedStates(ctx context.Context, session Session, steps []Step) (recorded, error) {
	r := recorded{steps: steps}
	for _, step := range steps {
		s, err := r.recordedState(ctx, session, step)
		if err != nil {
			return recorded{}, at(step, "plan", err)
		}
		r.states = append(r.states, s)
	}
	return r, nil
}

// recordedState is what the ADD of a step behind those of r made, planned once more from prevResult.
func (r recorded) recordedState(ctx context.Context, session Session, step Step) (netstate.State, error) {
	req := step.Req
	b, err := step.parse()
	if err != nil {
		return netstate.State{}, err
	}
	if req.Prev == nil {
		return netstate.State{}, cni.Errorf(cni.CodeInvalidConfig, "prevResult is missing: %s needs the result of ADD", req.Verb)
	}
	in := Input{Request: req}
	if b.use != NoIPAM {
		in.IPAM = recalled(req)
	}
	q := b.ask(in)
	seen, err := step.observe(ctx, session, q)
	if err != nil {
		return netstate.State{}, err
	}
	for _, before := range r.states {
		seen = withMade(seen, q, before)
	}
	p, err := step.plan(ctx, b, in, seen)
	if err != nil {
		return netstate.State{}, err
	}
	p.State.Owner = in.Owner()
	return asRecorded(p, req), nil
}

// all is what was made, as it is made again.
func (r recorded) all() netstate.State { return netstate.Merge(r.states...) }

// judged is what can be held against the kernel: what was made, without what a plugin that follows may have set otherwise. Of
// that only the Result tells, and its MTU only since 1.1.0 (specification, section 4, CHECK: "must allow for a later chained plugin
// to have modified networking resources").
func (r recorded) judged() netstate.State {
	states := make([]netstate.State, len(r.states))
	for i, s := range r.states {
		if step := r.steps[i]; step.Followed && !step.Def.chained {
			s = asFollowed(s, step.Req)
		}
		states[i] = s
	}
	return netstate.Merge(states...).Settled()
}

// asFollowed leaves out of s what a plugin behind may have set in the pod without the result telling.
func asFollowed(s netstate.State, req *plugin.Request) netstate.State {
	s.Links, s.Addrs, s.Routes = slices.Clone(s.Links), slices.Clone(s.Addrs), slices.Clone(s.Routes)
	s.Sysctls = slices.DeleteFunc(slices.Clone(s.Sysctls), func(v netstate.Sysctl) bool { return v.Place == netstate.Pod })
	for i := range s.Links {
		l := &s.Links[i]
		if l.Place != netstate.Pod {
			continue
		}
		l.ARPNotify = false
		if l.MTU != 0 {
			l.MTU = recordedMTU(req, l.Name)
		}
	}
	for i := range s.Addrs {
		s.Addrs[i].AnyTable = s.Addrs[i].Place == netstate.Pod
	}
	for i := range s.Routes {
		s.Routes[i].AnyTable = s.Routes[i].Place == netstate.Pod
	}
	return s
}

// recordedMTU is the MTU of a pod's interface in prevResult; 0 if it doesn't tell.
func recordedMTU(req *plugin.Request, name string) int {
	i := slices.IndexFunc(req.Prev.Interfaces, func(dev cni.Interface) bool { return dev.Name == name && dev.Sandbox != "" })
	if i < 0 {
		return 0
	}
	return req.Prev.Interfaces[i].MTU
}

// blame returns the step that made the object of the first difference; the first if none did.
func (r recorded) blame(diffs []netstate.Difference) Step {
	for i, s := range r.states {
		if len(diffs) > 0 && slices.ContainsFunc(s.Objects(), func(o netstate.Object) bool { return o.Key() == diffs[0].Object }) {
			return r.steps[i]
		}
	}
	return r.steps[0]
}

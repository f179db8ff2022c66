package planned

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/netstate"
	"github.com/cleat-cni/cleat/plugin"
)

// AddList plans the steps one after the other and applies them in one pass. It returns the result
// after each. The prevResult of all but the first step is the result of the step before, whatever
// its request brings. On an error nothing is left: what was applied is undone, and addresses are given
// back.
func (e *Engine) AddList(ctx context.Context, steps []Step) ([]*cni.Result, error) {
	run, err := e.begin(steps)
	if err != nil {
		return nil, err
	}
	session, err := e.openPod(ctx, steps[0].Req)
	if err != nil {
		return nil, at(steps[0], "open", err)
	}
	defer session.Close()
	returned := false
	defer func() {
		if !returned {
			// A plan panicked, before anything was applied. That is what the caller hears of; what can't be given back waits for DEL.
			_ = run.giveBack(ctx)
		}
	}()
	err = run.add(ctx, session)
	returned = true
	if err != nil {
		return nil, errors.Join(err, run.giveBack(ctx))
	}
	return run.results, nil
}

// PlanList says what AddList would do, and changes nothing: the plan of each step. A built-in IPAM
// plugin shows the next free addresses and takes none; another's are not known before ADD, which the plan's
// notes say. Without CNI_NETNS nothing of the pod is looked at.
func (e *Engine) PlanList(ctx context.Context, steps []Step) ([]Plan, error) {
	run, err := e.begin(steps)
	if err != nil {
		return nil, err
	}
	run.peek = true
	return run.look(ctx)
}

// look plans and applies nothing.
func (r *listRun) look(ctx context.Context) ([]Plan, error) {
	session, err := r.engine.openPod(ctx, r.steps[0].Req)
	if err != nil {
		return nil, at(r.steps[0], "open", err)
	}
	defer session.Close()
	if r.podless = r.steps[0].Req.NetNS == ""; r.podless {
		// Plans name the namespace that there will be: an interface without one is the host's.
		for i, step := range r.steps {
			req := *step.Req
			req.NetNS = "NETNS"
			r.steps[i].Req = &req
		}
	}
	if err := r.plan(ctx, session); err != nil {
		return nil, err
	}
	if r.explain && !r.podless {
		if err := r.stand(ctx, session); err != nil {
			return nil, err
		}
	}
	return r.plans, nil
}

// listRun is one pass over a list.
type listRun struct {
	engine  *Engine
	steps   []Step
	bound   []bound
	plans   []Plan
	results []*cni.Result
	leased  []func(context.Context) error // gives back what IPAM gave, in order of giving
	peek    bool                          // look at addresses, take none
	explain bool                          // say of each plan why
	podless bool                          // no pod to look into
}

// begin checks all of a list before anything is done.
func (e *Engine) begin(steps []Step) (*listRun, error) {
	run := &listRun{engine: e, steps: slices.Clone(steps)}
	for i, step := range steps {
		b, err := step.parse()
		if err != nil {
			return nil, at(step, "validate", err)
		}
		if i == 0 && step.Def.chained && step.Req.Prev == nil {
			return nil, at(step, "validate", step.noPrev())
		}
		run.bound = append(run.bound, b)
	}
	return run, nil
}

// parse reads the step's configuration and settles whether IPAM is used.
func (s Step) parse() (bound, error) {
	if s.Def.parse == nil {
		return bound{}, cni.Errorf(cni.CodeInvalidConfig, "%s gives addresses and can't stand in a list of plugins", s.Def.Info.Type).
			WithHint("name it in the ipam section of the plugin that makes the interface")
	}
	b, err := s.Def.parse(s.Req)
	if err != nil {
		return bound{}, err
	}
	if s.Req.Conf.IPAMType == "" {
		if b.use == RequiredIPAM {
			return bound{}, cni.Errorf(cni.CodeInvalidConfig, "ipam.type is missing: %s needs addresses", s.Def.Info.Type)
		}
		b.use = NoIPAM
	}
	return b, nil
}

func (s Step) noPrev() error {
	return cni.Errorf(cni.CodeInvalidConfig, "prevResult is missing: %s must be called as a chained plugin", s.Def.Info.Type).
		WithHint("put it after the plugin that makes the interface")
}

// add plans every step and applies the whole.
func (r *listRun) add(ctx context.Context, session Session) error {
	if err := r.plan(ctx, session); err != nil {
		return err
	}
	state := merged(r.plans)
	known(state, r.plans)
	state.Flows = append(state.Flows, ofPodAddrs(state)...)
	if r.engine.log.Enabled(ctx, slog.LevelDebug) {
		r.engine.log.Debug("apply", "state", state.String())
	}
	kept, err := r.keepOriginals(ctx, session)
	if err != nil {
		return err
	}
	err = action(r.steps, StepApply).Do(ctx, func(ctx context.Context) error { return session.Apply(ctx, state) })
	if err != nil {
		return errors.Join(at(r.blame(err), "apply", err), r.engine.forget(kept))
	}
	for i, p := range r.plans {
		for _, note := range p.Notes {
			r.engine.log.Warn(note, "plugin", r.steps[i].Def.Info.Type, "container", r.steps[i].Req.ContainerID)
		}
	}
	return nil
}

// plan fills plans and results step by step.
func (r *listRun) plan(ctx context.Context, session Session) error {
	r.plans = make([]Plan, 0, len(r.steps))
	for i := range r.steps {
		if i > 0 {
			req := *r.steps[i].Req
			req.Prev = r.results[i-1]
			r.steps[i].Req = &req
		}
		p, err := r.planStep(ctx, session, i)
		if err != nil {
			return err
		}
		res := mergeResult(r.steps[i].Req, p)
		// A result that the version has no form for is refused while nothing has been made yet.
		if err := res.Encodable(r.steps[i].Req.Conf.CNIVersion); err != nil {
			return at(r.steps[i], "plan", err)
		}
		r.plans = append(r.plans, p)
		r.results = append(r.results, res)
	}
	return nil
}

// planStep takes addresses first, since they are an input of the plan, then looks, then plans.
func (r *listRun) planStep(ctx context.Context, session Session, i int) (Plan, error) {
	step, b := r.steps[i], r.bound[i]
	in := Input{Request: step.Req}
	var given addresses
	if b.use != NoIPAM {
		err := step.ipamAction().Do(ctx, func(ctx context.Context) (err error) {
			given, err = r.address(ctx, session, step)
			return err
		})
		if err != nil {
			return Plan{}, at(step, "ipam", err)
		}
		in.IPAM = given.result
	}
	q := r.withoutMade(b.ask(in))
	if r.podless {
		q = ofHost(q)
	}
	seen, err := step.observe(ctx, session, q)
	if err != nil {
		return Plan{}, at(step, "observe", err)
	}
	for _, before := range r.plans {
		seen = withMade(seen, q, before.State)
	}
	p, err := step.plan(ctx, b, in, seen)
	if err != nil {
		return Plan{}, at(step, "plan", err)
	}
	p.State.Owner = in.Owner()
	p.State.Leases = given.leases
	p.Notes = append(given.notes, p.Notes...)
	if r.explain {
		p.Why = step.why(in, seen, p)
	}
	return p, nil
}

// observe reads what a plan of the step depends on.
func (s Step) observe(ctx context.Context, session Session, q netstate.Query) (seen netstate.Facts, err error) {
	err = s.action(StepObserve).Do(ctx, func(ctx context.Context) error {
		seen, err = session.Observe(ctx, q)
		return err
	})
	return seen, err
}

// plan says what should exist.
func (s Step) plan(ctx context.Context, b bound, in Input, seen netstate.Facts) (p Plan, err error) {
	err = s.action(StepPlan).Do(ctx, func(context.Context) error {
		p, err = b.plan(in, seen)
		return err
	})
	return p, err
}

// withoutMade is q without the links that earlier steps make for this attachment alone, and their values: they are not there yet, and if
// they are, making them fails.
func (r *listRun) withoutMade(q netstate.Query) netstate.Query {
	if q.UplinkIfMissing {
		return q // it counts what it asks for
	}
	made := func(ref netstate.Ref) bool {
		return slices.ContainsFunc(r.plans, func(p Plan) bool {
			return slices.ContainsFunc(p.State.Links, func(l netstate.Link) bool { return l.Kind != "" && !l.Shared && l.Ref() == ref })
		})
	}
	q.Links = slices.DeleteFunc(slices.Clone(q.Links), made)
	q.Sysctls = slices.DeleteFunc(slices.Clone(q.Sysctls), func(v netstate.Sysctl) bool {
		dev, ok := v.Dev()
		return ok && made(netstate.Ref{Place: v.Place, Name: dev})
	})
	return q
}

// ofHost is a query without what it asks of the pod, for where none is open.
func ofHost(q netstate.Query) netstate.Query {
	q.Links = slices.DeleteFunc(slices.Clone(q.Links), func(ref netstate.Ref) bool { return ref.Place == netstate.Pod })
	q.Routing = slices.DeleteFunc(slices.Clone(q.Routing), func(ref netstate.Ref) bool { return ref.Place == netstate.Pod })
	q.Sysctls = slices.DeleteFunc(slices.Clone(q.Sysctls), func(v netstate.Sysctl) bool { return v.Place == netstate.Pod })
	return q
}

// addresses is what an IPAM plugin gave or would give.
type addresses struct {
	result *cni.Result
	leases []netstate.Lease
	notes  []string
}

// address has the IPAM plugin give addresses, or show them.
func (r *listRun) address(ctx context.Context, session Session, step Step) (addresses, error) {
	typ := step.Req.Conf.IPAMType
	delegate, err := r.engine.ipam(step.Req)
	if err != nil {
		return addresses{}, err
	}
	own, isOwn := delegate.(*ipamVerbs)
	if r.peek {
		if !isOwn {
			return addresses{notes: []string{"addresses come from " + typ + ", a program of its own, and are not known before ADD"}}, nil
		}
		return own.reserve(ctx, step.Req, true)
	}
	var given addresses
	if isOwn {
		given, err = own.reserve(ctx, step.Req, false)
	} else {
		if err := refuseSecond(ctx, session, step.Req); err != nil {
			return addresses{}, err
		}
		given.result, err = delegate.Add(ctx, step.Req)
	}
	if err != nil {
		if isOwn {
			return addresses{}, err // it takes all or nothing
		}
		// The specification, section 4: the delegate's DEL before returning its failure.
		return addresses{}, errors.Join(err, r.engine.release(ctx, delegate, step.Req))
	}
	r.leased = append(r.leased, func(ctx context.Context) error { return r.engine.release(ctx, delegate, step.Req) })
	if len(given.result.IPs) == 0 {
		return addresses{}, cni.Errorf(cni.CodeInvalidConfig, "ipam plugin %s gave no address", typ)
	}
	return given, nil
}

// refuseSecond refuses an ADD whose interface is there already. That another's IPAM plugin gets its DEL when such an ADD fails
// would free the addresses of the living attachment.
func refuseSecond(ctx context.Context, session Session, req *plugin.Request) error {
	if req.Prev != nil && slices.ContainsFunc(req.Prev.Interfaces, func(i cni.Interface) bool { return i.Name == req.IfName }) {
		return nil // a plugin before this one made it
	}
	seen, err := session.Observe(ctx, netstate.Query{Links: []netstate.Ref{{Place: netstate.Pod, Name: req.IfName}}})
	if err != nil {
		return err
	}
	if l, ok := seen.Link(netstate.Pod, req.IfName); ok {
		return explain("apply", &netstate.ObjectError{Object: l.Key(), Err: netstate.ErrExist})
	}
	return nil
}

// giveBack returns what IPAM gave, the last first.
func (r *listRun) giveBack(ctx context.Context) error {
	var errs []error
	for _, back := range slices.Backward(r.leased) {
		errs = append(errs, back(ctx))
	}
	return errors.Join(errs...)
}

// release is a DEL of the IPAM plugin on behalf of an ADD that failed.
func (e *Engine) release(ctx context.Context, delegate plugin.Plugin, add *plugin.Request) error {
	ctx, cancel := e.undoing(ctx)
	defer cancel()
	del := *add
	del.Verb = cni.VerbDel
	if err := delegate.Del(ctx, &del); err != nil {
		return explain("undo ipam", fmt.Errorf("%w: %w", netstate.ErrLeft, err))
	}
	return nil
}

// blame returns the step whose plan holds the object that err is about; the first if none is.
func (r *listRun) blame(err error) Step {
	about, ok := errors.AsType[*netstate.ObjectError](err)
	if !ok {
		return r.steps[0]
	}
	for i, p := range r.plans {
		if slices.ContainsFunc(p.State.Objects(), func(o netstate.Object) bool { return o.Key() == about.Object }) {
			return r.steps[i]
		}
	}
	return r.steps[0]
}

// merged is the state of all plans, as the kernel takes it: leases are not its business.
func merged(plans []Plan) netstate.State {
	states := make([]netstate.State, len(plans))
	for i, p := range plans {
		states[i] = p.State
	}
	all := netstate.Merge(states...)
	all.Leases = nil
	return all
}

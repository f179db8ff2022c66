package planned

import (
	"context"
	"errors"
	"log/slog"
	"slices"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/netstate"
	"github.com/cleat-cni/cleat/plugin"
)

// verbs are the verbs of a [Spec], all written here once.
type verbs struct {
	engine *Engine
	def    Definition
}

var _ plugin.Plugin = (*verbs)(nil)

// Add plans and applies.
func (v *verbs) Add(ctx context.Context, req *plugin.Request) (*cni.Result, error) {
	results, err := v.engine.AddList(ctx, []Step{{Def: v.def, Req: req}})
	if err != nil {
		return nil, err
	}
	return results[0], nil
}

// Del removes what the plan names.
func (v *verbs) Del(ctx context.Context, req *plugin.Request) error {
	return v.engine.DelList(ctx, []Step{{Def: v.def, Req: req}})
}

// Check compares the plan with the kernel; IPAM is asked first. Whether plugins follow in the list is not known.
func (v *verbs) Check(ctx context.Context, req *plugin.Request) error {
	return v.engine.CheckList(ctx, []Step{{Def: v.def, Req: req, Followed: true}})
}

// GC removes what carries the network's mark and belongs to no valid attachment, and has IPAM do the same.
func (v *verbs) GC(ctx context.Context, req *plugin.Request) error {
	return v.engine.gc(ctx, Step{Def: v.def, Req: req})
}

// delegated hands a verb to the IPAM plugin of the configuration, if the plugin uses one. A
// configuration that can't be read is taken to use it if it names one, so that GC frees what it can.
func (v *verbs) delegated(ctx context.Context, req *plugin.Request, verb func(plugin.Plugin, context.Context, *plugin.Request) error) error {
	if req.Conf.IPAMType == "" {
		return nil
	}
	if b, err := (Step{Def: v.def, Req: req}).parse(); err == nil && b.use == NoIPAM {
		return nil
	}
	delegate, err := v.engine.ipam(req)
	if err != nil {
		return err
	}
	return Step{Def: v.def, Req: req}.ipamAction().Do(ctx, func(ctx context.Context) error { return verb(delegate, ctx, req) })
}

// DelList removes the steps, which stand in the order of the list, in one pass, the last first. Addresses
// are given back when nothing points to them any more: after the rest is gone, and not if removing it failed.
func (e *Engine) DelList(ctx context.Context, steps []Step) error {
	session, inPod, err := e.openLeft(ctx, steps[0].Req)
	if err != nil {
		return at(steps[0], "open", err)
	}
	defer session.Close()
	var states []netstate.State
	sweep := false
	for _, step := range slices.Backward(steps) {
		s, byMark := e.leftState(ctx, session, step, inPod)
		states = append(states, s)
		sweep = sweep || byMark
	}
	all := netstate.Merge(states...)
	sweep = sweep || elsewhere(ctx, session, all)
	errs := []error{e.restore(ctx, steps, leftover{session, inPod, all})}
	all.Flows = append(all.Flows, ofPodAddrs(all)...)
	if e.log.Enabled(ctx, slog.LevelDebug) {
		e.log.Debug("remove", "state", all.String(), "sweep", sweep)
	}
	err = action(steps, StepRemove).Do(ctx, func(ctx context.Context) error { return session.Remove(ctx, all, sweep) })
	if err != nil {
		return errors.Join(append(errs, at(steps[0], "remove", err))...)
	}
	for _, step := range slices.Backward(steps) {
		v := &verbs{e, step.Def}
		err := v.delegated(ctx, step.Req, plugin.Plugin.Del)
		if errors.Is(err, errNotIPAM) {
			err = nil // no ADD got an address from it
		}
		errs = append(errs, at(step, "ipam", err))
	}
	return errors.Join(errs...)
}

// elsewhere reports whether elements of s are not where s has them: a program in the list has changed the result, say, and its
// addresses are not those of ADD any more. What ADD made is then found by its mark.
func elsewhere(ctx context.Context, session Session, s netstate.State) bool {
	if len(s.Elements) == 0 {
		return false
	}
	seen, err := session.Observe(ctx, netstate.Query{Tables: s.Tables, Elements: s.Elements})
	return err != nil || len(seen.Elements) < len(s.Elements)
}

// leftState is what an ADD of the step may have left, as far as it can be named now, and whether the
// owner's elements have to be found by mark: because there's no result to read addresses from, or what
// the runtime asked for at ADD isn't in this request. A configuration that can't be planned any more still has its names.
func (e *Engine) leftState(ctx context.Context, session Session, step Step, inPod bool) (s netstate.State, byMark bool) {
	in := Input{Request: step.Req, IPAM: recalled(step.Req)}
	b, err := step.parse()
	var p Plan
	if err == nil {
		q := b.ask(in)
		if !inPod {
			q = ofHost(q)
		}
		p, err = step.plan(ctx, b, in, e.left(ctx, session, q))
	}
	if err != nil {
		level := slog.LevelWarn
		if step.Req.Prev == nil {
			level = slog.LevelInfo // as a runtime calls after an ADD that refused the same configuration
		}
		e.log.Log(ctx, level, "removing by name and mark only", "plugin", step.Def.Info.Type, "why", err)
		return withRecorded(named(in.Owner()), step.Req), true
	}
	p.State.Owner = in.Owner()
	byMark = p.Sweep || len(p.State.Tables) > 0 && (step.Req.Prev == nil || len(p.State.Elements) == 0)
	return withRecorded(p.State, step.Req), byMark
}

// left is what a DEL looks at before it plans: by what means an ADD on this kernel made things, and all that is asked for if a plugin needs
// that. That it can't be told keeps no DEL from going on.
func (e *Engine) left(ctx context.Context, session Session, q netstate.Query) netstate.Facts {
	if !q.AtDel {
		q = netstate.Query{NFTables: q.NFTables}
	}
	if !q.AtDel && !q.NFTables {
		return netstate.Facts{}
	}
	seen, err := session.Observe(ctx, q)
	if err != nil {
		e.log.Warn("removing without a look at what there is", "why", err)
	}
	return seen
}

// named is all that names alone tell of an attachment: the interface on the host, the one in the pod, and
// where marked elements may be.
func named(o netstate.Owner) netstate.State {
	host := o.HostName("veth")
	return netstate.State{
		Owner: o,
		Links: []netstate.Link{
			{Place: netstate.Host, Name: host, Kind: "veth", Peer: o.IfName, PeerPlace: netstate.Pod},
			{Place: netstate.Pod, Name: o.IfName, Kind: "veth", Peer: host, PeerPlace: netstate.Host},
		},
		Tables:         []netstate.Table{{Family: "inet", Name: netstate.TableName}, {Family: "bridge", Name: netstate.TableName}},
		IptablesChains: append(netstate.IptablesPlaces("nat", ""), netstate.IptablesPlaces("filter", "")...),
		Sources:        []netstate.Source{{}},
	}
}

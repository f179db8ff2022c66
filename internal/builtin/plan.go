package builtin

import (
	"context"
	"slices"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/libcni"
	"github.com/cleat-cni/cleat/netstate"
	"github.com/cleat-cni/cleat/planned"
)

// StepPlan is what one plugin of a list would do. A program says nothing before it is run: then
// Plan is empty but for a note.
type StepPlan struct {
	Location
	Plan planned.Plan
}

// Plan says what an ADD of calls would do, and changes nothing. A call without NetNS is planned without a look
// into the pod. Programs between built-in plugins are passed over, as if they left the result as it is.
func (r *Runner) Plan(ctx context.Context, calls []libcni.Call) ([]StepPlan, error) {
	return r.plan(ctx, calls, r.engine.PlanList)
}

// Explain is Plan, and says of each object which keys of the configuration it depends on.
func (r *Runner) Explain(ctx context.Context, calls []libcni.Call) ([]StepPlan, error) {
	return r.plan(ctx, calls, r.engine.ExplainList)
}

// planner is what the engine plans a list with.
type planner func(context.Context, []planned.Step) ([]planned.Plan, error)

func (r *Runner) plan(ctx context.Context, calls []libcni.Call, by planner) ([]StepPlan, error) {
	plans := make([]StepPlan, len(calls))
	var here []libcni.Call
	var at []int // the index in calls of each of here
	for i, c := range calls {
		loc, err := r.Where(c.Type, c.Dirs)
		if err != nil {
			return nil, annotate(err, c)
		}
		plans[i].Location = loc
		switch {
		case !loc.BuiltIn:
			plans[i].Plan.Notes = []string{"a program of its own: what it does is not known before ADD"}
		case r.plugins[c.Type].IsIPAM():
			plans[i].Plan.Notes = []string{"an IPAM plugin that stands in the list by itself plans nothing"}
		default:
			here, at = append(here, c), append(at, i)
		}
	}
	if len(here) == 0 {
		return plans, nil
	}
	if at[0] > 0 {
		// What the first works on comes from a program.
		for _, i := range at {
			plans[i].Plan.Notes = []string{"it works on the result of " + calls[0].Type + ", which is not known before ADD"}
		}
		return plans, nil
	}
	made, err := r.planHere(ctx, here, by)
	if err != nil {
		return nil, err
	}
	for n, i := range at {
		plans[i].Plan = made[n]
	}
	return plans, nil
}

func (r *Runner) planHere(ctx context.Context, calls []libcni.Call, by planner) ([]planned.Plan, error) {
	calls = slices.Clone(calls)
	withoutPod := calls[0].NetNS == ""
	for i := range calls {
		calls[i].Verb = cni.VerbAdd
		if withoutPod {
			calls[i].NetNS = "none" // a request of ADD has one; it is taken out below
		}
	}
	steps, err := r.steps(calls)
	if err != nil {
		return nil, err
	}
	if withoutPod {
		for _, s := range steps {
			s.Req.NetNS = ""
		}
	}
	plans, err := by(ctx, steps)
	if err != nil {
		return nil, annotate(err, calls[0])
	}
	return plans, nil
}

// Observe reads of the host what a plugin asks for before it plans. It changes nothing.
func (r *Runner) Observe(ctx context.Context, q netstate.Query) (netstate.Facts, error) {
	return r.engine.Observe(ctx, q)
}

// Supports reports whether this machine could make s, without touching its network. The error names the object that could not be made.
func (r *Runner) Supports(ctx context.Context, s netstate.State) error {
	return r.cfg.Kernel.Supports(ctx, s)
}

// Rehearse says of each of the calls of an ADD, by the configuration and by what the host is like, what a built-in plugin would do. One of a
// program, and one that the plugin refuses, is the zero Rehearsal.
func (r *Runner) Rehearse(ctx context.Context, calls []libcni.Call) []planned.Rehearsal {
	all := make([]planned.Rehearsal, len(calls))
	for i, c := range calls {
		loc, err := r.Where(c.Type, c.Dirs)
		if err != nil || !loc.BuiltIn {
			continue
		}
		steps, err := r.steps([]libcni.Call{c})
		if err != nil {
			continue
		}
		ipam := r.plugins[steps[0].Req.Conf.IPAMType]
		if !ipam.IsIPAM() {
			ipam = planned.Definition{}
		}
		got, err := steps[0].Def.Rehearse(steps[0].Req, ipam, func(q netstate.Query) netstate.Facts {
			seen, err := r.Observe(ctx, q)
			if err != nil {
				return netstate.Facts{} // it is planned as on a host that has nothing
			}
			return seen
		})
		if err == nil {
			all[i] = got
		}
	}
	return all
}

// Owned returns what is in the kernel for a network's attachments: whatever carries the network's mark.
func (r *Runner) Owned(ctx context.Context, network string) ([]netstate.Freed, error) {
	return r.cfg.Kernel.Collect(ctx, network, nil, true)
}

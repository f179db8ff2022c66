package builtin

import (
	"context"

	"github.com/cleat-cni/cleat/libcni"
	"github.com/cleat-cni/cleat/netstate"
)

var _ libcni.Repairer = (*Runner)(nil)

// Repair is libcni.Repairer: neighbours that are built in are repaired in one pass, programs and IPAM plugins that stand by themselves are checked.
func (r *Runner) Repair(ctx context.Context, calls []libcni.Call) ([]netstate.Difference, error) {
	var all []netstate.Difference
	for len(calls) > 0 {
		n, changed, err := r.repairFirst(ctx, calls)
		all = append(all, changed...)
		if err != nil {
			return all, err
		}
		calls = calls[n:]
	}
	return all, nil
}

// repairFirst repairs as many calls from the front as can be at once, and returns their number.
func (r *Runner) repairFirst(ctx context.Context, calls []libcni.Call) (n int, changed []netstate.Difference, err error) {
	defer r.recovered(calls[0], &err)
	n, builtIn, err := r.alike(calls)
	switch {
	case err != nil:
		return 0, nil, annotate(err, calls[0])
	case !builtIn:
		_, err := r.exec(ctx, calls[:1])
		return 1, nil, err
	case r.plugins[calls[0].Type].IsIPAM():
		_, err := r.one(ctx, calls[0])
		return 1, nil, err
	}
	n = r.together(calls[:n])
	steps, err := r.checkSteps(calls[:n], n < len(calls))
	if err != nil {
		return 0, nil, err
	}
	changed, err = r.engine.Repair(ctx, steps)
	if err != nil {
		return 0, changed, annotate(err, calls[0])
	}
	return n, changed, nil
}

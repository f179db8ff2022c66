package builtin

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/libcni"
	"github.com/cleat-cni/cleat/netstate"
	"github.com/cleat-cni/cleat/planned"
)

var (
	_ libcni.Collector = (*Runner)(nil)
	_ libcni.Repairer  = (*Runner)(nil)
)

// Collect is libcni.Collector. Built-in plugins first say what they would free; what of that has its owner's
// interface on the host, or an address that answers, is in use by somebody whom no record names, and is kept. Programs get GC, if the network's version
// has it, and can't say what they free.
func (r *Runner) Collect(ctx context.Context, calls []libcni.Call, how libcni.CollectArgs) ([]libcni.Collected, error) {
	var all []libcni.Collected
	var errs []error
	for _, c := range calls {
		loc, err := r.Where(c.Type, c.Dirs)
		if err == nil && !loc.BuiltIn {
			if !how.DryRun && cni.AtLeast(versionOf(c), cni.VerbGC.Since()) {
				_, err = r.cfg.Programs.Run(ctx, []libcni.Call{c})
			}
			errs = append(errs, err)
			continue
		}
		if err != nil {
			errs = append(errs, annotate(err, c))
			continue
		}
		freed, err := r.collectHere(ctx, c, how)
		for _, f := range freed {
			if !slices.ContainsFunc(all, func(have libcni.Collected) bool { return have.Name == f.Name }) {
				all = append(all, f)
			}
		}
		if err != nil {
			errs = append(errs, annotate(err, c))
		}
	}
	return all, errors.Join(errs...)
}

// collectHere collects for one built-in plugin.
func (r *Runner) collectHere(ctx context.Context, c libcni.Call, how libcni.CollectArgs) ([]libcni.Collected, error) {
	step, valid, err := r.gcStep(c)
	if err != nil {
		return nil, err
	}
	would, err := r.engine.Collect(ctx, step, valid, true)
	if err != nil {
		return nil, err
	}
	inUse := map[string]string{} // marks of owners to keep, and why
	if !how.Unknown {
		inUse = r.inUse(ctx, would)
	}
	var all []libcni.Collected
	for _, f := range would {
		why, kept := inUse[f.Mark]
		if !kept {
			why = "no attachment of the network claims it"
		}
		all = append(all, libcni.Collected{Kind: kindOf(f.Object), Name: f.Object, Owner: f.Owner, Why: why, Kept: kept})
		if kept && f.Owner.ContainerID != "" {
			valid = append(valid, f.Owner)
		}
	}
	if how.DryRun || len(would) == 0 {
		return all, nil
	}
	if len(inUse) > 0 && slices.ContainsFunc(would, func(f netstate.Freed) bool {
		return inUse[f.Mark] != "" && f.Owner.ContainerID == ""
	}) {
		// An owner that only its mark tells can't be named to be kept: rather free nothing.
		return all, nil
	}
	_, err = r.engine.Collect(ctx, step, valid, false)
	return all, err
}

// gcStep makes a step of a GC call, whatever the network's version: it asks built-in plugins only.
func (r *Runner) gcStep(c libcni.Call) (planned.Step, []netstate.Owner, error) {
	conf := c.Conf.Clone()
	if err := conf.SetValue("cniVersion", cni.Current); err != nil {
		return planned.Step{}, nil, err
	}
	c.Conf = conf
	steps, err := r.steps([]libcni.Call{c})
	if err != nil {
		return planned.Step{}, nil, err
	}
	list, _, err := steps[0].Req.Conf.ValidAttachments()
	if err != nil {
		return planned.Step{}, nil, err
	}
	valid := make([]netstate.Owner, len(list))
	for i, a := range list {
		valid[i] = netstate.Owner{Network: steps[0].Req.Conf.Name, ContainerID: a.ContainerID, IfName: a.IfName}
	}
	return steps[0], valid, nil
}

// inUse returns the marks whose owners seem to live: they have an interface on the host, or an address that
// answers.
func (r *Runner) inUse(ctx context.Context, would []netstate.Freed) map[string]string {
	marks := map[string]string{}
	for _, f := range would {
		fields := strings.Fields(f.Object)
		switch kindOf(f.Object) {
		case "link":
			marks[f.Mark] = "no record claims it, but its interface is up: free it with --unknown"
		case "lease":
			if r.cfg.Answers != nil && r.cfg.Answers(ctx, fields[2]) {
				marks[f.Mark] = "no record claims it, but the address answers: free it with --unknown"
			}
		}
	}
	return marks
}

// kindOf is the kind of an object by its canonical line: `host link cni0` is a link.
func kindOf(line string) string {
	fields := strings.Fields(line)
	if len(fields) < 2 {
		return ""
	}
	if fields[1] == "nft" {
		return "element"
	}
	return fields[1]
}

func versionOf(c libcni.Call) string {
	var v string
	if _, err := c.Conf.Decode("cniVersion", &v); err != nil {
		return ""
	}
	return v
}

// Repair is libcni.Repairer: neighbours that are built in are repaired in one pass, programs are checked.
func (r *Runner) Repair(ctx context.Context, calls []libcni.Call) ([]netstate.Difference, error) {
	var all []netstate.Difference
	for len(calls) > 0 {
		n, builtIn, err := r.alike(calls)
		if err != nil {
			return all, annotate(err, calls[0])
		}
		if !builtIn {
			for _, c := range calls[:n] {
				if _, err := r.cfg.Programs.Run(ctx, []libcni.Call{c}); err != nil {
					return all, err
				}
			}
			calls = calls[n:]
			continue
		}
		steps, err := r.steps(calls[:n])
		if err != nil {
			return all, err
		}
		changed, err := r.engine.Repair(ctx, steps)
		all = append(all, changed...)
		if err != nil {
			return all, annotate(err, calls[0])
		}
		calls = calls[n:]
	}
	return all, nil
}

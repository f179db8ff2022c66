package planned

import (
	"context"
	"errors"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/netstate"
	"github.com/cleat-cni/cleat/plugin"
)

// gc is the GC of any definition, for the attachments that its request says are valid. Without that list nothing
// may be freed: code 7.
func (e *Engine) gc(ctx context.Context, step Step) error {
	valid, err := validOwners(step.Req)
	if err != nil {
		return at(step, "validate", err)
	}
	freed, err := e.Collect(ctx, step, valid, false)
	for _, f := range freed {
		e.log.Info("collected", "object", f.Object, "mark", f.Mark, "owner", f.Owner.String())
	}
	return err
}

// validOwners reads the list that GC brings.
func validOwners(req *plugin.Request) ([]netstate.Owner, error) {
	list, present, err := req.Conf.Raw.ValidAttachments()
	if err != nil {
		return nil, err
	}
	if !present {
		return nil, cni.Errorf(cni.CodeInvalidConfig, "cni.dev/valid-attachments is missing: without it GC would free everything")
	}
	owners := make([]netstate.Owner, len(list))
	for i, a := range list {
		owners[i] = netstate.Owner{Network: req.Conf.Name, ContainerID: a.ContainerID, IfName: a.IfName}
	}
	return owners, nil
}

// Collect frees what belongs to the step's network and to no owner in valid, in the kernel and in IPAM, and
// returns what that was, also beside an error. With dryRun it only returns it. An IPAM plugin that is a program of its own
// can't say what it frees; it is called if the request's version has GC, and not with dryRun.
func (e *Engine) Collect(ctx context.Context, step Step, valid []netstate.Owner, dryRun bool) ([]netstate.Freed, error) {
	var freed []netstate.Freed
	err := step.action(StepCollect).Do(ctx, func(ctx context.Context) (err error) {
		if step.Def.IsIPAM() {
			freed, err = (&ipamVerbs{e, step.Def}).collect(ctx, step.Req, valid, dryRun)
		} else {
			freed, err = e.kernel.Collect(ctx, step.Req.Conf.Name, valid, dryRun)
		}
		return err
	})
	if step.Def.IsIPAM() {
		return freed, at(step, "collect", err)
	}
	errs := []error{at(step, "collect", err)}
	if b, err := step.parse(); err == nil && b.dir != "" && e.originals != nil {
		kept, err := e.originals.Collect(b.dir, step.Req.Conf.Name, valid, dryRun)
		freed, errs = append(freed, kept...), append(errs, at(step, "collect", err))
	}
	err = (&verbs{e, step.Def}).delegated(ctx, step.Req, func(p plugin.Plugin, ctx context.Context, req *plugin.Request) error {
		own, ok := p.(*ipamVerbs)
		switch {
		case ok:
			leases, err := own.collect(ctx, req, valid, dryRun)
			freed = append(freed, leases...)
			return err
		case dryRun, !cni.AtLeast(req.Conf.CNIVersion, cni.VerbGC.Since()):
			return nil
		default:
			return p.GC(ctx, req)
		}
	})
	return freed, errors.Join(append(errs, at(step, "ipam", err))...)
}

// collect frees leases.
func (v *ipamVerbs) collect(ctx context.Context, req *plugin.Request, valid []netstate.Owner, dryRun bool) ([]netstate.Freed, error) {
	if v.def.store == nil {
		return nil, nil
	}
	leases, err := v.engine.leases.Collect(ctx, v.def.store(req), valid, dryRun)
	if !dryRun {
		v.engine.forgetLast(ctx, leases)
	}
	freed := make([]netstate.Freed, len(leases))
	for i, l := range leases {
		freed[i] = netstate.Freed{Object: l.String(), Mark: l.Owner.Mark(), Owner: l.Owner}
	}
	return freed, err
}

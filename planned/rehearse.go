package planned

import (
	"context"
	"net/netip"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/netstate"
	"github.com/cleat-cni/cleat/plugin"
)

// Rehearsal is what a configuration alone tells of an ADD.
type Rehearsal struct {
	Plan       Plan
	Allocation Allocation // of an IPAM plugin that is built in
	// Idle: the plugin does nothing but what a runtime asks for.
	Idle bool
}

// Rehearse plans an ADD of the request's configuration for an attachment that does not exist, for tools that judge configurations: without
// a kernel and without a store. ipam is the IPAM plugin that the configuration names; for the zero Definition, one that is not built in,
// other addresses stand in. seen answers what the plugin asks of the host. The step of an error is ipam, validate or plan: the latter
// may be owed to seen.
func (d Definition) Rehearse(req *plugin.Request, ipam Definition, seen func(netstate.Query) netstate.Facts) (Rehearsal, error) {
	step, err := (Step{Def: d, Req: req}).trial()
	if err != nil {
		return Rehearsal{}, at(step, "validate", err)
	}
	b, err := step.parse()
	if err != nil {
		return Rehearsal{}, at(step, "validate", err)
	}
	var r Rehearsal
	in := Input{Request: step.Req}
	switch {
	case b.use == NoIPAM:
	case ipam.IsIPAM():
		if r.Allocation, err = ipam.ipam(step.Req); err != nil {
			return r, at(Step{Def: ipam, Req: step.Req}, "ipam", err)
		}
		if in.IPAM, err = r.Allocation.standIn(); err != nil {
			return r, at(Step{Def: ipam, Req: step.Req}, "ipam", err)
		}
	default:
		in.IPAM = &cni.Result{IPs: []cni.IP{trialIP()}}
	}
	r.Plan, err = b.plan(in, seen(ofHost(b.ask(in))))
	r.Plan.State.Owner = in.Owner()
	if err == nil && d.trialRuntime != "" {
		r.Idle, err = d.idle(step, req)
	}
	return r, at(step, "plan", err)
}

// idle reports whether nothing is planned for a trial when the runtime asks for nothing.
func (d Definition) idle(trial Step, req *plugin.Request) (bool, error) {
	unasked := *trial.Req
	unasked.Conf = req.Conf
	b, err := (Step{Def: d, Req: &unasked}).parse()
	if err != nil {
		return false, err
	}
	p, err := b.plan(Input{Request: &unasked}, netstate.Facts{})
	return p.State.IsEmpty(), err
}

// standIn is what an IPAM plugin may give, with the first address of each set that is neither the gateway's nor the network's.
func (a Allocation) standIn() (*cni.Result, error) {
	res := &cni.Result{IPs: append([]cni.IP(nil), a.Fixed...), Routes: a.Routes, DNS: a.DNS}
	for _, set := range a.Pool.Sets {
		ip, err := addressIn(set, firstOf(set))
		if err != nil {
			return nil, err
		}
		res.IPs = append(res.IPs, ip)
	}
	return res, nil
}

func firstOf(set []netstate.Range) netip.Addr {
	for _, r := range set {
		for a := r.Start; a.IsValid() && a.Compare(r.End) <= 0; a = a.Next() {
			if a != r.Gateway && a != r.Subnet.Addr() {
				return a
			}
		}
	}
	return netip.Addr{}
}

// Observe reads of the host what q asks for; what it asks of a pod is left out.
func (e *Engine) Observe(ctx context.Context, q netstate.Query) (netstate.Facts, error) {
	session, err := e.kernel.Open(ctx, "", false)
	if err != nil {
		return netstate.Facts{}, explain("open", err)
	}
	defer session.Close()
	seen, err := session.Observe(ctx, ofHost(q))
	return seen, explain("observe", err)
}

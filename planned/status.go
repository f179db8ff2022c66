package planned

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"slices"
	"strings"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/netstate"
	"github.com/cleat-cni/cleat/plugin"
)

// Status reports whether ADD could be served.
func (v *verbs) Status(ctx context.Context, req *plugin.Request) error {
	return v.engine.Status(ctx, Step{Def: v.def, Req: req})
}

// Status reports whether an ADD of the step could be served now: it plans one for an attachment that does not exist, with the
// address that would be given next, and has the kernel try the plan out of the host's sight. What keeps ADD from working has code 50, a
// wrong configuration 7. An IPAM plugin that is a program is asked if the request's version has STATUS.
func (e *Engine) Status(ctx context.Context, step Step) error {
	if step.Def.IsIPAM() {
		return notReady(step, "status", (&ipamVerbs{e, step.Def}).free(ctx, step.Req))
	}
	trial, err := step.trial()
	if err != nil {
		return notReady(step, "validate", err)
	}
	b, err := trial.parse()
	if err != nil {
		return notReady(step, "validate", err)
	}
	in := Input{Request: trial.Req}
	standIn := false
	if b.use != NoIPAM {
		err = step.ipamAction().Do(ctx, func(ctx context.Context) (err error) {
			in.IPAM, standIn, err = e.trialAddresses(ctx, trial.Req)
			return err
		})
		if err != nil {
			return notReady(step, "ipam", err)
		}
	}
	session, err := e.kernel.Open(ctx, "", false)
	if err != nil {
		return notReady(step, "open", err)
	}
	defer session.Close()
	seen, err := step.observe(ctx, session, ofHost(b.ask(in)))
	if err != nil {
		return notReady(step, "observe", err)
	}
	if standIn {
		seen.Addrs = nil // a gateway that is there would be held to be another network's
	}
	p, err := step.plan(ctx, b, in, seen)
	if err != nil {
		return notReady(step, "plan", err)
	}
	p.State.Owner = in.Owner()
	err = step.action(StepTry).Do(ctx, func(ctx context.Context) error { return e.kernel.Supports(ctx, p.State) })
	if err != nil {
		return notReady(step, "status", lacking(p.State, err))
	}
	return nil
}

// The attachment that STATUS plans, with addresses that are for documentation (RFC 5737).
const (
	trialID    = "cleat-status"
	trialIf    = "eth0"
	trialNetNS = "/run/netns/cleat-status"
)

func trialIP() cni.IP {
	return cni.IP{Address: netip.MustParsePrefix("192.0.2.2/24"), Gateway: netip.MustParseAddr("192.0.2.1")}
}

// trial is the step for an attachment that does not exist. A chained plugin gets a result of that attachment to work on, and one that only does
// what a runtime asks for is asked for it.
func (s Step) trial() (Step, error) {
	req := *s.Req
	req.ContainerID, req.NetNS, req.IfName = trialID, trialNetNS, trialIf
	if s.Def.chained {
		ip := trialIP()
		ip.Interface = cni.Some(1)
		req.Prev = &cni.Result{CNIVersion: req.Conf.CNIVersion,
			Interfaces: []cni.Interface{{Name: req.Owner().HostName("veth")}, {Name: trialIf, Sandbox: trialNetNS}}, IPs: []cni.IP{ip}}
	}
	s.Req = &req
	if s.Def.trialRuntime == "" {
		return s, nil
	}
	raw := req.Conf.Raw.Clone()
	raw.Set("runtimeConfig", json.RawMessage(s.Def.trialRuntime))
	conf, err := cni.ParsePluginConf(raw.Bytes())
	if err != nil {
		return s, err
	}
	conf.CNIVersion = req.Conf.CNIVersion
	req.Conf = conf
	return s, nil
}

// trialAddresses are those that ADD would get next. Those of an IPAM plugin that is a program are not known before ADD; others
// stand in for them, which is said.
func (e *Engine) trialAddresses(ctx context.Context, req *plugin.Request) (res *cni.Result, standIn bool, err error) {
	delegate, err := e.ipam(req)
	if err != nil {
		return nil, false, err
	}
	if own, ok := delegate.(*ipamVerbs); ok {
		given, err := own.reserve(ctx, req, true)
		return given.result, false, own.at(req, "status", err)
	}
	if cni.AtLeast(req.Conf.CNIVersion, cni.VerbStatus.Since()) {
		if err := delegate.Status(ctx, req); err != nil {
			return nil, false, err
		}
	}
	return &cni.Result{CNIVersion: req.Conf.CNIVersion, IPs: []cni.IP{trialIP()}}, true, nil
}

// Status says whether an address is free.
func (v *ipamVerbs) Status(ctx context.Context, req *plugin.Request) error {
	return v.engine.Status(ctx, Step{Def: v.def, Req: req})
}

// free is an error if no address is.
func (v *ipamVerbs) free(ctx context.Context, req *plugin.Request) error {
	a, err := v.def.ipam(req)
	if err != nil || len(a.Pool.Sets) == 0 {
		return err
	}
	// An owner that can't be: a container ID never is empty.
	probe := netstate.Owner{Network: a.Pool.Network}
	a.Pool.Want = nil
	_, err = v.engine.leases.Reserve(ctx, a.Pool, probe, true)
	return err
}

// notReady gives an error the code that STATUS has for it: 50 for whatever keeps ADD from working, unless the
// configuration is wrong, the time ran out, or an IPAM plugin said more.
func notReady(step Step, at string, err error) error {
	if err == nil {
		return nil
	}
	e := *cni.AsError(explain(at, err))
	said := []cni.Code{cni.CodeIncompatibleVersion, cni.CodeUnsupportedField, cni.CodeDecode, cni.CodeInvalidConfig,
		cni.CodeNotAvailable, cni.CodeLimitedConnectivity}
	late := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	if !late && !slices.Contains(said, e.Code) {
		e.Code = cni.CodeNotAvailable
	}
	if e.Plugin == "" {
		e.Plugin = step.Def.Info.Type
	}
	e.Verb = step.Req.Verb
	return &e
}

// lacking adds to an error about an object that can't be made here what to do about it.
func lacking(s netstate.State, err error) error {
	about, ok := errors.AsType[*netstate.ObjectError](err)
	if !ok {
		return err
	}
	hint := ""
	for _, o := range s.Objects() {
		if o.Key() == about.Object {
			hint = lackHint(o)
			break
		}
	}
	if hint == "" {
		if fields := strings.Fields(about.Object); len(fields) > 1 && fields[1] == "nft" {
			hint = nftHint
		}
	}
	e := cni.Errorf(cni.CodeNotAvailable, "this machine can't make it: %w", err)
	e.Hint = hint
	return e
}

const nftHint = "it needs nftables in the kernel: modprobe nf_tables nft_chain_nat nft_fib_inet nft_masq, or another kernel"

// lackHint says what an object needs of the kernel.
func lackHint(o netstate.Object) string {
	switch o := o.(type) {
	case netstate.Link:
		switch {
		case len(o.VLANs) > 0 || o.Bridge.VLANFiltering:
			return "it needs a kernel with CONFIG_BRIDGE_VLAN_FILTERING; without VLAN options the bridge needs none"
		case o.Kind != "":
			return "load the kernel's module for it (modprobe " + o.Kind + "), or use another kernel"
		}
	case netstate.Source:
		return "firewall-cmd --get-zones lists the zones that there are; systemctl start firewalld if it does not run"
	case netstate.Qdisc:
		return "load the kernel's module for it (modprobe sch_" + o.Kind + "), or use another kernel"
	case netstate.Addr:
		if o.Prefix.Addr().Is6() {
			return "IPv6 is off on this machine: boot without ipv6.disable=1, or leave IPv6 out of the network's ranges"
		}
	}
	return ""
}

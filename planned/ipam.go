package planned

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/netstate"
	"github.com/cleat-cni/cleat/plugin"
)

// ipamVerbs are the verbs of an [IPAMSpec], all written here once.
type ipamVerbs struct {
	engine *Engine
	def    Definition
}

var _ plugin.Plugin = (*ipamVerbs)(nil)

var errNotIPAM = errors.New("gives no addresses by itself")

// ipam finds the plugin that gives the addresses of a call. One that itself delegates is refused: it would end up in itself.
func (e *Engine) ipam(req *plugin.Request) (plugin.Plugin, error) {
	typ := req.Conf.IPAMType
	p, err := e.delegate.Find(typ, req.Path)
	if _, delegates := p.(*verbs); err == nil && (delegates || typ == req.Conf.Type) {
		return nil, cni.Errorf(cni.CodeInvalidConfig, "ipam.type: %s %w", typ, errNotIPAM).WithHint("name an IPAM plugin, such as host-local")
	}
	return p, err
}

// Add takes addresses: all or none.
func (v *ipamVerbs) Add(ctx context.Context, req *plugin.Request) (*cni.Result, error) {
	given, err := v.reserve(ctx, req, false)
	return given.result, v.at(req, "reserve", err)
}

// reserve takes addresses, or shows those that would be taken.
func (v *ipamVerbs) reserve(ctx context.Context, req *plugin.Request, peek bool) (addresses, error) {
	a, err := v.def.ipam(req)
	if err != nil {
		return addresses{}, err
	}
	res := &cni.Result{CNIVersion: req.Conf.CNIVersion, IPs: slices.Clone(a.Fixed), Routes: a.Routes, DNS: a.DNS}
	if a.ResolvConf != "" {
		if res.DNS, err = readResolvConf(a.ResolvConf); err != nil {
			return addresses{}, err
		}
	}
	if len(a.Pool.Sets) == 0 {
		return addresses{result: res}, nil
	}
	leases, err := v.engine.leases.Reserve(ctx, a.Pool, req.Owner(), peek)
	if err != nil {
		return addresses{}, err
	}
	for i, lease := range leases {
		ip, err := addressIn(a.Pool.Sets[i], lease.Addr)
		if err != nil {
			return addresses{}, err
		}
		res.IPs = append(res.IPs, ip)
	}
	return addresses{result: res, leases: leases}, nil
}

// addressIn is a leased address as the result has it: with its subnet's prefix length and gateway. Ranges of
// one subnet may have different gateways.
func addressIn(set []netstate.Range, a netip.Addr) (cni.IP, error) {
	at := slices.IndexFunc(set, func(r netstate.Range) bool { return r.Start.Compare(a) <= 0 && a.Compare(r.End) <= 0 })
	if at < 0 {
		at = slices.IndexFunc(set, func(r netstate.Range) bool { return r.Subnet.Contains(a) })
	}
	if at < 0 {
		return cni.IP{}, cni.Errorf(cni.CodeInternal, "leased address %s lies in no range", a)
	}
	r := set[at]
	return cni.IP{Address: netip.PrefixFrom(a, r.Subnet.Bits()), Gateway: r.Gateway}, nil
}

// Del frees what the owner holds. Where it lies is all that has to be readable.
func (v *ipamVerbs) Del(ctx context.Context, req *plugin.Request) error {
	if v.def.store == nil {
		return nil
	}
	return v.at(req, "release", v.engine.leases.Release(ctx, v.def.store(req), req.Owner()))
}

// Check proves that what prevResult says is still held.
func (v *ipamVerbs) Check(ctx context.Context, req *plugin.Request) error {
	a, err := v.def.ipam(req)
	if err != nil {
		return v.at(req, "validate", err)
	}
	if len(a.Pool.Sets) == 0 {
		return v.at(req, "check", checkFixed(a.Fixed, req))
	}
	held, err := v.engine.leases.Held(ctx, a.Pool, req.Owner())
	if err != nil {
		return v.at(req, "check", err)
	}
	var diffs []netstate.Difference
	for _, want := range wantedLeases(a.Pool, req) {
		if !slices.ContainsFunc(held, func(l netstate.Lease) bool { return l.Addr == want.Addr }) {
			diffs = append(diffs, netstate.Difference{Object: want.Key(), Want: want.String()})
		}
	}
	if len(held) == 0 && len(diffs) == 0 {
		err = cni.Errorf(CodeDifferent, "no address is leased to %s in %s", req.Owner(), a.Pool.Dir)
	}
	if len(diffs) > 0 {
		err = &DifferencesError{Differences: diffs}
	}
	return v.at(req, "check", err)
}

// checkFixed wants prevResult to have the addresses that are given by the configuration, with their gateways.
func checkFixed(fixed []cni.IP, req *plugin.Request) error {
	if req.Prev == nil {
		return cni.Errorf(cni.CodeInvalidConfig, "prevResult is missing: CHECK needs the result of ADD")
	}
	var have []cni.IP
	if res := recalled(req); res != nil {
		have = res.IPs
	}
	text := func(ip cni.IP, gateway netip.Addr) string {
		if gateway.IsValid() {
			return fmt.Sprintf("address %s gateway %s", ip.Address, gateway)
		}
		return fmt.Sprintf("address %s", ip.Address)
	}
	var diffs []netstate.Difference
	for _, want := range fixed {
		d := netstate.Difference{Object: text(want, netip.Addr{}), Want: text(want, want.Gateway)}
		i := slices.IndexFunc(have, func(ip cni.IP) bool { return ip.Address == want.Address })
		if i >= 0 {
			if !want.Gateway.IsValid() || want.Gateway == have[i].Gateway {
				continue // a plugin may have chosen the gateway
			}
			d.Have = text(have[i], have[i].Gateway)
		}
		diffs = append(diffs, d)
	}
	if len(diffs) > 0 {
		return &DifferencesError{Differences: diffs}
	}
	return nil
}

// wantedLeases are the leases behind prevResult's addresses, as far as they come from the pool.
func wantedLeases(p netstate.Pool, req *plugin.Request) []netstate.Lease {
	res := recalled(req)
	if res == nil {
		return nil
	}
	var want []netstate.Lease
	for _, ip := range res.IPs {
		for _, set := range p.Sets {
			if _, err := addressIn(set, ip.Address.Addr()); err == nil {
				want = append(want, netstate.Lease{Network: p.Network, Addr: ip.Address.Addr(), Store: p.Dir, Owner: req.Owner()})
			}
		}
	}
	return want
}

// GC frees what is held by no valid attachment.
func (v *ipamVerbs) GC(ctx context.Context, req *plugin.Request) error {
	return v.engine.gc(ctx, Step{Def: v.def, Req: req})
}

func (v *ipamVerbs) at(req *plugin.Request, step string, err error) error {
	return at(Step{Def: v.def, Req: req}, step, err)
}

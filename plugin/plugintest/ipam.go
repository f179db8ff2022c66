package plugintest

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/netstate"
	"github.com/cleat-cni/cleat/plugin"
)

// fixedIPAM stands for whatever IPAM plugin a configuration names: it gives everybody the same, and knows who has it.
type fixedIPAM struct {
	gives *cni.Result
	held  map[netstate.Owner]bool
}

var (
	_ plugin.Finder = (*fixedIPAM)(nil)
	_ plugin.Plugin = (*fixedIPAM)(nil)
)

func (f *fixedIPAM) Find(typ string, _ []string) (plugin.Plugin, error) {
	if f.gives == nil {
		return nil, cni.Errorf(cni.CodeInvalidConfig, "find plugin %s: the test case has no IPAM that stands for it", typ)
	}
	return f, nil
}

func (f *fixedIPAM) Add(_ context.Context, req *plugin.Request) (*cni.Result, error) {
	if f.held[req.Owner()] {
		return nil, cni.Errorf(cni.CodeInvalidEnvironment, "%s has its addresses already", req.Owner())
	}
	f.held[req.Owner()] = true
	res := f.gives.Clone()
	res.CNIVersion = req.Conf.CNIVersion
	return res, nil
}

func (f *fixedIPAM) Del(_ context.Context, req *plugin.Request) error {
	delete(f.held, req.Owner())
	return nil
}

func (f *fixedIPAM) Check(_ context.Context, req *plugin.Request) error {
	if !f.held[req.Owner()] {
		return cni.Errorf(cni.CodeUnknownContainer, "%s has no addresses", req.Owner())
	}
	return nil
}

func (f *fixedIPAM) GC(_ context.Context, req *plugin.Request) error {
	valid, _, err := req.Conf.Raw.ValidAttachments()
	if err != nil {
		return err
	}
	for o := range f.held {
		if !slices.Contains(valid, cni.Attachment{ContainerID: o.ContainerID, IfName: o.IfName}) {
			delete(f.held, o)
		}
	}
	return nil
}

func (f *fixedIPAM) Status(context.Context, *plugin.Request) error { return nil }

func (f *fixedIPAM) dump() string {
	var lines []string
	for o := range f.held {
		lines = append(lines, fmt.Sprintf("addresses of the ipam plugin held by %s\n", o))
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// leases is a store in memory for planned IPAM plugins.
type leases struct{ held map[leaseKey]netstate.Owner }

type leaseKey struct {
	dir, network string
	addr         netip.Addr
}

// Reserve gives the first free address of each set, or the one that was asked for.
func (l *leases) Reserve(_ context.Context, p netstate.Pool, o netstate.Owner, dryRun bool) ([]netstate.Lease, error) {
	for k, have := range l.held {
		if have == o && k.dir == p.Dir {
			return nil, fmt.Errorf("lease of %s: %w", o, netstate.ErrExist)
		}
	}
	var list []netstate.Lease
	for _, set := range p.Sets {
		a, err := l.choose(p, set)
		if err != nil {
			return nil, err
		}
		list = append(list, netstate.Lease{Network: p.Network, Addr: a, Store: p.Dir, Owner: o})
	}
	for _, lease := range list {
		if !dryRun {
			l.held[leaseKey{p.Dir, p.Network, lease.Addr}] = o
		}
	}
	return list, nil
}

func (l *leases) choose(p netstate.Pool, set []netstate.Range) (netip.Addr, error) {
	taken := func(a netip.Addr) bool {
		_, ok := l.held[leaseKey{p.Dir, p.Network, a}]
		return ok
	}
	for _, a := range p.Want {
		if slices.ContainsFunc(set, func(r netstate.Range) bool { return r.Subnet.Contains(a) }) {
			if taken(a) {
				return a, fmt.Errorf("address %s: %w", a, netstate.ErrInUse)
			}
			return a, nil
		}
	}
	for _, r := range set {
		for a := r.Start; a.Compare(r.End) <= 0; a = a.Next() {
			if a != r.Gateway && !taken(a) {
				return a, nil
			}
		}
	}
	return netip.Addr{}, fmt.Errorf("network %s: %w", p.Network, netstate.ErrExhausted)
}

// Held returns what an owner has.
func (l *leases) Held(_ context.Context, p netstate.Pool, o netstate.Owner) ([]netstate.Lease, error) {
	var list []netstate.Lease
	for k, have := range l.held {
		if have == o && k.dir == p.Dir && k.network == p.Network {
			list = append(list, netstate.Lease{Network: p.Network, Addr: k.addr, Store: p.Dir, Owner: o})
		}
	}
	return list, nil
}

// Release frees what an owner has.
func (l *leases) Release(ctx context.Context, p netstate.Pool, o netstate.Owner) error {
	list, err := l.Held(ctx, p, o)
	for _, lease := range list {
		delete(l.held, leaseKey{p.Dir, p.Network, lease.Addr})
	}
	return err
}

// Collect frees what none of valid has.
func (l *leases) Collect(_ context.Context, p netstate.Pool, valid []netstate.Owner, dryRun bool) ([]netstate.Lease, error) {
	var freed []netstate.Lease
	for k, o := range l.held {
		if k.dir != p.Dir || k.network != p.Network || slices.Contains(valid, o) {
			continue
		}
		freed = append(freed, netstate.Lease{Network: p.Network, Addr: k.addr, Store: p.Dir, Owner: o})
		if !dryRun {
			delete(l.held, k)
		}
	}
	return freed, nil
}

func (l *leases) dump() string {
	var lines []string
	for k, o := range l.held {
		lines = append(lines, fmt.Sprintf("lease %s of network %s held by %s\n", k.addr, k.network, o))
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

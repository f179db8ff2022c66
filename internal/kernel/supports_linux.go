package kernel

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/cleat-cni/cleat/internal/netns"
	"github.com/cleat-cni/cleat/netstate"
)

// Supports reports whether this machine could make s, by making it in two namespaces that are thrown away. The
// error names the object that can't be made; where the kernel lacks something it mostly is netstate.ErrUnsupported. What s builds on in the
// host's own namespace, such as an interface that it only adjusts, is not there and is passed over. A state that was made once is
// not tried again. Of firewalld it is asked whether it and its zones are there, each time.
func (k *Kernel) Supports(ctx context.Context, s netstate.State) error {
	if len(s.Sources) > 0 {
		if err := k.zones.Supports(ctx, s.Sources); err != nil {
			return err
		}
	}
	s = standalone(s)
	text := s.String()
	k.triedMu.Lock()
	defer k.triedMu.Unlock()
	if k.tried[text] {
		return nil
	}
	if err := k.try(ctx, s); err != nil {
		return err
	}
	if k.tried == nil {
		k.tried = map[string]bool{}
	}
	k.tried[text] = true
	return nil
}

// try makes s in namespaces of its own.
func (k *Kernel) try(ctx context.Context, s netstate.State) error {
	host, err := netns.New()
	if err != nil {
		return err
	}
	defer host.Close()
	pod, err := netns.New()
	if err != nil {
		return err
	}
	defer pod.Close()
	scratch, err := New(Config{Host: host, Log: k.log, Programs: k.ipt.path})
	if err != nil {
		return err
	}
	session, err := scratch.Open(ctx, pod.Path(), false)
	if err != nil {
		return errors.Join(err, scratch.Close())
	}
	err = session.Apply(ctx, s)
	return errors.Join(err, session.Close(), scratch.Close())
}

// standalone is what of a state can be made where nothing else is: not what hangs on an interface that the
// state does not make. Routes are left out, since every kernel has them, and so are connections to be forgotten and what firewalld
// would hold: there is only one of it.
func standalone(s netstate.State) netstate.State {
	made := func(p netstate.Place, dev string) bool {
		return dev == "lo" || slices.ContainsFunc(s.Links, func(l netstate.Link) bool {
			return l.Kind != "" && l.Place == p && l.Name == dev
		})
	}
	out := s
	out.Leases, out.Links, out.Routes, out.Sources, out.Flows = nil, nil, nil, nil, nil
	for _, l := range s.Links {
		if l.Kind == "" && l.Name != "lo" {
			continue
		}
		if l.Master != "" && !made(l.Place, l.Master) {
			l.Master, l.Port, l.VLANs = "", netstate.Port{}, nil
		}
		out.Links = append(out.Links, l)
	}
	out.Sysctls = keep(s.Sysctls, func(o netstate.Sysctl) bool {
		dev := deviceOf(o.Name)
		return dev == "" || made(o.Place, dev)
	})
	out.Addrs = keep(s.Addrs, func(o netstate.Addr) bool { return !o.Absent && made(o.Place, o.Dev) })
	out.Neighbours = keep(s.Neighbours, func(o netstate.Neighbour) bool { return made(o.Place, o.Dev) })
	out.Qdiscs = keep(s.Qdiscs, func(o netstate.Qdisc) bool { return made(o.Place, o.Dev) })
	out.Filters = keep(s.Filters, func(o netstate.Filter) bool { return made(o.Place, o.Dev) && made(o.Place, o.To) })
	out.IptablesChains = keep(s.IptablesChains, func(o netstate.IptablesChain) bool { return !o.Foreign })
	out.IptablesRules = keep(s.IptablesRules, func(o netstate.IptablesRule) bool {
		return !slices.ContainsFunc(s.IptablesChains, func(c netstate.IptablesChain) bool { return c.Foreign && o.LeadsTo(c) })
	})
	return out
}

func keep[T any](list []T, want func(T) bool) []T {
	return slices.DeleteFunc(slices.Clone(list), func(o T) bool { return !want(o) })
}

// deviceOf is the interface that a value below net/ipv4/conf, net/ipv6/neigh and the like is of; "" for one of none.
func deviceOf(sysctl string) string {
	parts := strings.Split(sysctl, "/")
	if len(parts) != 5 || parts[2] != "conf" && parts[2] != "neigh" || parts[3] == "all" || parts[3] == "default" {
		return ""
	}
	return parts[3]
}

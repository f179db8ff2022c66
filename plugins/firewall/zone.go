package firewall

import (
	"net/netip"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/netstate"
	"github.com/cleat-cni/cleat/planned"
)

// inZone is the pod's addresses in firewalld's zone, if firewalld is to be used: it drops what its zones don't know, whatever others
// accept. A DEL does not ask what is there now, since it takes away what was put there, and finds by the owner what is not known
// any more.
func (c Config) inZone(in planned.Input, addrs []netip.Addr, answers bool) ([]netstate.Source, error) {
	forgotten := in.Verb == cni.VerbDel
	switch {
	case c.zones == neverZone, c.zones == zoneIfThere && !answers && !forgotten:
		return nil, nil
	case !answers && !forgotten:
		return nil, cni.Errorf(cni.CodeTryAgain, "backend is %q, and firewalld does not answer on the system bus", "firewalld").
			WithHint("systemctl start firewalld, or remove backend: then firewalld is used only where it runs")
	case forgotten && len(addrs) == 0:
		return []netstate.Source{{Zone: c.zone, Owner: in.Owner()}}, nil
	}
	var list []netstate.Source
	for _, a := range addrs {
		list = append(list, netstate.Source{Zone: c.zone, Prefix: netip.PrefixFrom(a, a.BitLen()), Owner: in.Owner()})
	}
	return list, nil
}

// Package firewall is the firewall plugin: it lets a pod's connections through a host that drops what it forwards, and keeps
// other pods away from a pod where that is asked for.
//
// With nftables a pod is an element of sets and never a rule. What an accept in a table of our own can't do, to overrule a
// chain of iptables that drops, a bit of the packet's mark does, with one rule in that chain for all pods. With
// iptables a pod is a few rules an address, in chains that all pods share. A firewalld that answers has the pod's addresses in
// one of its zones besides.
package firewall

import (
	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/backend"
	"github.com/cleat-cni/cleat/netstate"
	"github.com/cleat-cni/cleat/planned"
	"github.com/cleat-cni/cleat/plugin"
)

// Plugin returns the plugin's definition.
func Plugin() planned.Definition {
	return planned.Define(planned.Spec[Config]{
		Info:    plugin.Info{Type: "firewall", About: "lets a pod through the host's firewall, and keeps others away from it"},
		Parse:   parse,
		Ask:     ask,
		Plan:    plan,
		Chained: true,
		Profile: planned.Profile{Conf: netConf{}, Behind: []string{"veth"}},
	})
}

// ask wants to know whether there is a choice of backends, where a chain of iptables may drop what nftables lets
// through, and whether firewalld is there. A pod that is isolated needs nftables at the bridge, whatever the backend.
func ask(c Config, in planned.Input) netstate.Query {
	return netstate.Query{
		NFTables:  c.backend.Asks() || c.policy == isolated,
		Forward:   c.backend != backend.Iptables && in.Verb != cni.VerbDel,
		Firewalld: c.zones != neverZone && in.Verb != cni.VerbDel,
	}
}

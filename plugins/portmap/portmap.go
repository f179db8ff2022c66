// Package portmap is the portmap plugin: it makes ports of the host lead to a pod.
//
// A mapping is an element of an nft map and never a rule: a packet's cost does not grow with the
// number of mappings, and two pods can't have one host port, since the map has one place for it. What is
// static stands in chains that all pods share. In iptables a mapping is a chain, named after the port so that two pods can't have
// it either, and the rule that leads there.
package portmap

import (
	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/netstate"
	"github.com/cleat-cni/cleat/planned"
	"github.com/cleat-cni/cleat/plugin"
)

// Plugin returns the plugin's definition.
func Plugin() planned.Definition {
	return planned.Define(planned.Spec[Config]{
		Info:    plugin.Info{Type: "portmap", About: "makes ports of the host lead to a pod"},
		Parse:   parse,
		Ask:     ask,
		Plan:    plan,
		Chained: true,
		Profile: planned.Profile{Conf: netConf{}, Capabilities: []string{"portMappings"}, Behind: []string{"veth"}},
		// Without a mapping nothing is made, and STATUS would have nothing to try.
		TrialRuntime: `{"portMappings": [{"hostPort": 1, "containerPort": 1, "protocol": "tcp"}]}`,
	})
}

// ask wants to know whether there is a choice of backends, if there is anything to do.
func ask(c Config, in planned.Input) netstate.Query {
	nothing := len(c.mappings) == 0 && (c.asked || in.Verb != cni.VerbDel)
	return netstate.Query{NFTables: c.backend.Asks() && !nothing}
}

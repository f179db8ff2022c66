// Package sbr is the sbr plugin: source-based routing. What leaves a pod under an address of its interface leaves through that interface,
// wherever it goes, by a routing table of the address's own.
package sbr

import (
	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/netstate"
	"github.com/cleat-cni/cleat/planned"
	"github.com/cleat-cni/cleat/plugin"
)

// Plugin returns the plugin's definition.
func Plugin() planned.Definition {
	return planned.Define(planned.Spec[Config]{
		Info:    plugin.Info{Type: "sbr", About: "routes what a pod sends by the address that it sends from"},
		Parse:   parse,
		Ask:     ask,
		Plan:    plan,
		Chained: true,
		Profile: planned.Profile{Conf: netConf{}},
	})
}

// ask wants to know the routes that are to be moved and the tables that are used; on DEL what there is of them, since nothing
// but the pod itself tells which tables were free at ADD.
func ask(_ Config, in planned.Input) netstate.Query {
	pod := []netstate.Ref{{Place: netstate.Pod, Name: in.IfName}}
	q := netstate.Query{Routing: pod, AtDel: true}
	if in.Verb == cni.VerbDel {
		q.Links = pod // with their addresses, for a DEL without prevResult
	}
	return q
}

func invalid(format string, args ...any) *cni.Error {
	return cni.Errorf(cni.CodeInvalidConfig, format, args...)
}

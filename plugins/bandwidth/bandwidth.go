// Package bandwidth is the bandwidth plugin: it limits the rate to and from a pod.
//
// Both limits are token buckets on the host, where the pod can't change them. What goes to the pod waits on the host's end of
// its veth; what comes from it is led through an interface of kind ifb first, since only what leaves an interface can be
// made to wait.
package bandwidth

import (
	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/netstate"
	"github.com/cleat-cni/cleat/planned"
	"github.com/cleat-cni/cleat/plugin"
)

// Plugin returns the plugin's definition.
func Plugin() planned.Definition {
	return planned.Define(planned.Spec[Config]{
		Info:    plugin.Info{Type: "bandwidth", About: "limits the rate to and from a pod"},
		Parse:   parse,
		Ask:     ask,
		Plan:    plan,
		Chained: true,
		// Without a limit nothing is made, and STATUS would have nothing to try.
		Profile:      planned.Profile{Conf: cni.Bandwidth{}, Capabilities: []string{"bandwidth"}, Behind: []string{"veth"}},
		TrialRuntime: `{"bandwidth": {"ingressRate": 8000000, "ingressBurst": 800000, "egressRate": 8000000, "egressBurst": 800000}}`,
	})
}

// ask wants to know the host's end of the pod's interface, if there is anything to do.
func ask(c Config, in planned.Input) netstate.Query {
	if c == (Config{}) {
		return netstate.Query{}
	}
	return netstate.Query{Links: []netstate.Ref{{Place: netstate.Pod, Name: in.IfName}}, Peers: true}
}

func invalid(format string, args ...any) *cni.Error {
	return cni.Errorf(cni.CodeInvalidConfig, format, args...)
}

// Package bridge is the bridge plugin: it connects a pod to a bridge of the host by a veth pair.
//
// The bridge is made when the first pod comes and stays when the last one goes. With an ipam section
// the pod gets addresses, and the bridge can be its gateway; without one it is a port and nothing more.
package bridge

import (
	"github.com/cleat-cni/cleat/netstate"
	"github.com/cleat-cni/cleat/planned"
	"github.com/cleat-cni/cleat/plugin"
)

// Plugin returns the plugin's definition.
func Plugin() planned.Definition {
	return planned.Define(planned.Spec[Config]{
		Info:  plugin.Info{Type: "bridge", About: "connects a pod to a bridge of the host by a veth pair"},
		Parse: parse,
		Ask:   ask,
		Plan:  plan,
		IPAM: func(c Config) planned.IPAMUse {
			if c.layer3 {
				return planned.RequiredIPAM
			}
			return planned.NoIPAM
		},
		Profile: planned.Profile{Conf: netConf{}, Args: argsConf{}, Capabilities: []string{"mac"}, Makes: "veth"},
	})
}

// ask wants the bridge, and the VLAN's gateway interface, as they are: an existing one keeps what it has. A bridge
// that is to be made inherits the uplink's MTU.
func ask(c Config, _ planned.Input) netstate.Query {
	q := netstate.Query{
		Links:           []netstate.Ref{{Place: netstate.Host, Name: c.bridge}},
		UplinkIfMissing: c.mtu == 0,
		NFTables:        c.layer3 && c.masquerade && c.backend.Asks(),
	}
	if c.hasVLANGateway() {
		q.Links = append(q.Links, netstate.Ref{Place: netstate.Host, Name: c.vlanGateway()})
	}
	return q
}

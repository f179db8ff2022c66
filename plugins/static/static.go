// Package static is the static IPAM plugin: it gives the addresses that its configuration or the runtime names. It keeps
// no store: that they are given once is up to who names them.
package static

import (
	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/planned"
	"github.com/cleat-cni/cleat/plugin"
)

// Plugin returns the plugin's definition.
func Plugin() planned.Definition {
	return planned.DefineIPAM(planned.IPAMSpec[Config]{
		Info:    plugin.Info{Type: "static", About: "gives the addresses that the configuration or the runtime names"},
		Parse:   parse,
		Profile: planned.Profile{Conf: ipamConf{}, Args: argsConf{}, Capabilities: []string{"ips"}},
		Allocation: func(c Config, _ *plugin.Request) (planned.Allocation, error) {
			return planned.Allocation{Fixed: c.addresses, Routes: c.routes, DNS: c.dns}, nil
		},
	})
}

// Config is the parsed configuration.
type Config struct {
	addresses []cni.IP
	routes    []cni.Route
	dns       cni.DNS
}

// Package ptp is the ptp plugin: it connects a pod to the host alone, by a veth pair of its own. The host routes
// to each pod, and whatever a pod sends goes through the host, to its neighbours in the subnet too.
package ptp

import (
	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/backend"
	"github.com/cleat-cni/cleat/internal/podip"
	"github.com/cleat-cni/cleat/netstate"
	"github.com/cleat-cni/cleat/planned"
	"github.com/cleat-cni/cleat/plugin"
)

// Plugin returns the plugin's definition.
func Plugin() planned.Definition {
	return planned.Define(planned.Spec[Config]{
		Info:  plugin.Info{Type: "ptp", About: "connects a pod to the host alone, which routes for it"},
		Parse: parse,
		Ask: func(c Config, _ planned.Input) netstate.Query {
			return netstate.Query{Uplink: c.mtu == 0, NFTables: c.masquerade && c.backend.Asks()}
		},
		Plan: plan,
		IPAM: func(Config) planned.IPAMUse { return planned.RequiredIPAM },

		Profile: planned.Profile{Conf: netConf{}, Makes: "veth"},
	})
}

// netConf is the configuration as it is written.
type netConf struct {
	IPMasq        bool   `json:"ipMasq" schema:"default=false" doc:"packets leave the pod's subnet under the host's address"`
	IPMasqBackend string `json:"ipMasqBackend" schema:"enum=nftables|iptables" doc:"what masquerades; without it what the kernel has"`
	MTU           int    `json:"mtu" schema:"default=0,min=0,max=65535" doc:"MTU of both ends; 0 is that of the host's default route"`
}

// Config is the parsed configuration.
type Config struct {
	masquerade bool
	backend    backend.Backend // of masquerading
	mtu        int             // 0 is the uplink's
	dns        cni.DNS
}

func parse(req *plugin.Request) (Config, error) {
	var conf netConf
	if err := planned.DecodeConfig(req.Conf, &conf); err != nil {
		return Config{}, err
	}
	// Those of the IPAM plugin, which is called with the same arguments.
	if err := req.Args.Only("IP", "GATEWAY"); err != nil {
		return Config{}, err
	}
	c := Config{masquerade: conf.IPMasq, mtu: conf.MTU, dns: req.Conf.DNS}
	if err := podip.CheckMTU(c.mtu, "is that of the interface of the host's default route"); err != nil {
		return Config{}, err
	}
	var err error
	c.backend, err = backend.Parse("ipMasqBackend", conf.IPMasqBackend)
	return c, err
}

// Package hostlocal is the host-local IPAM plugin: it gives each attachment an address of each of its
// range sets, out of a store on this host.
//
// The package only says from which ranges an address comes and what goes with it. The store,
// which keeps the reference plugin's layout, is internal/leases.
package hostlocal

import (
	"path/filepath"

	"github.com/cleat-cni/cleat/netstate"
	"github.com/cleat-cni/cleat/planned"
	"github.com/cleat-cni/cleat/plugin"
)

// Plugin returns the plugin's definition.
func Plugin() planned.Definition {
	return planned.DefineIPAM(planned.IPAMSpec[Config]{
		Info:       plugin.Info{Type: "host-local", About: "gives addresses out of ranges of this host"},
		Parse:      parse,
		Allocation: allocation,
		Store:      store,
		Profile:    planned.Profile{Conf: ipamConf{}, Args: argsConf{}, Capabilities: []string{"ipRanges", "ips"}},
	})
}

const defaultDataDir = "/var/lib/cni/networks"

func allocation(c Config, req *plugin.Request) (planned.Allocation, error) {
	pool := netstate.Pool{Network: req.Conf.Name, Dir: c.dataDir, Want: c.requested}
	for _, set := range c.sets {
		var ranges []netstate.Range
		for _, r := range set {
			ranges = append(ranges, r.Range)
		}
		pool.Sets = append(pool.Sets, ranges)
	}
	return planned.Allocation{Pool: pool, Routes: c.routes, ResolvConf: c.resolvConf}, nil
}

// store is where the leases lie, also if the rest of the configuration is refused, so that DEL and GC
// can free them.
func store(req *plugin.Request) netstate.Pool {
	if c, err := parse(req); err == nil {
		if a, err := allocation(c, req); err == nil {
			return a.Pool
		}
	}
	var ipam struct {
		DataDir string `json:"dataDir"`
	}
	dir := defaultDataDir
	if _, err := req.Conf.Raw.Decode("ipam", &ipam); err == nil && filepath.IsAbs(ipam.DataDir) {
		dir = filepath.Clean(ipam.DataDir)
	}
	return netstate.Pool{Network: req.Conf.Name, Dir: dir}
}

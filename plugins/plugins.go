// Package plugins is the list of the plugins that are built in: the only place that knows them all.
package plugins

import (
	"github.com/cleat-cni/cleat/planned"
	"github.com/cleat-cni/cleat/plugins/bandwidth"
	"github.com/cleat-cni/cleat/plugins/bridge"
	"github.com/cleat-cni/cleat/plugins/firewall"
	"github.com/cleat-cni/cleat/plugins/hostlocal"
	"github.com/cleat-cni/cleat/plugins/loopback"
	"github.com/cleat-cni/cleat/plugins/portmap"
	"github.com/cleat-cni/cleat/plugins/ptp"
	"github.com/cleat-cni/cleat/plugins/sbr"
	"github.com/cleat-cni/cleat/plugins/static"
	"github.com/cleat-cni/cleat/plugins/tuning"
)

// All returns the definitions of all built-in plugins, by type.
func All() []planned.Definition {
	return []planned.Definition{
		bandwidth.Plugin(),
		bridge.Plugin(),
		firewall.Plugin(),
		hostlocal.Plugin(),
		loopback.Plugin(),
		portmap.Plugin(),
		ptp.Plugin(),
		sbr.Plugin(),
		static.Plugin(),
		tuning.Plugin(),
	}
}

// ByType returns the definition of the built-in plugin of a type, and whether there is one.
func ByType(typ string) (planned.Definition, bool) {
	for _, d := range All() {
		if d.Info.Type == typ {
			return d, true
		}
	}
	return planned.Definition{}, false
}

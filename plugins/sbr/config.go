package sbr

import (
	"math"
	"net/netip"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/netstate"
	"github.com/cleat-cni/cleat/planned"
	"github.com/cleat-cni/cleat/plugin"
)

// Config is the parsed configuration.
type Config struct {
	table    int        // 0 chooses free ones
	anyTable bool       // on DEL: what is written can't be read, and may have been another one
	gateway4 netip.Addr // instead of prevResult's; zero is none
	gateway6 netip.Addr
	hints    bool
}

// gateway is the gateway that the configuration names for the family of an address.
func (c Config) gateway(of netip.Addr) netip.Addr {
	if of.Is4() {
		return c.gateway4
	}
	return c.gateway6
}

// netConf is the configuration as it is written.
type netConf struct {
	Table          *int     `json:"table" schema:"min=1,max=4294967295" doc:"the addresses use this table, and no route is moved; without it each address gets a table of its own"`
	Gateways       []string `json:"gateways" doc:"gateways of the default routes, one of each family, instead of those of the addresses"`
	AddSourceHints bool     `json:"addSourceHints" schema:"default=false" doc:"the main table keeps the way to the subnets, and names the source address"`
}

func parse(req *plugin.Request) (Config, error) {
	c, err := parseConf(req)
	if err != nil && req.Verb == cni.VerbDel {
		return Config{anyTable: true}, nil
	}
	return c, err
}

func parseConf(req *plugin.Request) (Config, error) {
	var conf netConf
	if err := planned.DecodeConfig(req.Conf, &conf); err != nil {
		return Config{}, err
	}
	c := Config{hints: conf.AddSourceHints}
	if t := conf.Table; t != nil {
		if *t < 1 || int64(*t) > math.MaxUint32 || *t == netstate.LocalTable {
			return Config{}, invalid("table %d is not from 1 to %d, or is the kernel's local one, %d", *t, uint32(math.MaxUint32), netstate.LocalTable)
		}
		c.table = *t
	}
	for i, text := range conf.Gateways {
		gw, err := netip.ParseAddr(text)
		if err != nil || gw.IsUnspecified() || gw.IsMulticast() || gw.Zone() != "" {
			return Config{}, invalid("gateways[%d]: %q is no address of a gateway", i, text)
		}
		gw = gw.Unmap()
		into := &c.gateway4
		if gw.Is6() {
			into = &c.gateway6
		}
		if into.IsValid() {
			return Config{}, invalid("gateways[%d]: %s and %s are of one family, and each has one default gateway", i, *into, gw)
		}
		*into = gw
	}
	return c, nil
}

// addresses are those that rules are for, each once.
func addresses(ips []cni.IP) []cni.IP {
	var all []cni.IP
	seen := map[netip.Addr]bool{}
	for _, ip := range ips {
		if a := ip.Address.Addr(); !seen[a] {
			seen[a] = true
			all = append(all, ip)
		}
	}
	return all
}

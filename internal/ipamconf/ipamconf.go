// Package ipamconf reads what the configurations of IPAM plugins have in common: routes, and the addresses that a
// runtime asks for.
package ipamconf

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/plugin"
)

// Route is an element of ipam.routes as it is written.
type Route struct {
	Dst      string `json:"dst" schema:"required,format=cidr" doc:"where the route leads, with a prefix length"`
	GW       string `json:"gw" schema:"format=ip" doc:"the next hop; without it the gateway of an address of its family"`
	MTU      int    `json:"mtu" doc:"MTU of the path"`
	AdvMSS   int    `json:"advmss" doc:"segment size of TCP that is told the other side"`
	Priority int    `json:"priority" doc:"a lower number goes first"`
	Table    *int   `json:"table" doc:"number of the routing table; without it main"`
	Scope    *int   `json:"scope" doc:"scope as the kernel counts it: 0 global, 253 link, 254 host"`
}

// ParseRoutes reads ipam.routes. Its errors name the element and have code 7.
func ParseRoutes(list []*Route) ([]cni.Route, error) {
	var routes []cni.Route
	for i, r := range list {
		path := fmt.Sprintf("ipam.routes[%d]", i)
		if r == nil {
			return nil, invalid("%s is null: remove it", path)
		}
		if r.Dst == "" {
			return nil, invalid("%s.dst is missing", path)
		}
		dst, err := netip.ParsePrefix(r.Dst)
		if err != nil {
			return nil, invalid("%s.dst: %q is not an address with a prefix length, as 10.2.0.0/16", path, r.Dst)
		}
		route := cni.Route{Dst: dst, MTU: r.MTU, AdvMSS: r.AdvMSS, Priority: r.Priority}
		if r.GW != "" {
			if route.GW, err = ParseAddr(path+".gw", r.GW); err != nil {
				return nil, err
			}
			if route.GW.Is4() != dst.Addr().Is4() {
				return nil, invalid("%s.gw: %s is of another family than %s", path, route.GW, dst)
			}
		}
		if r.Table != nil {
			route.Table = cni.Some(*r.Table)
		}
		if r.Scope != nil {
			route.Scope = cni.Some(*r.Scope)
		}
		routes = append(routes, route)
	}
	return routes, nil
}

// ParseAddr reads an address without a prefix length. Its error names path and has code 7.
func ParseAddr(path, text string) (netip.Addr, error) {
	a, err := netip.ParseAddr(text)
	if err != nil || a.Zone() != "" {
		return netip.Addr{}, invalid("%s: %q is not an address", path, text)
	}
	return a.Unmap(), nil
}

// Wish is an address that a runtime asks for, as it is written.
type Wish struct {
	Path string // where it stands: runtimeConfig.ips[0], args.cni.ips[0], CNI_ARGS IP
	Text string
	Code cni.Code // of an error about it
}

// Wishes returns what the runtime asks for, and whether that comes out of CNI_ARGS. Its ips win over args.cni.ips, and that
// key, if it is there, over IP of CNI_ARGS (CNI conventions: a plugin must then ignore CNI_ARGS). It
// refuses keys of CNI_ARGS that neither IPAM plugins know nor the plugins that call them.
func Wishes(req *plugin.Request) (list []Wish, fromArgs bool, err error) {
	if err := req.Args.Only("IP", "MAC", "GATEWAY"); err != nil {
		return nil, false, err
	}
	var ips []string
	if _, err := req.Conf.RuntimeConfig("ips", &ips); err != nil {
		return nil, false, err
	}
	if len(ips) > 0 {
		return wishes("runtimeConfig.ips", ips), false, nil
	}
	there, err := req.Conf.Arg("ips", &ips)
	if err != nil || there {
		return wishes("args.cni.ips", ips), false, err
	}
	text, _ := req.Args.Get("IP")
	if text == "" {
		return nil, false, nil
	}
	for one := range strings.SplitSeq(text, ",") {
		list = append(list, Wish{"CNI_ARGS IP", strings.TrimSpace(one), cni.CodeInvalidEnvironment})
	}
	return list, true, nil
}

func wishes(path string, ips []string) []Wish {
	var list []Wish
	for i, text := range ips {
		list = append(list, Wish{fmt.Sprintf("%s[%d]", path, i), text, cni.CodeInvalidConfig})
	}
	return list
}

func invalid(format string, args ...any) *cni.Error {
	return cni.Errorf(cni.CodeInvalidConfig, format, args...)
}

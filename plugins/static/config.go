package static

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/ipamconf"
	"github.com/cleat-cni/cleat/plugin"
)

// ipamConf is the ipam section as it is written.
type ipamConf struct {
	Addresses []*addressConf    `json:"addresses" doc:"the pod's addresses"`
	Routes    []*ipamconf.Route `json:"routes" doc:"routes of the pod"`
	DNS       cni.DNS           `json:"dns" doc:"the pod's DNS settings"`
}

type addressConf struct {
	Address string `json:"address" schema:"required,format=cidr" doc:"an address with its subnet's prefix length"`
	Gateway string `json:"gateway" schema:"format=ip" doc:"the gateway of its subnet"`
}

// argsConf is what is read of args.cni.
type argsConf struct {
	IPs []string `json:"ips" doc:"addresses instead of those of the configuration"`
}

func invalid(format string, args ...any) *cni.Error {
	return cni.Errorf(cni.CodeInvalidConfig, format, args...)
}

func parse(req *plugin.Request) (Config, error) {
	if !req.Conf.HasIPAM {
		return Config{}, invalid("ipam is missing: static reads its addresses there").
			WithHint(`write "ipam": {"type": "static", "addresses": [{"address": "10.1.0.5/16"}]}`)
	}
	var ipam ipamConf
	if _, err := req.Conf.Raw.Decode("ipam", &ipam); err != nil {
		return Config{}, err
	}
	c := Config{dns: ipam.DNS}
	var err error
	if c.routes, err = ipamconf.ParseRoutes(ipam.Routes); err != nil {
		return Config{}, err
	}
	if c.addresses, err = addresses(req, ipam.Addresses); err != nil {
		return Config{}, err
	}
	return c, checkAddresses(c.addresses, req.Conf.CNIVersion)
}

// addresses are those of the configuration and of CNI_ARGS, or instead of them those that the runtime names otherwise.
func addresses(req *plugin.Request, written []*addressConf) ([]cni.IP, error) {
	var list []cni.IP
	for i, a := range written {
		path := fmt.Sprintf("ipam.addresses[%d]", i)
		if a == nil {
			return nil, invalid("%s is null: remove it", path)
		}
		ip, err := parsePrefix(a.Address)
		if err != nil {
			return nil, invalid("%s.address: %w", path, err)
		}
		if a.Gateway != "" {
			if ip.Gateway, err = ipamconf.ParseAddr(path+".gateway", a.Gateway); err != nil {
				return nil, err
			}
		}
		list = append(list, ip)
	}
	wishes, fromArgs, err := ipamconf.Wishes(req)
	if err != nil {
		return nil, err
	}
	if len(wishes) > 0 && !fromArgs {
		list = nil
	}
	for _, w := range wishes {
		ip, err := parsePrefix(w.Text)
		if err != nil {
			return nil, cni.Errorf(w.Code, "%s: %w", w.Path, err)
		}
		list = append(list, ip)
	}
	return list, addGateways(req, list)
}

// parsePrefix reads an address with its subnet's prefix length.
func parsePrefix(text string) (cni.IP, error) {
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return cni.IP{}, fmt.Errorf("%q is not an address with a prefix length, as 10.1.0.5/16", text)
	}
	if p.Addr().Is4In6() {
		return cni.IP{}, fmt.Errorf("%s is an IPv4 address in the form of IPv6: write it as IPv4", p)
	}
	return cni.IP{Address: p}, nil
}

// addGateways gives the gateways of CNI_ARGS to the addresses in whose subnets they are.
func addGateways(req *plugin.Request, list []cni.IP) error {
	text, _ := req.Args.Get("GATEWAY")
	if text == "" {
		return nil
	}
	for one := range strings.SplitSeq(text, ",") {
		gw, err := netip.ParseAddr(strings.TrimSpace(one))
		if err != nil || gw.Zone() != "" {
			return cni.Errorf(cni.CodeInvalidEnvironment, "CNI_ARGS GATEWAY: %q is not an address", one)
		}
		for i := range list {
			if list[i].Address.Contains(gw.Unmap()) {
				list[i].Gateway = gw.Unmap()
			}
		}
	}
	return nil
}

// checkAddresses refuses what no interface can have, or the version's results can't say.
func checkAddresses(list []cni.IP, version string) error {
	if len(list) == 0 {
		return invalid("no address is given").
			WithHint(`write "addresses": [{"address": "10.1.0.5/16"}], or have the runtime ask for one (ips)`)
	}
	count := map[bool]int{}
	for i, ip := range list {
		a := ip.Address.Addr()
		switch {
		case a.IsUnspecified() || a.IsMulticast():
			return invalid("%s is the address of no interface", a)
		case ip.Gateway.IsValid() && ip.Gateway.Is4() != a.Is4():
			return invalid("gateway %s of %s is of another family", ip.Gateway, ip.Address)
		case slices.ContainsFunc(list[:i], func(o cni.IP) bool { return o.Address.Addr() == a }):
			return invalid("%s is given twice", a)
		}
		if count[a.Is4()]++; count[a.Is4()] > 1 && !cni.AtLeast(version, "0.3.0") {
			return invalid("cniVersion %s has one address of a family, and %s is the second", version, a).
				WithHint("set cniVersion to 0.3.0 or later")
		}
	}
	return nil
}

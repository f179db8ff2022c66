package cli

import (
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/libcni"
)

// request is what add and plan may ask of a network, besides an attachment.
type request struct {
	ips, publish, args   []string
	mac, ingress, egress string
}

func (r *request) flags(c *cobra.Command) {
	f := c.Flags()
	f.StringArrayVar(&r.ips, "ip", nil, "address to ask for, with or without its prefix length; give it again for more")
	f.StringVar(&r.mac, "mac", "", "MAC address to ask for")
	f.StringArrayVar(&r.publish, "publish", nil, "[hostIP:]host:container[/proto], a port to publish; an IPv6 hostIP in brackets")
	f.StringVar(&r.ingress, "ingress-rate", "", "limit of what the container receives, in bits a second: 10M")
	f.StringVar(&r.egress, "egress-rate", "", "limit of what the container sends, in bits a second: 10M")
	f.StringArrayVar(&r.args, "arg", nil, "KEY=VALUE for CNI_ARGS; give it again for more")
}

// parsed is a request with its flags read.
type parsed struct {
	args cni.Args
	caps map[string]json.RawMessage // of CAP_ARGS

	ips       []string
	mac       string
	ports     []cni.PortMapping
	bandwidth cni.Bandwidth
}

// parse reads the flags, on top of CNI_ARGS and CAP_ARGS. Errors are usage errors.
func (a *app) parse(r request) (parsed, error) {
	args, caps, err := a.envArgs()
	if err != nil {
		return parsed{}, err
	}
	p := parsed{args: args, caps: caps}
	for _, s := range r.args {
		key, value, err := parsePair(s)
		if err != nil {
			return parsed{}, usagef("%w", err)
		}
		p.args = setArg(p.args, key, value)
	}
	for _, s := range r.publish {
		m, err := parsePublish(s)
		if err != nil {
			return parsed{}, usagef("%w", err)
		}
		p.ports = append(p.ports, m)
	}
	for _, s := range r.ips {
		ip, err := parseIP(s)
		if err != nil {
			return parsed{}, usagef("%w", err)
		}
		p.ips = append(p.ips, ip)
	}
	if p.mac, err = parseMAC(r.mac); err != nil {
		return parsed{}, usagef("%w", err)
	}
	if err := p.rates(r); err != nil {
		return parsed{}, usagef("%w", err)
	}
	return p, nil
}

func (p *parsed) rates(r request) error {
	for _, f := range []struct {
		text        string
		rate, burst *uint64
	}{
		{r.ingress, &p.bandwidth.IngressRate, &p.bandwidth.IngressBurst},
		{r.egress, &p.bandwidth.EgressRate, &p.bandwidth.EgressBurst},
	} {
		if f.text == "" {
			continue
		}
		rate, err := parseRate(f.text)
		if err != nil {
			return err
		}
		*f.rate, *f.burst = rate, burstOf(rate)
	}
	return nil
}

// parseIP reads an address with or without a prefix length, as the ips capability takes it.
func parseIP(s string) (string, error) {
	if p, err := netip.ParsePrefix(s); err == nil {
		return p.String(), nil
	}
	addr, err := netip.ParseAddr(s)
	if err != nil || addr.Zone() != "" {
		return "", fmt.Errorf("ip %q is not an IP address, such as 10.88.0.5 or 10.88.0.5/16", s)
	}
	return addr.String(), nil
}

func parseMAC(s string) (string, error) {
	if s == "" {
		return "", nil
	}
	mac, err := net.ParseMAC(s)
	if err != nil || len(mac) != 6 {
		return "", fmt.Errorf("mac %q is not an Ethernet address, such as 0a:58:0a:58:00:05", s)
	}
	if mac[0]&1 != 0 {
		return "", fmt.Errorf("mac %q is a group address; an interface needs one whose first byte is even", s)
	}
	return mac.String(), nil
}

// apply puts the request into rt in the way that the network's plugins take it: as a capability that one of them declares,
// else, for what has such a form, as arguments. What no plugin would see is an error.
func (p parsed) apply(list *libcni.NetworkConfigList, rt *libcni.RuntimeConf) error {
	rt.Args = p.args
	rt.CapabilityArgs = map[string]any{}
	for name, value := range p.caps {
		rt.CapabilityArgs[name] = value
	}
	if len(p.ports) > 0 {
		if !declares(list, "portMappings") {
			return unanswered(list, "--publish", "portMappings", "portmap")
		}
		rt.CapabilityArgs["portMappings"] = p.ports
	}
	if p.bandwidth != (cni.Bandwidth{}) {
		if !declares(list, "bandwidth") {
			return unanswered(list, "an --ingress-rate or --egress-rate", "bandwidth", "bandwidth")
		}
		rt.CapabilityArgs["bandwidth"] = p.bandwidth
	}
	if p.mac != "" {
		if declares(list, "mac") {
			rt.CapabilityArgs["mac"] = p.mac
		} else {
			rt.Args = askedByArg(rt.Args, "MAC", p.mac)
		}
	}
	switch {
	case len(p.ips) == 0:
	case declares(list, "ips"):
		rt.CapabilityArgs["ips"] = p.ips
	case hasIPAM(list):
		rt.Args = askedByArg(rt.Args, "IP", strings.Join(p.ips, ","))
	default:
		return unanswered(list, "--ip", "ips", "")
	}
	return nil
}

// askedByArg sets an argument of the older convention, which plugins that don't know it are to pass over.
func askedByArg(args cni.Args, key, value string) cni.Args {
	return setArg(setArg(args, "IgnoreUnknown", "1"), key, value)
}

func declares(list *libcni.NetworkConfigList, capability string) bool {
	return slices.ContainsFunc(list.Plugins, func(p *libcni.PluginConfig) bool { return p.Network.Capabilities[capability] })
}

func hasIPAM(list *libcni.NetworkConfigList) bool {
	return slices.ContainsFunc(list.Plugins, func(p *libcni.PluginConfig) bool { return p.Network.IPAMType != "" })
}

// unanswered says that no plugin would see what a flag asks for. plugin is the one that does, if there is one.
func unanswered(list *libcni.NetworkConfigList, flag, capability, plugin string) error {
	e := cni.Errorf(cni.CodeInvalidConfig, "network %s does not serve %s: no plugin of it declares the capability %s", list.Name, flag, capability)
	if plugin == "" {
		return e.WithHint("declare it at the plugin that is to serve it: \"capabilities\": {%q: true}", capability)
	}
	return e.WithHint("add {\"type\": %q, \"capabilities\": {%q: true}} to its plugins", plugin, capability)
}

// sortedPairs gives the keys of a map in order, with their values as JSON.
func sortedPairs(m map[string]any) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for _, key := range slices.Sorted(maps.Keys(m)) {
			value, err := json.Marshal(m[key])
			if err != nil {
				value = []byte(err.Error())
			}
			if !yield(key, string(value)) {
				return
			}
		}
	}
}

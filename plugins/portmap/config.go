package portmap

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"unicode"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/backend"
	"github.com/cleat-cni/cleat/netstate"
	"github.com/cleat-cni/cleat/planned"
	"github.com/cleat-cni/cleat/plugin"
)

// Config is the parsed configuration.
type Config struct {
	mappings []mapping
	asked    bool   // the runtime gave portMappings, maybe none
	snat     bool   // the pod itself, its subnet and the host's 127.0.0.1 reach the mappings too
	masqAll  bool   // whoever comes through a mapping comes from the host's address
	markBit  uint32 // the mark that tells what is to be masqueraded

	backend                  backend.Backend
	markChain                string   // somebody else's chain that marks instead, and whoever made it masquerades
	conditions4, conditions6 []string // matches of iptables that a packet must fulfil too
}

// mapping is one port of the host that leads to the pod.
type mapping struct {
	protocol      string // tcp, udp, sctp
	hostPort      int
	containerPort int
	hostIP        netip.Addr // zero is every address of the host
	v4, v6        bool       // families that the mapping is for
}

// serves reports whether the mapping is for a family.
func (m mapping) serves(f netstate.Family) bool {
	if f.V6 {
		return m.v6
	}
	return m.v4
}

// conflicts reports whether two mappings want the same port of the same address.
func (m mapping) conflicts(o mapping) bool {
	return m.protocol == o.protocol && m.hostPort == o.hostPort && m.hostIP == o.hostIP &&
		(m.v4 && o.v4 || m.v6 && o.v6)
}

// defaultMarkBit is that of the reference plugin. Kubernetes uses 14 and 15.
const defaultMarkBit = 13

// netConf is the configuration as it is written.
type netConf struct {
	Backend     string `json:"backend" schema:"enum=nftables|iptables" doc:"what maps; without it what the kernel has"`
	SNAT        *bool  `json:"snat" schema:"default=true" doc:"the pod itself, its subnet and the host's 127.0.0.1 reach the ports too"`
	MasqAll     bool   `json:"masqAll" schema:"default=false" doc:"whoever comes through a port comes from the host's address"`
	MarkMasqBit *int   `json:"markMasqBit" schema:"default=13,min=0,max=31" doc:"bit of the mark that tells what is to be masqueraded"`

	ExternalSetMarkChain *string  `json:"externalSetMarkChain" doc:"a chain of iptables that marks instead; not with markMasqBit"`
	ConditionsV4         []string `json:"conditionsV4" doc:"matches of iptables that an IPv4 packet must fulfil too"`
	ConditionsV6         []string `json:"conditionsV6" doc:"matches of ip6tables that an IPv6 packet must fulfil too"`
}

func parse(req *plugin.Request) (Config, error) {
	var conf netConf
	if err := planned.DecodeConfig(req.Conf, &conf); err != nil {
		return Config{}, err
	}
	c := Config{snat: conf.SNAT == nil || *conf.SNAT, masqAll: conf.MasqAll, markBit: defaultMarkBit,
		conditions4: conf.ConditionsV4, conditions6: conf.ConditionsV6}
	if err := c.parseMark(conf); err != nil {
		return Config{}, err
	}
	var err error
	if c.backend, err = backend.Parse("backend", conf.Backend); err != nil {
		return Config{}, err
	}
	if err := c.checkOptions(req, conf); err != nil {
		return Config{}, err
	}
	var list []cni.PortMapping
	if c.asked, err = req.Conf.RuntimeConfig("portMappings", &list); err != nil {
		return Config{}, err
	}
	c.mappings, err = parseMappings(list)
	return c, err
}

// parseMark reads who marks what is to be masqueraded, and how.
func (c *Config) parseMark(conf netConf) error {
	bit, chain := conf.MarkMasqBit, conf.ExternalSetMarkChain
	switch {
	case bit != nil && chain != nil:
		return invalid("markMasqBit and externalSetMarkChain exclude each other")
	case bit != nil && (*bit < 0 || *bit > 31):
		return invalid("markMasqBit %d is not from 0 to 31", *bit)
	case bit != nil:
		c.markBit = uint32(*bit)
	case chain != nil && !backend.IsChainName(*chain):
		return invalid("externalSetMarkChain %q is no name of a chain", *chain)
	case chain != nil:
		c.markChain = *chain
	}
	return nil
}

// checkOptions lets the options that only iptables knows choose it.
func (c *Config) checkOptions(req *plugin.Request, conf netConf) error {
	for _, o := range []struct {
		key        string
		set        bool
		conditions []string
	}{
		{"externalSetMarkChain", conf.ExternalSetMarkChain != nil, nil},
		{"conditionsV4", len(conf.ConditionsV4) > 0, conf.ConditionsV4},
		{"conditionsV6", len(conf.ConditionsV6) > 0, conf.ConditionsV6},
	} {
		if !o.set {
			continue
		}
		if c.backend == backend.NFTables {
			return invalid("%s is an option of the iptables backend, and backend is %q", o.key, c.backend).
				WithHint("remove %s, or backend", o.key)
		}
		c.backend = backend.Iptables
		if len(o.conditions) > 0 && !strings.HasPrefix(o.conditions[0], "-") && !strings.HasPrefix(o.conditions[0], "!") {
			// The specification wants key and value in the message of this code.
			raw, _ := req.Conf.Raw.Get(o.key)
			value, err := json.Marshal(raw) // on one line
			if err != nil {
				return err
			}
			return cni.Errorf(cni.CodeUnsupportedField, "%s %s is not supported: it is in the syntax of nftables", o.key, value).
				WithHint("write it as matches of iptables, which begin with - or !")
		}
		if i := slices.IndexFunc(o.conditions, func(word string) bool { return strings.ContainsFunc(word, unicode.IsControl) }); i >= 0 {
			return invalid("%s[%d]: %q has a control character", o.key, i, o.conditions[i])
		}
	}
	return nil
}

func parseMappings(list []cni.PortMapping) ([]mapping, error) {
	var all []mapping
	for i, in := range list {
		m, err := parseMapping(in)
		if err != nil {
			return nil, invalid("portMappings[%d]: %w", i, err)
		}
		if j := slices.IndexFunc(all, m.conflicts); j >= 0 {
			return nil, invalid("portMappings[%d]: host port %d/%s is mapped by portMappings[%d] already", i, m.hostPort, m.protocol, j)
		}
		all = append(all, m)
	}
	return all, nil
}

func parseMapping(in cni.PortMapping) (mapping, error) {
	m := mapping{protocol: strings.ToLower(in.Protocol), hostPort: in.HostPort, containerPort: in.ContainerPort}
	switch m.protocol {
	case "":
		m.protocol = "tcp"
	case "tcp", "udp", "sctp":
	default:
		return mapping{}, fmt.Errorf("protocol %q is none of tcp, udp and sctp", in.Protocol)
	}
	for _, p := range []struct {
		key  string
		port int
	}{{"hostPort", m.hostPort}, {"containerPort", m.containerPort}} {
		if p.port < 1 || p.port > 65535 {
			return mapping{}, fmt.Errorf("%s %d is not from 1 to 65535", p.key, p.port)
		}
	}
	if in.HostIP == "" {
		m.v4, m.v6 = true, true
		return m, nil
	}
	ip, err := netip.ParseAddr(in.HostIP)
	switch {
	case err != nil:
		return mapping{}, fmt.Errorf("hostIP %q is no IP address", in.HostIP)
	case ip.Zone() != "":
		return mapping{}, fmt.Errorf("hostIP %q has a zone, which an nft map can't hold", in.HostIP)
	}
	ip = ip.Unmap()
	if ip.IsMulticast() || ip == netip.IPv6Loopback() {
		return mapping{}, fmt.Errorf("hostIP %s can't lead to a pod", ip)
	}
	m.v4, m.v6 = ip.Is4(), ip.Is6()
	if !ip.IsUnspecified() {
		m.hostIP = ip
	}
	return m, nil
}

func invalid(format string, args ...any) *cni.Error {
	return cni.Errorf(cni.CodeInvalidConfig, format, args...)
}

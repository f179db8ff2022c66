package firewall

import (
	"cmp"
	"slices"
	"strings"
	"unicode"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/backend"
	"github.com/cleat-cni/cleat/planned"
	"github.com/cleat-cni/cleat/plugin"
)

// Config is the parsed configuration.
type Config struct {
	backend    backend.Backend
	adminChain string // iptables: the administrator's chain, which comes before ours
	policy     policy
	zones      zoneUse
	zone       string // of firewalld
}

// zoneUse says whether the pod's addresses are put into a zone of firewalld.
type zoneUse int

const (
	neverZone    zoneUse = iota
	zoneIfThere          // if firewalld answers
	alwaysInZone         // it has to answer
)

// policy says which pods may open connections to the pod.
type policy string

const (
	open       policy = "open"        // all
	sameBridge policy = "same-bridge" // those of its bridge
	isolated   policy = "isolated"    // none
)

// Those of the reference plugin.
const (
	defaultAdminChain = "CNI-ADMIN"
	defaultZone       = "trusted"
)

// netConf is the configuration as it is written.
type netConf struct {
	Backend    string `json:"backend" schema:"enum=nftables|iptables|firewalld" doc:"what filters; without it what the machine has"`
	AdminChain string `json:"iptablesAdminChainName" schema:"default=CNI-ADMIN" doc:"a chain of iptables that comes first"`
	Zone       string `json:"firewalldZone" schema:"default=trusted" doc:"the zone of firewalld that the pod's addresses are put into"`
	Policy     string `json:"ingressPolicy" schema:"default=open,enum=open|same-bridge|isolated" doc:"which pods may connect to it"`
}

func parse(req *plugin.Request) (Config, error) {
	var conf netConf
	if err := planned.DecodeConfig(req.Conf, &conf); err != nil {
		return Config{}, err
	}
	c := Config{adminChain: defaultAdminChain, policy: open}
	if err := c.setBackend(conf); err != nil {
		return Config{}, err
	}
	if conf.Policy != "" {
		c.policy = policy(conf.Policy)
	}
	if !slices.Contains([]policy{open, sameBridge, isolated}, c.policy) {
		return Config{}, invalid("ingressPolicy %q is none of %s, %s and %s", conf.Policy, open, sameBridge, isolated)
	}
	return c, c.setAdminChain(conf.AdminChain)
}

// setBackend reads what filters. firewalld comes on top of what filters without it, and is used without being asked for.
func (c *Config) setBackend(conf netConf) error {
	const firewalld = "firewalld"
	switch conf.Backend {
	case "":
		c.zones = zoneIfThere
	case firewalld:
		c.zones, conf.Backend = alwaysInZone, ""
	}
	var err error
	if c.backend, err = backend.Parse("backend", conf.Backend); err != nil {
		return invalid("backend %q is unknown", conf.Backend).
			WithHint("it is %q, %q or %q; without it what the machine has is used", backend.NFTables, backend.Iptables, firewalld)
	}
	c.zone = cmp.Or(conf.Zone, defaultZone)
	switch {
	case conf.Zone != "" && c.zones == neverZone:
		return invalid("firewalldZone is an option of firewalld, and backend is %q", conf.Backend).WithHint("remove it, or backend")
	case strings.ContainsFunc(conf.Zone, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) }):
		return invalid("firewalldZone %q can't be the name of a zone", conf.Zone)
	}
	return nil
}

// setAdminChain lets the option, which only iptables knows, choose it.
func (c *Config) setAdminChain(name string) error {
	taken := slices.Contains([]string{"INPUT", "FORWARD", "OUTPUT"}, name) || strings.HasPrefix(name, "CLEAT-")
	switch {
	case name == "":
		return nil
	case c.backend == backend.NFTables:
		return invalid("iptablesAdminChainName is an option of the iptables backend, and backend is %q", c.backend).
			WithHint("remove it, or backend; with nftables the chain is admin of the table inet cleat")
	case !backend.IsChainName(name) || taken:
		return invalid("iptablesAdminChainName %q can't be the name of an administrator's chain", name)
	}
	c.backend, c.adminChain = backend.Iptables, name
	return nil
}

func invalid(format string, args ...any) *cni.Error {
	return cni.Errorf(cni.CodeInvalidConfig, format, args...)
}

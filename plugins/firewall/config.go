package firewall

import (
	"slices"
	"strings"

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
}

// policy says which pods may open connections to the pod.
type policy string

const (
	open       policy = "open"        // all
	sameBridge policy = "same-bridge" // those of its bridge
	isolated   policy = "isolated"    // none
)

// defaultAdminChain is that of the reference plugin.
const defaultAdminChain = "CNI-ADMIN"

// netConf is the configuration as it is written.
type netConf struct {
	Backend    string `json:"backend"`
	AdminChain string `json:"iptablesAdminChainName"`
	Policy     string `json:"ingressPolicy"`
}

func parse(req *plugin.Request) (Config, error) {
	var conf netConf
	if err := planned.DecodeConfig(req.Conf, &conf); err != nil {
		return Config{}, err
	}
	c := Config{adminChain: defaultAdminChain, policy: open}
	var err error
	if conf.Backend == "firewalld" {
		return Config{}, cni.Errorf(cni.CodeUnsupportedField, "backend %q is not supported", conf.Backend).
			WithHint("leave backend out, and put the pods' subnets into a zone of firewalld: firewall-cmd --zone=trusted --add-source=10.88.0.0/16")
	}
	if c.backend, err = backend.Parse("backend", conf.Backend); err != nil {
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

package kerneltest

import (
	"errors"
	"slices"
	"strings"

	"github.com/cleat-cni/cleat/netstate"
)

const (
	defaultMTU = 1500
	minMTU6    = 1280
)

// check refuses what no kernel takes, and what Memory does not know, before anything is
// made.
func check(s netstate.State) error {
	return errors.Join(
		s.Check(),
		netstate.CheckEach(s.Sysctls, checkSysctl),
		netstate.CheckEach(s.Tables, checkTable),
		netstate.CheckEach(s.Elements, func(e netstate.Element) error { return checkElement(s.Tables, e) }),
		netstate.CheckEach(s.IptablesChains, func(c netstate.IptablesChain) error { return checkIptablesChain(s, c) }),
		netstate.CheckEach(s.IptablesRules, func(r netstate.IptablesRule) error { return checkIptablesRule(s, r) }),
	)
}

// checkSysctl knows the folders below /proc/sys that belong to a network namespace.
func checkSysctl(s netstate.Sysctl) error {
	parts := strings.Split(s.Name, "/")
	if len(parts) < 3 || !slices.Contains([]string{"core", "ipv4", "ipv6", "netfilter", "bridge"}, parts[1]) {
		return errors.New("unknown folder")
	}
	return nil
}

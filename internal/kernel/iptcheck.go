package kernel

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/cleat-cni/cleat/netstate"
)

// maxIptChain is the longest name of a chain: XT_EXTENSION_MAXNAMELEN without its zero byte.
const maxIptChain = 28

// iptBuiltin are the tables of iptables with the chains that each has by itself.
func iptBuiltin(table string) []string {
	switch table {
	case "raw":
		return []string{"PREROUTING", "OUTPUT"}
	case "mangle":
		return []string{"PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"}
	case iptNAT:
		return []string{"PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"}
	case "filter":
		return []string{"INPUT", "FORWARD", "OUTPUT"}
	}
	return nil
}

// checkIptables refuses chains and rules that no iptables takes, and those that could not be found again.
func checkIptables(s netstate.State) error {
	return errors.Join(
		netstate.CheckEach(s.IptablesChains, func(c netstate.IptablesChain) error {
			return errors.Join(checkIptPlace(c.Family, c.Table, c.Name), checkIptOwned(s, c))
		}),
		netstate.CheckEach(s.IptablesRules, func(r netstate.IptablesRule) error {
			return errors.Join(checkIptPlace(r.Family, r.Table, r.Chain), checkIptRule(s, r))
		}),
	)
}

func checkIptPlace(family, table, chain string) error {
	var errs []error
	if family != "ip" && family != "ip6" {
		errs = append(errs, fmt.Errorf("unknown family %q", family))
	}
	if iptBuiltin(table) == nil {
		errs = append(errs, fmt.Errorf("unknown table %q", table))
	}
	bad := func(r rune) bool {
		return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_.", r)
	}
	if chain == "" || chain[0] == '-' || len(chain) > maxIptChain || strings.ContainsFunc(chain, bad) {
		errs = append(errs, fmt.Errorf("%q is no name of a chain", chain))
	}
	return errors.Join(errs...)
}

// checkIptOwned wants a chain of an owner to be known by its rules.
func checkIptOwned(s netstate.State, c netstate.IptablesChain) error {
	inside := func(r netstate.IptablesRule) bool {
		return r.Family == c.Family && r.Table == c.Table && r.Chain == c.Name
	}
	switch {
	case slices.Contains(iptBuiltin(c.Table), c.Name):
		return errors.New("every table has the chain by itself")
	case c.Foreign && (!c.Owner.IsZero() || slices.ContainsFunc(s.IptablesRules, inside)):
		return errors.New("the chain is somebody else's")
	case c.Owner.IsZero():
		return nil
	case !slices.ContainsFunc(s.IptablesRules, inside):
		return errors.New("the chain has an owner and no rule to tell who it is")
	case slices.ContainsFunc(s.IptablesRules, func(r netstate.IptablesRule) bool { return inside(r) && r.Owner != c.Owner }):
		return errors.New("the chain and a rule in it have different owners")
	}
	return nil
}

func checkIptRule(s netstate.State, r netstate.IptablesRule) error {
	declared := slices.ContainsFunc(s.IptablesChains, func(c netstate.IptablesChain) bool {
		return c.Family == r.Family && c.Table == r.Table && c.Name == r.Chain
	})
	if !declared && !slices.Contains(iptBuiltin(r.Table), r.Chain) {
		return errors.New("the chain is not declared")
	}
	if strings.ContainsFunc(r.Rule, unicode.IsControl) {
		return errors.New("the rule has a control character")
	}
	words, err := iptWords(r.Rule)
	if err != nil {
		return err
	}
	if len(words) == 0 {
		return errors.New("the rule is empty")
	}
	if kind, name, _ := strings.Cut(r.Lives, " "); r.Lives != "" && (name == "" || kind != "link" && kind != "netns") {
		return fmt.Errorf("unknown proof of life %q", r.Lives)
	}
	return nil
}

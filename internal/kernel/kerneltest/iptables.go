package kerneltest

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/cleat-cni/cleat/netstate"
)

// checkIptablesChain and checkIptablesRule know the tables and the chains that each has by itself.
func checkIptablesChain(s netstate.State, c netstate.IptablesChain) error {
	errs := []error{checkIptablesPlace(c.Family, c.Table, c.Name)}
	rules := 0
	for _, r := range s.IptablesRules {
		if !inChain(r, c) {
			continue
		}
		rules++
		if c.Foreign || !c.Owner.IsZero() && r.Owner != c.Owner {
			errs = append(errs, errors.New("the chain is another's than its rules"))
		}
	}
	if rules == 0 && !c.Owner.IsZero() {
		errs = append(errs, errors.New("a chain with an owner and without rules"))
	}
	if slices.Contains(builtinChains[c.Table], c.Name) || c.Foreign && !c.Owner.IsZero() {
		errs = append(errs, errors.New("the chain is nobody's to make"))
	}
	return errors.Join(errs...)
}

func checkIptablesRule(s netstate.State, r netstate.IptablesRule) error {
	errs := []error{checkIptablesPlace(r.Family, r.Table, r.Chain)}
	declared := slices.ContainsFunc(s.IptablesChains, func(c netstate.IptablesChain) bool { return inChain(r, c) })
	if !declared && !slices.Contains(builtinChains[r.Table], r.Chain) {
		errs = append(errs, errors.New("the chain is not declared"))
	}
	if r.Rule == "" || strings.ContainsAny(r.Rule, "\n\t") {
		errs = append(errs, errors.New("no rule"))
	}
	return errors.Join(errs...)
}

var (
	chainName     = regexp.MustCompile(`^[A-Za-z0-9_.][A-Za-z0-9_.-]{0,27}$`)
	builtinChains = map[string][]string{
		"raw":    {"PREROUTING", "OUTPUT"},
		"mangle": {"PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"},
		"nat":    {"PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"},
		"filter": {"INPUT", "FORWARD", "OUTPUT"},
	}
)

func checkIptablesPlace(family, table, chain string) error {
	if family != "ip" && family != "ip6" || builtinChains[table] == nil || !chainName.MatchString(chain) {
		return fmt.Errorf("no such place: %s %s %s", family, table, chain)
	}
	return nil
}

func inChain(r netstate.IptablesRule, c netstate.IptablesChain) bool {
	return r.Family == c.Family && r.Table == c.Table && r.Chain == c.Name
}

// sameChain and sameIptablesRule compare what identifies the objects.
func sameChain(a, b netstate.IptablesChain) bool {
	return a.Family == b.Family && a.Table == b.Table && a.Name == b.Name
}

func sameIptablesRule(a, b netstate.IptablesRule) bool {
	a.First, a.Lives, b.First, b.Lives = false, "", false, ""
	return a == b
}

// makeIptablesChain makes a chain. One of a dead owner is emptied and given to the new one.
func (x *transaction) makeIptablesChain(want netstate.State, c netstate.IptablesChain) error {
	host := x.w[hostID]
	if host.besides(c, x.lives) {
		return nil
	}
	i := slices.IndexFunc(host.iptChains, func(o netstate.IptablesChain) bool { return sameChain(o, c) })
	switch {
	case i < 0 && c.Foreign:
		return netstate.ErrNotExist
	case i < 0:
		host.iptChains = append(host.iptChains, c)
		return nil
	case c.Owner.IsZero():
		return nil
	}
	mine := host.iptChains[i].Owner == c.Owner
	stale := func(r netstate.IptablesRule) bool {
		wanted := slices.ContainsFunc(want.IptablesRules, func(o netstate.IptablesRule) bool { return sameIptablesRule(o, r) })
		return (inChain(r, c) || r.LeadsTo(c)) && !wanted
	}
	for _, r := range host.iptRules {
		if !mine && inChain(r, c) && x.lives(netstate.Element{Lives: r.Lives}) {
			return fmt.Errorf("%w: %s", netstate.ErrInUse, r.Owner)
		}
	}
	host.iptChains[i].Owner = c.Owner
	host.iptRules = slices.DeleteFunc(host.iptRules, stale)
	return nil
}

func (x *transaction) makeIptablesRule(want netstate.State, r netstate.IptablesRule) error {
	host := x.w[hostID]
	if host.ruleBesides(want, r, x.lives) {
		return nil
	}
	if slices.ContainsFunc(host.iptRules, func(o netstate.IptablesRule) bool { return sameIptablesRule(o, r) }) {
		return nil
	}
	if r.First {
		host.iptRules = slices.Insert(host.iptRules, 0, r)
		return nil
	}
	host.iptRules = append(host.iptRules, r)
	return nil
}

// replayIptables makes the shared chains and rules of a state whose iptables half was made before: a
// family is one transaction.
func (x *transaction) replayIptables(want netstate.State, made map[string]bool) {
	for _, family := range []string{"ip", "ip6"} {
		all := true
		for _, c := range want.IptablesChains {
			all = all && (c.Family != family || made[c.Key()])
		}
		for _, r := range want.IptablesRules {
			all = all && (r.Family != family || made[r.Key()])
		}
		if !all {
			continue
		}
		for _, c := range want.IptablesChains {
			if c.Family == family && c.Owner.IsZero() {
				_ = x.makeIptablesChain(want, c)
			}
		}
		for _, r := range want.IptablesRules {
			if r.Family == family && r.Owner.IsZero() {
				_ = x.makeIptablesRule(want, r)
			}
		}
	}
}

// iptablesOf are the rules of the owner, and then its chains, in the tables that a state names.
func (x *transaction) iptablesOf(want netstate.State) []removal {
	named := map[[2]string]bool{}
	for _, c := range want.IptablesChains {
		named[[2]string{c.Family, c.Table}] = true
	}
	for _, r := range want.IptablesRules {
		named[[2]string{r.Family, r.Table}] = true
	}
	var all []removal
	host := x.w[hostID]
	for _, r := range host.iptRules {
		if r.Owner == want.Owner && named[[2]string{r.Family, r.Table}] {
			all = append(all, iptablesRule(r))
		}
	}
	for _, c := range host.iptChains {
		if c.Owner == want.Owner && named[[2]string{c.Family, c.Table}] {
			all = append(all, iptablesChain(c))
		}
	}
	return all
}

func iptablesRule(r netstate.IptablesRule) removal {
	return removal{r, netstate.Host, func(s *space) {
		s.iptRules = slices.DeleteFunc(s.iptRules, func(o netstate.IptablesRule) bool { return sameIptablesRule(o, r) })
	}}
}

func iptablesChain(c netstate.IptablesChain) removal {
	return removal{c, netstate.Host, func(s *space) {
		s.iptChains = slices.DeleteFunc(s.iptChains, func(o netstate.IptablesChain) bool { return sameChain(o, c) })
	}}
}

// besides reports whether another interface of the owner's container has a chain that is wanted.
func (s *space) besides(c netstate.IptablesChain, lives func(netstate.Element) bool) bool {
	return slices.ContainsFunc(s.iptRules, func(r netstate.IptablesRule) bool {
		return inChain(r, c) && r.Owner.Beside(c.Owner) && lives(netstate.Element{Lives: r.Lives})
	})
}

// ruleBesides reports whether a rule of the state stands in such a chain, or leads into one.
func (s *space) ruleBesides(want netstate.State, r netstate.IptablesRule, lives func(netstate.Element) bool) bool {
	return slices.ContainsFunc(want.IptablesChains, func(c netstate.IptablesChain) bool {
		return (inChain(r, c) || r.LeadsTo(c)) && s.besides(c, lives)
	})
}

func always(netstate.Element) bool { return true }

// chainText and ruleText are the lines of what is there.
func (s *space) chainText(want netstate.IptablesChain) string {
	if s.besides(want, always) {
		return want.String()
	}
	have, ok := first(s.iptChains, func(o netstate.IptablesChain) bool { return sameChain(o, want) })
	if !ok {
		return ""
	}
	want.Owner = have.Owner
	return want.String()
}

func (s *space) ruleText(in netstate.State, want netstate.IptablesRule) string {
	if s.ruleBesides(in, want, always) {
		return want.String()
	}
	if slices.ContainsFunc(s.iptRules, func(o netstate.IptablesRule) bool { return sameIptablesRule(o, want) }) {
		return want.String()
	}
	return ""
}

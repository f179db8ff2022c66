package firewall

import (
	"net/netip"

	"github.com/cleat-cni/cleat/netstate"
)

// The chains that all pods share, in iptables' table filter.
const (
	forwardChain = "CLEAT-FORWARD"        // leads to the administrator's chain and to ours, in order
	closedChain  = "CLEAT-ISOLATION"      // drops by the policies
	fromChain    = "CLEAT-ISOLATION-FROM" // marks what comes from a pod
	toChain      = "CLEAT-ISOLATION-TO"   // drops what is marked and goes to a pod that is closed
	podsChain    = "CLEAT-PODS"           // accepts what is left
)

// ruleBuilder collects what an attachment needs of one family.
type ruleBuilder struct {
	state  *netstate.State
	family string
	lives  string
}

// byRules lets the pod through, and closes it to other pods by the policy, in iptables' table filter of the families in use.
func byRules(s *netstate.State, c Config, p pod) {
	if len(p.addrs) == 0 {
		s.IptablesChains = netstate.IptablesPlaces("filter", podsChain)
		return
	}
	for _, f := range both() {
		if !p.has(f) {
			continue
		}
		b := ruleBuilder{state: s, family: f.Word, lives: p.lives}
		b.share(c)
		if c.policy != open {
			for _, dev := range p.behind {
				b.own(fromChain, false, "-i "+dev+" -j MARK --set-xmark "+maskedMark(podMark))
			}
		}
		for _, a := range p.addrs {
			if a.Is6() == f.V6 {
				b.pod(c, p, a)
			}
		}
	}
}

// share makes the chains. Every attachment makes all of them, so that their order does not depend on who came first.
func (b ruleBuilder) share(c Config) {
	for _, name := range []string{forwardChain, c.adminChain, closedChain, fromChain, toChain, podsChain} {
		b.state.IptablesChains = append(b.state.IptablesChains, netstate.IptablesChain{Family: b.family, Table: "filter", Name: name})
	}
	rule := func(chain, text string, first bool) {
		b.state.IptablesRules = append(b.state.IptablesRules,
			netstate.IptablesRule{Family: b.family, Table: "filter", Chain: chain, Rule: text, First: first})
	}
	rule(closedChain, "-m conntrack --ctstate RELATED,ESTABLISHED -j RETURN", true)
	rule(closedChain, "-j "+fromChain, false)
	rule(closedChain, "-j "+toChain, false)
	// Each goes to the head, so the administrator's chain, which is the last, comes first.
	rule(forwardChain, "-j "+podsChain, true)
	rule(forwardChain, "-j "+closedChain, true)
	rule(forwardChain, "-j "+c.adminChain, true)
	rule("FORWARD", "-j "+forwardChain, true)
}

// own adds a rule of the attachment.
func (b ruleBuilder) own(chain string, first bool, text string) {
	b.state.IptablesRules = append(b.state.IptablesRules, netstate.IptablesRule{Family: b.family, Table: "filter", Chain: chain,
		Rule: text, First: first, Owner: b.state.Owner, Lives: b.lives})
}

// pod adds the rules of an address.
func (b ruleBuilder) pod(c Config, p pod, a netip.Addr) {
	addr := netip.PrefixFrom(a, a.BitLen()).String()
	mark := maskedMark(podMark)
	b.own(fromChain, false, "-s "+addr+" -j MARK --set-xmark "+mark)
	for _, dev := range p.behind {
		switch c.policy {
		case sameBridge:
			b.own(toChain, true, "-d "+addr+" -i "+dev+" -j RETURN")
		case isolated: // a pod that calls itself by a port of the host
			b.own(toChain, true, "-s "+addr+" -d "+addr+" -i "+dev+" -j RETURN")
		}
	}
	if c.policy != open {
		b.own(toChain, false, "-d "+addr+" -m mark --mark "+mark+" -j DROP")
	}
	b.own(podsChain, false, "-d "+addr+" -m conntrack --ctstate RELATED,ESTABLISHED,DNAT -j ACCEPT")
	b.own(podsChain, false, "-s "+addr+" -j ACCEPT")
}

package masq

import (
	"fmt"
	"net/netip"

	"github.com/cleat-cni/cleat/netstate"
)

// chainName is the chain of all pods. It lies in table nat of each family.
const chainName = "CLEAT-MASQ"

// addRules is Add by iptables.
func addRules(s *netstate.State, addrs []netip.Prefix, lives string) {
	seen := map[bool]bool{}
	for _, p := range addrs {
		f := netstate.FamilyOf(p.Addr())
		rule := netstate.IptablesRule{Family: f.Word, Table: "nat", Chain: chainName}
		if !seen[f.V6] {
			seen[f.V6] = true
			s.IptablesChains = append(s.IptablesChains, netstate.IptablesChain{Family: f.Word, Table: "nat", Name: chainName})
			enter, spare := rule, rule
			enter.Chain, enter.Rule = "POSTROUTING", "-j "+chainName
			spare.Rule, spare.First = "-d "+multicast(f)+" -j RETURN", true
			s.IptablesRules = append(s.IptablesRules, enter, spare)
		}
		rule.Rule = fmt.Sprintf("-s %s ! -d %s -j MASQUERADE", netip.PrefixFrom(p.Addr(), p.Addr().BitLen()), p.Masked())
		rule.Owner, rule.Lives = s.Owner, lives
		s.IptablesRules = append(s.IptablesRules, rule)
	}
}

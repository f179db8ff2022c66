// Package masq says how the addresses of pods hide behind the host's when they talk to the world
// outside their network, for every plugin with an ipMasq option: by nft objects in Cleat's own table, or by
// chains and rules of iptables.
//
// In nft a pod is an element of two hash sets and never a rule, so that neither a packet nor an ADD costs more with
// more pods. Rules exist once for each prefix length in use: they mask the destination to that length, and
// what then is the pod's own subnet leaves unchanged, as does multicast. In iptables a pod is one rule an address, in
// one chain that all pods share.
package masq

import (
	"fmt"
	"net/netip"

	"github.com/cleat-cni/cleat/netstate"
)

// Place says where the rest of an attachment may be whose addresses are not known any more.
func Place(s *netstate.State, iptables bool) {
	if iptables {
		s.IptablesChains = append(s.IptablesChains, netstate.IptablesPlaces("nat", chainName)...)
		return
	}
	s.Tables = append(s.Tables, table())
}

func table() netstate.Table {
	return netstate.Table{Family: "inet", Name: netstate.TableName}
}

// Add makes the pod with these addresses, each with its subnet's length, leave its subnets under the
// host's address. The elements belong to the state's owner; lives says what proves that it is alive
// ([netstate.Element]).
func Add(s *netstate.State, iptables bool, addrs []netip.Prefix, lives string) {
	if iptables {
		addRules(s, addrs, lives)
		return
	}
	t := table()
	seen := map[string]bool{}
	for _, p := range addrs {
		f := netstate.FamilyOf(p.Addr())
		id := fmt.Sprintf("%s_%d", f.Digit, p.Bits())
		if !seen[id] {
			seen[id] = true
			t.Sets = append(t.Sets, sets(f, id)...)
			t.Chains = append(t.Chains, chain(f, id, p))
		}
		element := func(set string, match ...string) netstate.Element {
			return netstate.Element{Family: t.Family, Table: t.Name, Set: set, Match: match, Owner: s.Owner, Lives: lives}
		}
		addr := p.Addr().String()
		s.Elements = append(s.Elements,
			element("masq"+id, addr),
			element("masq_local"+id, addr, p.Masked().Addr().String()))
	}
	s.Tables = append(s.Tables, t)
}

func sets(f netstate.Family, id string) []netstate.Set {
	return []netstate.Set{
		{Name: "masq" + id, Key: []string{f.Type}},
		{Name: "masq_local" + id, Key: []string{f.Type, f.Type}},
	}
}

// chain has all that one prefix length needs, so that what another attachment brings can stand beside it in any
// order. Only a connection's first packet gets here.
func chain(f netstate.Family, id string, p netip.Prefix) netstate.Chain {
	return netstate.Chain{
		Name: "masq" + id, Type: "nat", Hook: "postrouting", Priority: 100,
		Rules: []string{
			fmt.Sprintf("%s daddr %s return", f.Word, multicast(f)),
			fmt.Sprintf("%s saddr . %s daddr & %s @masq_local%s return", f.Word, f.Word, netstate.Netmask(p), id),
			fmt.Sprintf("%s saddr @masq%s masquerade", f.Word, id),
		},
	}
}

func multicast(f netstate.Family) string {
	if f.V6 {
		return "ff00::/8"
	}
	return "224.0.0.0/4"
}

// Package spoof says how frames are dropped that a pod sends from another MAC than its own, for the plugin that makes the pod's
// interface and asks for it, and for those that give the interface another MAC later.
//
// A pod is two elements of sets in the table bridge cleat: its port, and the port with the MAC. Each MAC that a plugin of the list gives the
// interface is the pod's own: the first stays allowed beside a later one.
package spoof

import "github.com/cleat-cni/cleat/netstate"

const (
	ports = "macspoof_ports"
	macs  = "macspoof_macs"
)

func table() netstate.Table {
	return netstate.Table{
		Family: "bridge", Name: netstate.TableName,
		Sets: []netstate.Set{
			{Name: ports, Key: []string{"ifname"}},
			{Name: macs, Key: []string{"ifname", "ether_addr"}},
		},
		Chains: []netstate.Chain{{
			Name: "macspoof", Type: "filter", Hook: "prerouting", Priority: -300,
			Rules: []string{
				"iifname . ether saddr @" + macs + " return",
				"iifname @" + ports + " drop",
			},
		}},
	}
}

func element(o netstate.Owner, set string, match ...string) netstate.Element {
	return netstate.Element{
		Family: "bridge", Table: netstate.TableName, Set: set, Match: match, Owner: o, Lives: "link " + match[0],
	}
}

// Check holds what comes in by the bridge's port to mac.
func Check(s *netstate.State, port, mac string) {
	s.Elements = append(s.Elements, element(s.Owner, ports, port))
	Allow(s, port, mac)
}

// Allow lets the port, which is checked, send from mac too.
func Allow(s *netstate.State, port, mac string) {
	s.Tables = append(s.Tables, table())
	s.Elements = append(s.Elements, element(s.Owner, macs, port, mac))
}

// Ask asks whether the owner's port is checked; [IsChecked] reads the answer.
func Ask(q *netstate.Query, o netstate.Owner, port string) {
	q.Tables = append(q.Tables, table())
	q.Elements = append(q.Elements, element(o, ports, port))
}

// IsChecked reports whether the owner's port is checked.
func IsChecked(seen netstate.Facts, o netstate.Owner, port string) bool {
	return seen.HasElement(element(o, ports, port))
}

package firewall

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/cleat-cni/cleat/netstate"
)

// Bits of a packet's mark. Others use 13 (portmap), 14 and 15 (Kubernetes), 8 to 11 (Cilium) and 16 to 23 (Tailscale).
const (
	acceptMark = "0x01000000" // bit 24: Cleat lets the packet be forwarded
	podMark    = "0x02000000" // bit 25: it comes out of a pod that has an ingressPolicy
)

// Priorities of nft hooks: before those of iptables, at 0, to which the mark must be known; and at a bridge after what drops
// forged frames, at -300.
const (
	prioMark   = -11
	prioFilter = -10
	prioOrigin = -290
	prioBridge = -200
)

// builder collects what an attachment needs of one table.
type builder struct {
	state *netstate.State
	table netstate.Table
	lives string
}

func newBuilder(s *netstate.State, family, lives string) *builder {
	return &builder{state: s, table: netstate.Table{Family: family, Name: netstate.TableName}, lives: lives}
}

func (b *builder) add(set string, match ...string) {
	b.state.Elements = append(b.state.Elements, netstate.Element{
		Family: b.table.Family, Table: b.table.Name, Set: set, Match: match, Owner: b.state.Owner, Lives: b.lives,
	})
}

func (b *builder) done() { b.state.Tables = append(b.state.Tables, b.table) }

// both are the families, since what the pods share is the same whatever addresses they have.
func both() []netstate.Family {
	return []netstate.Family{{Digit: "4", Word: "ip", Type: "ipv4_addr"}, {V6: true, Digit: "6", Word: "ip6", Type: "ipv6_addr"}}
}

// bySets lets the pod through, and closes it to other pods by the policy, in the table inet cleat.
func bySets(s *netstate.State, c Config, p pod) {
	b := newBuilder(s, "inet", p.lives)
	mark := netstate.Chain{Name: "firewall_mark", Type: "filter", Hook: "forward", Priority: prioMark}
	filter := netstate.Chain{Name: "firewall", Type: "filter", Hook: "forward", Priority: prioFilter, Rules: []string{"jump admin"}}
	for _, f := range both() {
		b.table.Sets = append(b.table.Sets, netstate.Set{Name: "fw" + f.Digit, Key: []string{f.Type}})
		mark.Rules = append(mark.Rules,
			fmt.Sprintf("ct state established,related %s daddr @fw%s meta mark set meta mark | %s", f.Word, f.Digit, acceptMark),
			fmt.Sprintf("ct status dnat %s daddr @fw%s meta mark set meta mark | %s", f.Word, f.Digit, acceptMark),
			fmt.Sprintf("%s saddr @fw%s meta mark set meta mark | %s", f.Word, f.Digit, acceptMark))
	}
	for _, a := range p.addrs {
		b.add("fw"+netstate.FamilyOf(a).Digit, a.String())
	}
	if c.policy != open {
		b.table.Sets = append(b.table.Sets, closedSets()...)
		mark.Rules = append(mark.Rules, "iifname @fw_ports meta mark set meta mark | "+podMark)
		filter.Rules = append(filter.Rules, closedRules()...)
		b.closePod(c, p)
	}
	b.table.Chains = []netstate.Chain{mark, {Name: "admin"}, filter}
	b.done()
}

// closedSets are those of pods that have an ingressPolicy.
func closedSets() []netstate.Set {
	sets := []netstate.Set{{Name: "fw_ports", Key: []string{"ifname"}}}
	for _, f := range both() {
		sets = append(sets,
			netstate.Set{Name: "fw_closed" + f.Digit, Key: []string{f.Type}},
			netstate.Set{Name: "fw_bridge" + f.Digit, Key: []string{"ifname", f.Type}},
			netstate.Set{Name: "fw_self" + f.Digit, Key: []string{"ifname", f.Type, f.Type}})
	}
	return sets
}

// closedRules drop what comes from another pod: one that is known by its address, or by its port, which it can't forge.
func closedRules() []string {
	rules := []string{"ct state established,related return"}
	for _, f := range both() {
		rules = append(rules,
			fmt.Sprintf("iifname . %s daddr @fw_bridge%s return", f.Word, f.Digit),
			fmt.Sprintf("iifname . %s saddr . %s daddr @fw_self%s return", f.Word, f.Word, f.Digit),
			fmt.Sprintf("%s saddr @fw%s %s daddr @fw_closed%s drop", f.Word, f.Digit, f.Word, f.Digit),
			fmt.Sprintf("meta mark & %s == %s %s daddr @fw_closed%s drop", podMark, podMark, f.Word, f.Digit))
	}
	return rules
}

func (b *builder) closePod(c Config, p pod) {
	for _, a := range p.addrs {
		f := netstate.FamilyOf(a)
		b.add("fw_closed"+f.Digit, a.String())
		for _, dev := range p.behind {
			if c.policy == sameBridge {
				b.add("fw_bridge"+f.Digit, dev, a.String())
			} else { // a pod that calls itself by a port of the host
				b.add("fw_self"+f.Digit, dev, a.String(), a.String())
			}
		}
	}
	if len(p.ports) == 0 { // no bridge: what it sends comes by its own interface
		for _, dev := range p.behind {
			b.add("fw_ports", dev)
		}
	}
}

// atBridge marks what comes out of the pod, in the table bridge cleat, and closes an isolated pod's port to the bridge's other
// ports. Addresses can still be resolved.
func atBridge(s *netstate.State, c Config, p pod) {
	b := newBuilder(s, "bridge", p.lives)
	b.table.Sets = []netstate.Set{
		{Name: "fw_ports", Key: []string{"ifname"}},
		{Name: "fw_isolated", Key: []string{"ifname"}},
		{Name: "fw_self", Key: []string{"ifname", "ifname"}},
	}
	b.table.Chains = []netstate.Chain{
		{Name: "fw_origin", Type: "filter", Hook: "prerouting", Priority: prioOrigin, Rules: []string{
			"iifname @fw_ports meta mark set meta mark | " + podMark,
		}},
		{Name: "fw_isolated", Type: "filter", Hook: "forward", Priority: prioBridge, Rules: []string{
			"icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } return",
			"iifname . oifname @fw_self return",
			"oifname @fw_isolated meta protocol != arp drop",
		}},
	}
	for _, dev := range p.ports {
		b.add("fw_ports", dev)
		if c.policy == isolated {
			b.add("fw_isolated", dev)
			b.add("fw_self", dev, dev)
		}
	}
	b.done()
}

// acceptMarked has iptables accept what is marked, in the families of the pod of which it has a chain that may drop.
func acceptMarked(s *netstate.State, p pod, seen netstate.Facts) {
	for _, f := range both() {
		if !p.has(f) || !slices.Contains(seen.Forward, f.Word) {
			continue
		}
		s.IptablesRules = append(s.IptablesRules, netstate.IptablesRule{Family: f.Word, Table: "filter", Chain: "FORWARD",
			Rule: "-m mark --mark " + maskedMark(acceptMark) + " -j ACCEPT", First: true})
	}
}

// has reports whether the pod has an address of a family.
func (p pod) has(f netstate.Family) bool {
	return slices.ContainsFunc(p.addrs, func(a netip.Addr) bool { return a.Is6() == f.V6 })
}

// maskedMark is value and mask of a mark, as iptables writes them.
func maskedMark(bit string) string {
	bit = "0x" + strings.TrimLeft(strings.TrimPrefix(bit, "0x"), "0")
	return bit + "/" + bit
}

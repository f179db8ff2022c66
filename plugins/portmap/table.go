package portmap

import (
	"fmt"
	"net/netip"
	"strconv"

	"github.com/cleat-cni/cleat/netstate"
)

// Priorities of nft hooks. Marking comes just before the destination is translated, since after it
// nobody knows any more that the packet came for a port of the host.
const (
	prioRaw  = -300
	prioMark = -101
	prioDNAT = -100
	prioSNAT = 100
)

func emptyTable() netstate.Table {
	return netstate.Table{Family: "inet", Name: netstate.TableName}
}

// builder collects what the mappings of one attachment need.
type builder struct {
	conf   Config
	state  *netstate.State
	lives  string
	sets   []netstate.Set
	chains []netstate.Chain
}

// publish makes the mappings by nft. loopback: the host reaches them at 127.0.0.0/8 too.
func publish(s *netstate.State, c Config, pods []netip.Prefix, loopback bool, lives string) {
	b := builder{conf: c, state: s, lives: lives}
	for _, pod := range pods {
		b.publish(pod)
	}
	if loopback {
		b.chains = append(b.chains, loopbackChains()...)
	}
	s.Tables = []netstate.Table{b.table()}
}

func (b *builder) table() netstate.Table {
	t := emptyTable()
	t.Sets, t.Chains = b.sets, b.chains
	if b.conf.snat {
		t.Chains = append(t.Chains, b.masqueradeChain())
	}
	return t
}

// publish makes the mappings of one family lead to the pod's address.
func (b *builder) publish(pod netip.Prefix) {
	f := netstate.FamilyOf(pod.Addr())
	b.sets = append(b.sets, portMaps(f)...)
	b.chains = append(b.chains, portChains(f)...)
	if b.conf.snat {
		b.declareMarks(f, pod)
	}
	for _, m := range b.conf.mappings {
		if !m.serves(f) {
			continue
		}
		set, match := anyOrOne(m, "hostports"+f.Digit)
		b.add(set, match, pod.Addr().String(), strconv.Itoa(m.containerPort))
		if b.conf.snat {
			b.mark(f, pod, m)
		}
	}
}

// anyOrOne is the set that a mapping belongs into, and its key there: by port, or by address and port.
func anyOrOne(m mapping, name string) (set string, match []string) {
	match = []string{m.protocol, strconv.Itoa(m.hostPort)}
	if m.hostIP.IsValid() {
		return "hostip_" + name, append([]string{m.hostIP.String()}, match...)
	}
	return name, match
}

func (b *builder) add(set string, match []string, data ...string) {
	b.state.Elements = append(b.state.Elements, netstate.Element{
		Family: "inet", Table: netstate.TableName, Set: set, Match: match, Data: data,
		Owner: b.state.Owner, Lives: b.lives,
	})
}

// portMaps are the maps from a port of the host to a pod's: of any address, and of one.
func portMaps(f netstate.Family) []netstate.Set {
	to := []string{f.Type, "inet_service"}
	return []netstate.Set{
		{Name: "hostports" + f.Digit, Key: []string{"inet_proto", "inet_service"}, Data: to},
		{Name: "hostip_hostports" + f.Digit, Key: []string{f.Type, "inet_proto", "inet_service"}, Data: to},
	}
}

// portChains translate what comes for the host itself, and nothing that only passes through it. ::1 is
// left alone: IPv6 has no way to let it leave lo.
func portChains(f netstate.Family) []netstate.Chain {
	rules := func(guard string) []string {
		return []string{
			fmt.Sprintf("%sfib daddr type local dnat %s addr . port to %s daddr . meta l4proto . th dport map @hostip_hostports%s", guard, f.Word, f.Word, f.Digit),
			fmt.Sprintf("%sfib daddr type local dnat %s addr . port to meta l4proto . th dport map @hostports%s", guard, f.Word, f.Digit),
		}
	}
	guard := "meta nfproto ipv4 "
	if f.V6 {
		guard = "ip6 daddr != ::1 "
	}
	return []netstate.Chain{
		{Name: "hostports" + f.Digit + "_prerouting", Type: "nat", Hook: "prerouting", Priority: prioDNAT, Rules: rules(guard)},
		{Name: "hostports" + f.Digit + "_output", Type: "nat", Hook: "output", Priority: prioDNAT, Rules: rules(guard)},
	}
}

// marks is the name of the set of mappings whose packets get the mark: those that come from the
// pod's subnet, or with masqAll from anywhere.
func (b *builder) marks(f netstate.Family, pod netip.Prefix) string {
	name := fmt.Sprintf("hairpin%s_%d", f.Digit, pod.Bits())
	if b.conf.masqAll {
		name = "masqall" + f.Digit
	}
	return name + b.bitSuffix()
}

// bitSuffix keeps networks with different marks apart.
func (b *builder) bitSuffix() string {
	if b.conf.markBit == defaultMarkBit {
		return ""
	}
	return fmt.Sprintf("_bit%d", b.conf.markBit)
}

func (b *builder) markValue() string { return fmt.Sprintf("0x%08x", uint32(1)<<b.conf.markBit) }

// declareMarks declares the sets of mappings whose packets are to be masqueraded and the rules that
// mark them. Each prefix length has a chain of its own, so that attachments can add theirs in any
// order.
func (b *builder) declareMarks(f netstate.Family, pod netip.Prefix) {
	name := b.marks(f, pod)
	source, key := fmt.Sprintf("%s saddr & %s . ", f.Word, netstate.Netmask(pod)), []string{f.Type}
	if b.conf.masqAll {
		source, key = "", nil
	}
	with := func(more ...string) []string { return append(key[:len(key):len(key)], more...) }
	b.sets = append(b.sets,
		netstate.Set{Name: name, Key: with("inet_proto", "inet_service")},
		netstate.Set{Name: "hostip_" + name, Key: with(f.Type, "inet_proto", "inet_service")})
	rule := func(destination, set string) string {
		return fmt.Sprintf("meta nfproto ipv%s fib daddr type local %s%smeta l4proto . th dport @%s meta mark set meta mark | %s",
			f.Digit, source, destination, set, b.markValue())
	}
	b.chains = append(b.chains, netstate.Chain{
		Name: name, Type: "nat", Hook: "prerouting", Priority: prioMark,
		Rules: []string{rule(f.Word+" daddr . ", "hostip_"+name), rule("", name)},
	})
}

// mark has the packets of a mapping marked.
func (b *builder) mark(f netstate.Family, pod netip.Prefix, m mapping) {
	set, match := anyOrOne(m, b.marks(f, pod))
	if !b.conf.masqAll {
		match = append([]string{pod.Masked().Addr().String()}, match...)
	}
	b.add(set, match)
}

// masqueradeChain makes the pod see the host's address instead of a neighbour's, whose answer
// would otherwise go straight to the neighbour and not back through the translation.
func (b *builder) masqueradeChain() netstate.Chain {
	return netstate.Chain{
		Name: "hostports_masq" + b.bitSuffix(), Type: "nat", Hook: "postrouting", Priority: prioSNAT,
		Rules: []string{fmt.Sprintf("meta mark & %s == %s ct status dnat masquerade", b.markValue(), b.markValue())},
	}
}

// loopbackChains give connections from 127.0.0.1 an address that the pod can answer, and close what
// route_localnet would open: packets from outside to or from 127.0.0.0/8 are dropped before all else.
func loopbackChains() []netstate.Chain {
	return []netstate.Chain{
		{Name: "localnet_masq", Type: "nat", Hook: "postrouting", Priority: prioSNAT, Rules: []string{
			`oifname != "lo" ip saddr 127.0.0.0/8 ct status dnat masquerade`,
		}},
		{Name: "localnet_guard", Type: "filter", Hook: "prerouting", Priority: prioRaw, Rules: []string{
			`iifname != "lo" ip daddr 127.0.0.0/8 drop`,
			`iifname != "lo" ip saddr 127.0.0.0/8 drop`,
		}},
	}
}

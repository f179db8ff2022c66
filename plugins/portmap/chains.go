package portmap

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/cleat-cni/cleat/netstate"
)

// The chains that all pods share. Table nat has the first two, raw the third.
const (
	portsChain = "CLEAT-HOSTPORTS"
	masqChain  = "CLEAT-HOSTPORTS-MASQ"
	guardChain = "CLEAT-LOCALNET"
)

// chains collects what the mappings of one attachment need of one family in iptables.
type chains struct {
	conf   Config
	state  *netstate.State
	family netstate.Family
	lives  string
}

// publishByRules makes the mappings by iptables. loopback: the host reaches them at 127.0.0.0/8 too.
func publishByRules(s *netstate.State, c Config, pods []netip.Prefix, loopback bool, lives string) {
	for _, pod := range pods {
		b := chains{conf: c, state: s, family: netstate.FamilyOf(pod.Addr()), lives: lives}
		if loopback && !b.family.V6 {
			b.guardLoopback()
		}
		b.enter()
		if c.snat {
			b.masquerade(loopback)
		}
		for _, m := range c.mappings {
			if m.serves(b.family) {
				b.publish(m, pod)
			}
		}
	}
}

// chain declares a chain that all share.
func (b *chains) chain(table, name string) {
	b.state.IptablesChains = append(b.state.IptablesChains, netstate.IptablesChain{Family: b.family.Word, Table: table, Name: name})
}

// shared adds a rule that all share.
func (b *chains) shared(table, chain, rule string) {
	b.state.IptablesRules = append(b.state.IptablesRules, netstate.IptablesRule{Family: b.family.Word, Table: table, Chain: chain, Rule: rule})
}

// enter leads what comes for the host itself into the chain of all mappings. ::1 is left alone: IPv6 has no way
// to let it leave lo.
func (b *chains) enter() {
	b.chain("nat", portsChain)
	rule := "-m addrtype --dst-type LOCAL -j " + portsChain
	if b.family.V6 {
		rule = "! -d ::1/128 " + rule
	}
	b.shared("nat", "PREROUTING", rule)
	b.shared("nat", "OUTPUT", rule)
}

// masquerade makes the pod see the host's address instead of a neighbour's, or of 127.0.0.1. It comes before others, since what
// leaves a pod's subnet untouched would end the chain for a pod that calls itself.
func (b *chains) masquerade(loopback bool) {
	b.chain("nat", masqChain)
	b.state.IptablesRules = append(b.state.IptablesRules, netstate.IptablesRule{
		Family: b.family.Word, Table: "nat", Chain: "POSTROUTING", Rule: "-j " + masqChain, First: true})
	if b.conf.markChain != "" {
		b.state.IptablesChains = append(b.state.IptablesChains,
			netstate.IptablesChain{Family: b.family.Word, Table: "nat", Name: b.conf.markChain, Foreign: true})
	} else {
		b.shared("nat", masqChain, fmt.Sprintf("-m mark --mark %s -m conntrack --ctstate DNAT -j MASQUERADE", b.mark()))
	}
	if loopback && !b.family.V6 {
		b.shared("nat", masqChain, "-s 127.0.0.0/8 ! -o lo -m conntrack --ctstate DNAT -j MASQUERADE")
	}
}

// mark is value and mask of the packets to be masqueraded.
func (b *chains) mark() string {
	bit := uint32(1) << b.conf.markBit
	return fmt.Sprintf("%#x/%#x", bit, bit)
}

// guardLoopback closes what route_localnet would open.
func (b *chains) guardLoopback() {
	b.chain("raw", guardChain)
	b.shared("raw", "PREROUTING", "-j "+guardChain)
	b.shared("raw", guardChain, "-d 127.0.0.0/8 ! -i lo -j DROP")
	b.shared("raw", guardChain, "-s 127.0.0.0/8 ! -i lo -j DROP")
}

// publish makes a mapping: a chain that marks and translates, and the rule that leads into it. Those of one
// address come before those of all.
func (b *chains) publish(m mapping, pod netip.Prefix) {
	owner := b.state.Owner
	name := chainOf(m)
	b.state.IptablesChains = append(b.state.IptablesChains,
		netstate.IptablesChain{Family: b.family.Word, Table: "nat", Name: name, Owner: owner})
	add := func(chain string, first bool, words ...string) {
		b.state.IptablesRules = append(b.state.IptablesRules, netstate.IptablesRule{Family: b.family.Word, Table: "nat", Chain: chain,
			Rule: strings.Join(words, " "), First: first, Owner: owner, Lives: b.lives})
	}
	var entry []string
	if m.hostIP.IsValid() {
		entry = append(entry, "-d", netip.PrefixFrom(m.hostIP, m.hostIP.BitLen()).String())
	}
	entry = append(entry, "-p", m.protocol, "-m", m.protocol, "--dport", strconv.Itoa(m.hostPort))
	for _, word := range b.conditions() {
		entry = append(entry, netstate.IptablesWord(word))
	}
	add(portsChain, m.hostIP.IsValid(), append(entry, "-j", name)...)
	if b.conf.snat {
		var from []string
		if !b.conf.masqAll {
			from = []string{"-s", pod.Masked().String()}
		}
		target := []string{"-j", "MARK", "--set-xmark", b.mark()}
		if b.conf.markChain != "" {
			target = []string{"-j", b.conf.markChain}
		}
		add(name, false, append(from, target...)...)
	}
	add(name, false, "-p", m.protocol, "-j", "DNAT", "--to-destination", netip.AddrPortFrom(pod.Addr(), uint16(m.containerPort)).String())
}

// conditions are those of the family.
func (b *chains) conditions() []string {
	if b.family.V6 {
		return b.conf.conditions6
	}
	return b.conf.conditions4
}

// chainOf is the name of a mapping's chain: one place for one port of the host, as a key of an nft map is.
func chainOf(m mapping) string {
	name := fmt.Sprintf("CLEAT-%s-%d", m.protocol, m.hostPort)
	if m.hostIP.IsValid() {
		sum := sha256.Sum256(m.hostIP.AsSlice())
		name += "-" + hex.EncodeToString(sum[:])[:11]
	}
	return name
}

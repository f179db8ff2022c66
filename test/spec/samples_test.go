package spec

import (
	"slices"
	"strings"
	"testing"

	"github.com/cleat-cni/cleat/plugins"
)

// sample says how to try one plugin.
type sample struct {
	typ string
	// conf are the members of its configuration besides cniVersion, name and type; IPAM stands for an ipam section that gives addresses, and
	// DATA for a folder, PORT for a port that no other container has.
	conf string
	role role
	// invalid is a configuration that the plugin has to refuse; "" if there is none.
	invalid string
	// unchanged are members with which a chained plugin leaves the result as it is; "" if it does with conf.
	unchanged string
	// damage is what CHECK has to find; the words POD, IF, VETH and ADDR stand for the pod's namespace, its interface, the
	// host's end and the first address.
	damage []damage
	// damaged are the members with which there is all that damage breaks; "" is conf.
	damaged string
	// changes are what later plugins may do without CHECK minding.
	changes []string
	// full are the members of a configuration that has one address; "" for a plugin that gives none.
	full  string
	fixed bool     // what it gives the configuration says: it keeps nothing, and gives everyone the same
	args  []string // the keys of CNI_ARGS that it reads; nil: it does not look at arguments
}

// role is what a plugin does with CNI_IFNAME.
type role int

const (
	maker    role = iota // makes it
	adjuster             // adjusts an interface that is there without it
	chained              // adjusts what the plugin before made
	ipam                 // gives addresses
)

// damage is what is broken of an attachment, by command lines: "pod …" runs in the container's namespace, "host …" in the host's,
// "rm leases" removes the leases.
type damage struct {
	name string
	rule string // PL15, PL16 or PL17
	do   []string
}

// samples has the row of each built-in plugin.
func samples() []sample {
	var all []sample
	for _, d := range plugins.All() {
		for _, s := range rows() {
			if s.typ == d.Info.Type {
				all = append(all, s)
			}
		}
	}
	return all
}

func rows() []sample {
	return []sample{
		{
			typ: "bandwidth", role: chained,
			conf:      `"ingressRate":8000000,"ingressBurst":800000,"runtimeConfig":{"bandwidth":{"egressRate":8000000,"egressBurst":800000}}`,
			invalid:   `"ingressRate":8000000`,
			unchanged: `"ingressRate":8000000,"ingressBurst":800000`,
			damage: []damage{
				{"no-ingress-limit", "PL16", []string{"host tc qdisc del dev VETH root"}},
				{"another-rate", "PL16", []string{"host tc qdisc change dev VETH root handle 1: tbf rate 9mbit burst 100000 limit 125000"}},
				{"no-egress-limit", "PL16", []string{"host tc qdisc del dev VETH ingress"}},
				{"no-filter", "PL16", []string{"host tc filter del dev VETH ingress"}},
			},
			changes: []string{"pod ip route add 198.51.100.0/24 dev IF", "pod ip addr add 203.0.113.7/32 dev IF"},
		},
		{
			typ: "bridge", role: maker,
			conf:    `"bridge":"cni0","isDefaultGateway":true,"ipMasq":true,"mtu":1400,"dns":{"nameservers":["10.88.0.1"],"search":["example.org"]},"ipam":IPAM`,
			invalid: `"bridge":"cni0","mtu":12,"ipam":IPAM`,
			args:    []string{"MAC", "IP", "GATEWAY"},
			full:    `"bridge":"cni0","ipam":FULL`,
			damage: []damage{
				{"no-interface", "PL15", []string{"pod ip link del IF"}},
				{"no-address", "PL15", []string{"pod ip addr del ADDR dev IF"}},
				{"no-route", "PL15", []string{"pod ip route flush 192.0.2.0/24"}},
				{"another-mac", "PL15", []string{"pod ip link set IF address 02:00:00:00:00:99"}},
				{"no-rules", "PL16", []string{"host nft flush ruleset"}},
				{"no-lease", "PL16", []string{"rm leases"}},
				{"pod-end-down", "PL17", []string{"pod ip link set IF down"}},
				{"host-end-down", "PL17", []string{"host ip link set VETH down"}},
				{"off-the-bridge", "PL17", []string{"host ip link set VETH nomaster"}},
				{"no-gateway", "PL17", []string{"host ip addr flush dev cni0"}},
			},
			changes: []string{"pod ip route add 198.51.100.0/24 dev IF", "pod ip addr add 203.0.113.7/32 dev IF", "pod ip link add other type veth"},
		},
		{
			typ: "firewall", role: chained, conf: `"ingressPolicy":"open"`, invalid: `"ingressPolicy":"closed"`,
			damaged: `"ingressPolicy":"isolated"`, // which needs the interfaces that results tell since 0.3.0
			damage: []damage{
				{"no-rules", "PL16", []string{"host nft flush ruleset"}},
				{"no-chain", "PL16", []string{"host nft flush chain inet cleat firewall"}},
				{"no-marks", "PL16", []string{"host nft flush chain inet cleat firewall_mark"}},
				{"no-element", "PL16", []string{"host nft flush set inet cleat fw4"}},
				{"not-closed", "PL16", []string{"host nft flush set inet cleat fw_closed4"}},
				{"not-closed-at-the-bridge", "PL16", []string{"host nft flush set bridge cleat fw_isolated"}},
			},
			changes: []string{"pod ip route add 198.51.100.0/24 dev IF"},
		},
		{
			typ: "host-local", role: ipam, conf: `"ipam":IPAM`, invalid: `"ipam":{"type":"host-local"}`, args: []string{"IP", "MAC", "GATEWAY"},
			full:   `"ipam":FULL`,
			damage: []damage{{"no-lease", "PL16", []string{"rm leases"}}},
		},
		{
			typ: "loopback", role: adjuster,
			damage:  []damage{{"down", "PL17", []string{"pod ip link set lo down"}}},
			changes: []string{"pod ip addr add 127.0.0.2/8 dev lo"},
		},
		{
			typ: "portmap", role: chained,
			conf:    `"snat":true,"runtimeConfig":{"portMappings":[{"hostPort":PORT,"containerPort":80,"protocol":"tcp"},{"hostPort":PORT,"containerPort":53,"protocol":"udp"}]}`,
			invalid: `"markMasqBit":99`,
			damage: []damage{
				{"no-rules", "PL16", []string{"host nft flush ruleset"}},
			},
			changes: []string{"pod ip route add 198.51.100.0/24 dev IF"},
		},
		{
			typ: "ptp", role: maker, conf: `"ipMasq":true,"mtu":1400,"dns":{"nameservers":["10.88.0.1"],"search":["example.org"]},"ipam":IPAM`,
			invalid: `"mtu":12,"ipam":IPAM`, args: []string{"IP", "GATEWAY"}, full: `"ipam":FULL`,
			damage: []damage{
				{"no-interface", "PL15", []string{"pod ip link del IF"}},
				{"no-address", "PL15", []string{"pod ip addr del ADDR dev IF"}},
				{"no-route", "PL15", []string{"pod ip route flush 192.0.2.0/24"}},
				{"no-rules", "PL16", []string{"host nft flush ruleset"}},
				{"no-lease", "PL16", []string{"rm leases"}},
				{"pod-end-down", "PL17", []string{"pod ip link set IF down"}},
				{"host-end-down", "PL17", []string{"host ip link set VETH down"}},
				{"no-gateway", "PL17", []string{"host ip addr flush dev VETH"}},
			},
			changes: []string{"pod ip route add 198.51.100.0/24 dev IF", "pod ip link add other type veth"},
		},
		{
			typ: "sbr", role: chained, invalid: `"table":0`,
			damage: []damage{
				{"no-rule", "PL16", []string{"pod ip rule del pref 32765"}},
				{"no-route", "PL16", []string{"pod ip route flush table 100"}},
			},
			changes: []string{"pod ip route add 198.51.100.0/24 dev IF table 7", "pod ip rule add from 198.51.100.1 table 7"},
		},
		{
			typ: "tuning", role: chained, args: []string{"MAC", "IP", "GATEWAY"},
			conf:      `"mac":"02:00:00:00:00:07","mtu":1300,"promisc":true,"allmulti":true,"txQLen":500,"sysctl":{"net.core.somaxconn":"500","net.ipv4.conf.IFNAME.arp_filter":"1"},"dataDir":"DATA"`,
			unchanged: `"txQLen":500,"dataDir":"DATA"`,
			invalid:   `"mtu":12`,
			damage: []damage{
				{"another-mac", "PL16", []string{"pod ip link set IF address 02:00:00:00:00:99"}},
				{"another-mtu", "PL16", []string{"pod ip link set IF mtu 1350"}},
				{"not-promisc", "PL16", []string{"pod ip link set IF promisc off"}},
				{"not-allmulti", "PL16", []string{"pod ip link set IF allmulticast off"}},
				{"another-queue", "PL16", []string{"pod ip link set IF txqueuelen 400"}},
				{"another-value", "PL16", []string{"pod sysctl -w net.core.somaxconn=400"}},
			},
			changes: []string{"pod ip route add 198.51.100.0/24 dev IF", "pod ip link set IF down", "pod ip link set IF up"},
		},
		{
			typ: "static", role: ipam, fixed: true, args: []string{"IP", "GATEWAY"},
			conf:    `"ipam":{"type":"static","addresses":[{"address":"10.88.0.5/16","gateway":"10.88.0.1"}],"routes":[{"dst":"192.0.2.0/24"}]}`,
			invalid: `"ipam":{"type":"static","addresses":[{"address":"none"}]}`,
		},
	}
}

// usesIPAM reports whether the plugin, which is none itself, takes addresses from one.
func (s sample) usesIPAM() bool { return s.role != ipam && strings.Contains(s.conf, "IPAM") }

func interfacePlugin(s sample) bool { return s.role != ipam }
func delegating(s sample) bool      { return s.usesIPAM() }
func makes(s sample) bool           { return s.role == maker }

// sampleOf returns the row of a plugin.
func sampleOf(t *testing.T, typ string) sample {
	t.Helper()
	all := samples()
	i := slices.IndexFunc(all, func(s sample) bool { return s.typ == typ })
	if i < 0 {
		t.Fatalf("no sample of %s", typ)
	}
	return all[i]
}

func TestEveryPluginHasASample(t *testing.T) {
	for _, d := range plugins.All() {
		s := sampleOf(t, d.Info.Type)
		if (s.role == ipam) != d.IsIPAM() {
			t.Errorf("%s: the sample's role is wrong", s.typ)
		}
	}
}

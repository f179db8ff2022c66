package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/internal/sandbox/traffic"
)

// damage is what somebody does to a pod's network, and what CHECK says of it.
type damage struct {
	name   string
	inPod  bool
	do     string // a command line; $VETH, $IFB and $TABLES are the pod's, and the folder of iptables' programs
	misses []string
}

// damages are those of each backend.
func damages(backend string) []damage {
	list := []damage{
		{"limit-to-the-pod", false, "tc qdisc del dev $VETH root", []string{"qdisc dev $VETH parent ffffffff"}},
		{"limit-from-the-pod", false, "tc qdisc del dev $IFB root", []string{"qdisc dev $IFB parent ffffffff"}},
		{"other-limit", false, "tc qdisc change dev $VETH root handle 1: tbf rate 1mbit burst 1000000 limit 1025000", []string{"rate 125000"}},
		{"ingress-qdisc", false, "tc qdisc del dev $VETH ingress", []string{"qdisc dev $VETH parent fffffff1", "filter dev $VETH"}},
		{"filter", false, "tc filter del dev $VETH ingress", []string{"filter dev $VETH"}},
		{"ifb", false, "ip link del $IFB", []string{"link $IFB kind ifb", "filter dev $VETH"}},
		{"sysctl", true, "sysctl -qw net.core.somaxconn=128", []string{"sysctl net/core/somaxconn value 500"}},
		{"sysctl-of-two-plugins", true, "sysctl -qw net.ipv6.conf.eth0.accept_ra=0", []string{"accept_ra value 2"}},
		{"promisc", true, "ip link set eth0 promisc off", []string{"promisc"}},
		{"mtu", true, "ip link set eth0 mtu 1300", []string{"mtu 1400"}},
		{"mac", true, "ip link set eth0 address 02:00:00:00:00:99", []string{"mac 02:00:00:00:00:07"}},
		{"spoof-check", false, "nft flush table bridge cleat", []string{"chain macspoof rule iifname @macspoof_ports drop"}},
		{"forward", false, "$TABLES/iptables -D FORWARD 1", []string{"iptables ip filter chain FORWARD rule"}},
	}
	if backend == "nftables" {
		return append(list,
			damage{"ruleset", false, "nft flush ruleset", []string{"fw_closed6", "masq4_16 element", "hostports4 element tcp . 8080", "macspoof_macs element", "chain firewall"}},
			damage{"elements", false, "nft flush set inet cleat fw4", []string{"set fw4 element"}},
			damage{"rules", false, "nft flush chain inet cleat firewall", []string{"chain firewall rule"}},
			damage{"iptables", false, "$TABLES/iptables -F FORWARD", []string{"chain FORWARD rule -m mark"}})
	}
	return append(list,
		damage{"filter-table", false, "$TABLES/iptables -F", []string{"chain CLEAT-PODS rule", "chain FORWARD rule -j CLEAT-FORWARD", "chain CLEAT-ISOLATION-TO rule"}},
		damage{"filter-table-v6", false, "$TABLES/ip6tables -F", []string{"iptables ip6 filter chain CLEAT-PODS rule"}},
		damage{"nat-table", false, "$TABLES/iptables -t nat -F", []string{"chain CLEAT-MASQ rule", "chain CLEAT-tcp-8080 rule"}},
		damage{"ruleset", false, "nft flush ruleset", []string{"chain CLEAT-PODS rule", "chain CLEAT-tcp-8080 rule", "macspoof_macs element"}})
}

// named checks that CHECK names what is missing. Of programs the first ends it that misses something, and one that others follow leaves
// alone what those may have set.
func (d damage) named(t *testing.T, found string, words *strings.Replacer, programs bool) {
	t.Helper()
	var unnamed []string
	for _, missed := range d.misses {
		if missed = words.Replace(missed); !strings.Contains(found, missed) {
			unnamed = append(unnamed, missed)
		}
	}
	if len(unnamed) == len(d.misses) || len(unnamed) > 0 && !programs {
		t.Errorf("%s: CHECK does not name %q:\n%s", d.name, unnamed, found)
	}
}

// TestChainRepaired: CHECK names each thing that is missing, of the list as of programs, and repair puts it back while another pod talks.
func TestChainRepaired(t *testing.T) {
	onEachChain(t, func(t *testing.T, n *chainNode, backend string) {
		p, other := n.newPod("same-bridge", "damaged"), n.newPod("same-bridge", "other")
		p.caps = limits
		n.add(p, "--publish 8080:80 --mac 02:00:00:00:00:07")
		n.add(other, "")
		undisturbed := traffic.Pinging(t, other.ns, "10.81.0.1", "0.02")
		repair := func(p *pod) {
			n.Run(n.Host, strings.Replace(n.cleat, "--exec-only", "--builtin", 1)+"repair "+p.network+" "+p.ns.Path()+" --id "+p.id)
		}
		programs := strings.Contains(n.cleat, "--exec-only")
		words := strings.NewReplacer("$VETH", p.hostEnd(), "$IFB", p.ifb(), "$TABLES", n.Programs)
		for _, d := range damages(backend) {
			ns := n.Host
			if d.inPod {
				ns = p.ns
			}
			n.Run(ns, words.Replace(d.do))
			found := n.check(p)
			d.named(t, found, words, programs)
			repair(p)
			if found := n.check(p); found != "" {
				t.Errorf("%s: after the repair:\n%s", d.name, found)
			}
			for _, family := range traffic.Families() {
				n.Expect(t, traffic.Call{Name: d.name + ", repaired", From: n.Outside, Network: "tcp", To: traffic.At(traffic.HostAddr(family), 8080),
					Want: "damaged sees " + traffic.OutsideAddr(family)})
			}
		}
		undisturbed()
		// What took the rules of all, took the other's too.
		repair(other)
		if found := n.check(other); found != "" {
			t.Errorf("the other pod, repaired:\n%s", found)
		}
	})
}

// TestChainCollected: of a pod that is gone without DEL, GC frees all, whether a record tells of it or only marks do.
func TestChainCollected(t *testing.T) {
	onEachChain(t, func(t *testing.T, n *chainNode, _ string) {
		kept := n.newPod("same-bridge", "kept")
		n.add(kept, "--publish 8081:80")
		lose := func(id string) *pod {
			p := n.newPod("same-bridge", id)
			p.caps = limits
			n.add(p, "--publish 8080:80 --mac 02:00:00:00:00:07")
			return p
		}
		n.del(lose("first"))
		before := n.marked()
		for _, tc := range []struct{ name, forget string }{{"recorded", "none"}, {"unrecorded", "*-lost-*"}} {
			p := lose("lost")
			n.Run(n.Host, "ip link del "+p.hostEnd())
			n.Run(n.Host, "find "+filepath.Join(n.data, "state/results")+" -name "+tc.forget+" -delete")
			if _, err := os.Stat(filepath.Join(n.data, "tuning/lost_eth0.json")); err != nil {
				t.Error(err)
			}
			p.ns.Close()
			freed := n.Run(n.Host, n.cleat+"gc")
			if !strings.Contains(freed, "lost") && !(tc.name == "unrecorded" && strings.Contains(n.cleat, "--exec-only")) { // programs don't tell
				t.Errorf("%s: gc freed\n%s", tc.name, freed)
			}
			if diff := cmp.Diff(before, n.marked()); diff != "" {
				t.Errorf("%s: after gc (-want +got)\n%s\nfreed\n%s", tc.name, diff, freed)
			}
		}
		if found := n.check(kept); found != "" {
			t.Errorf("CHECK of who was kept:\n%s", found)
		}
	})
}

// marked is what attachments have of the host and on disk.
func (n *chainNode) marked() string {
	n.t.Helper()
	return passing.ReplaceAllString(n.Rules(), "") + n.Run(n.Host, "ip -br link show type ifb") + n.Run(n.Host, "tc qdisc") +
		n.Run(n.Host, "ls -A "+n.data+"/tuning "+n.data+"/state/results "+n.data+"/leases/same-bridge")
}

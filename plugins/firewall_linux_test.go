package plugins_test

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/sandbox"
	"github.com/cleat-cni/cleat/internal/sandbox/traffic"
	"github.com/cleat-cni/cleat/netstate"
)

// walled is the n-th network with a firewall, on the bridge cni<n>, with options of the firewall.
func walled(n int, options string) string {
	return fmt.Sprintf(`{"cniVersion":"1.1.0","name":"walled%d","plugins":[
	  {"type":"bridge","bridge":"cni%d","isDefaultGateway":true,"ipMasq":true,"hairpinMode":true,
	   "ipam":{"type":"numbered","subnets":["10.8%d.0.0/16","fd00:8%d::/64"]}},
	  {"type":"portmap","capabilities":{"portMappings":true}},
	  {"type":"firewall"%s}]}`, n, n, n, n, options)
}

// counters are what nft prints of the packets that a rule of iptables has seen.
var counters = regexp.MustCompile(`counter packets \d+ bytes \d+`)

// onDockerHosts runs a test where Docker's rules are kept by each kind of the programs, once with our own by nftables and
// once by iptables.
func onDockerHosts(t *testing.T, run func(t *testing.T, m *machine, programs string)) {
	t.Helper()
	for _, kind := range []string{"legacy", "nft"} {
		for _, backend := range []string{"nftables", "iptables"} {
			t.Run(kind+"-"+backend, func(t *testing.T) {
				sandbox.Require(t)
				programs := sandbox.Iptables(t, kind)
				m := newMachineOf(t, programs)
				if backend == "nftables" {
					m.iptables = ""
				}
				m.DockerHost()
				run(t, m, programs)
			})
		}
	}
}

func TestFirewallOnDockerHost(t *testing.T) {
	onDockerHosts(t, func(t *testing.T, m *machine, programs string) {
		m.Serve(m.Outside, "tcp", ":8080", "outside")
		before := m.Saved("filter")
		bare := strings.Replace(walled(1, ""), `,
	  {"type":"firewall"}`, "", 1)
		blocked := m.attach(m.newPod(9, bare))
		m.expect(t, []call{
			{"without the plugin", blocked.ns, "tcp", "192.0.2.9:8080", "no connection"},
			{"without the plugin, v6", blocked.ns, "tcp", "[2001:db8::9]:8080", "no connection"},
		})
		var rules []string
		for range 2 {
			a := m.attach(m.newPod(2, walled(1, ""), tcp(8080, 80)), "tcp :80", "tcp :81")
			b := m.attach(m.newPod(3, walled(2, "")))
			for name, i := range traffic.Families() {
				m.expect(t, []call{
					{"pod to the world, " + name, a.ns, "tcp", traffic.At(traffic.OutsideAddr(i), 8080), "outside sees " + traffic.HostAddr(i)},
					{"the world to a port, " + name, m.Outside, "tcp", traffic.At(traffic.HostAddr(i), 8080), "pod2 sees " + traffic.OutsideAddr(i)},
					{"pod of another bridge, " + name, b.ns, "tcp", traffic.At(a.address(i == 1).String(), 80), "pod2 sees " + []string{"10.81.0.1", "fd00:81::1"}[i]},
				})
			}
			m.Run(m.Outside, "ip route replace 10.81.0.0/16 via 192.0.2.1")
			m.expect(t, []call{
				{"the world to what is not mapped", m.Outside, "tcp", "10.81.0.2:81", "no connection"},
				{"another pod without the plugin", blocked.ns, "tcp", "192.0.2.9:8080", "no connection"},
			})
			for _, p := range []*pod{a, b} {
				if found := m.check(t, p.attachment); found != "" {
					t.Errorf("CHECK of pod%d: %s", p.pod, found)
				}
				m.del(t, p.attachment)
			}
			rules = append(rules, m.Saved("filter")+counters.ReplaceAllString(m.rules(), ""))
		}
		if diff := cmp.Diff(rules[0], rules[1]); diff != "" {
			t.Errorf("a second ADD and DEL leave more (-first +second)\n%s", diff)
		}
		kept := slices.DeleteFunc(strings.Split(m.Saved("filter"), "\n"), func(line string) bool {
			return strings.Contains(line, "--comment cleat") || strings.Contains(line, `--comment "cleat`) || strings.Contains(line, ":CLEAT-") ||
				line == ":CNI-ADMIN -" || strings.Contains(line, "0x1000000/0x1000000")
		})
		if diff := cmp.Diff(before, strings.Join(kept, "\n")); diff != "" {
			t.Errorf("Docker's rules (-before +after)\n%s", diff)
		}
	})
}

func TestIngressPolicy(t *testing.T) {
	onEachBackend(t, func(t *testing.T, m *machine) {
		m.Serve(m.Outside, "tcp", ":8080", "outside")
		add := func(i int, network string, ports ...cni.PortMapping) *pod {
			return m.attach(m.newPod(i, network, ports...), "tcp :80", "udp :53")
		}
		plain := add(2, walled(0, ""))
		empty := m.rules()
		m.del(t, plain.attachment)
		plain = add(2, walled(0, ""))
		bridge, bridge2, far := add(3, walled(1, `,"ingressPolicy":"same-bridge"`), tcp(8080, 80)),
			add(4, walled(1, `,"ingressPolicy":"same-bridge"`)), add(5, walled(2, `,"ingressPolicy":"same-bridge"`))
		alone, alone2 := add(6, walled(3, `,"ingressPolicy":"isolated"`), tcp(8081, 80)), add(7, walled(3, `,"ingressPolicy":"isolated"`))
		for name, i := range traffic.Families() {
			t.Run(name, func(t *testing.T) {
				to := func(p *pod, port int) string { return traffic.At(p.address(i == 1).String(), port) }
				sees := func(p, from *pod) string { return fmt.Sprintf("pod%d sees %s", p.pod, from.address(i == 1)) }
				gateway := func(n int) string { return []string{fmt.Sprintf("10.8%d.0.1", n), fmt.Sprintf("fd00:8%d::1", n)}[i] }
				m.expect(t, []call{
					{"same bridge", bridge2.ns, "tcp", to(bridge, 80), sees(bridge, bridge2)},
					{"same bridge, udp", bridge2.ns, "udp", to(bridge, 53), sees(bridge, bridge2)},
					{"another bridge", far.ns, "tcp", to(bridge, 80), "no connection"},
					{"another bridge, udp", far.ns, "udp", to(bridge, 53), "no answer"},
					{"the other way", bridge.ns, "tcp", to(far, 80), "no connection"},
					{"an open pod to a closed one", plain.ns, "tcp", to(bridge, 80), "no connection"},
					{"a closed pod to an open one", bridge.ns, "tcp", to(plain, 80), "pod2 sees " + gateway(0)},
					{"an isolated pod to an open one", alone.ns, "udp", to(plain, 53), "pod2 sees " + gateway(0)},
					{"isolated, same bridge", alone2.ns, "tcp", to(alone, 80), "no connection"},
					{"isolated, same bridge, udp", alone2.ns, "udp", to(alone, 53), "no answer"},
					{"isolated, another bridge", bridge.ns, "tcp", to(alone, 80), "no connection"},
					{"the host", m.Host, "tcp", to(alone, 80), "pod6 sees " + gateway(3)},
					{"itself by its port", alone.ns, "tcp", traffic.At(traffic.HostAddr(i), 8081), "pod6 sees " + gateway(3)},
					{"same-bridge, itself by its port", bridge.ns, "tcp", traffic.At(traffic.HostAddr(i), 8080), "pod3 sees " + gateway(1)},
					{"isolated, by its port", alone2.ns, "tcp", traffic.At(traffic.HostAddr(i), 8081), "no connection"},
					{"another bridge, by its port", far.ns, "tcp", traffic.At(traffic.HostAddr(i), 8080), "no connection"},
					{"the world to a port", m.Outside, "tcp", traffic.At(traffic.HostAddr(i), 8081), "pod6 sees " + traffic.OutsideAddr(i)},
					{"to the world", alone.ns, "tcp", traffic.At(traffic.OutsideAddr(i), 8080), "outside sees " + traffic.HostAddr(i)},
					{"same-bridge to the world", bridge.ns, "tcp", traffic.At(traffic.OutsideAddr(i), 8080), "outside sees " + traffic.HostAddr(i)},
				})
			})
		}
		// Where the kernel does not hand bridged packets to iptables either.
		m.Run(m.Host, "sysctl -qw net.bridge.bridge-nf-call-iptables=0 net.bridge.bridge-nf-call-ip6tables=0")
		for name, i := range traffic.Families() {
			to := func(p *pod, port int) string { return traffic.At(p.address(i == 1).String(), port) }
			m.expect(t, []call{
				{"unseen by iptables, isolated, " + name, alone2.ns, "tcp", to(alone, 80), "no connection"},
				{"unseen by iptables, itself, " + name, alone.ns, "tcp", traffic.At(traffic.HostAddr(i), 8081), fmt.Sprintf("pod6 sees %s", []string{"10.83.0.1", "fd00:83::1"}[i])},
				{"unseen by iptables, isolated, udp, " + name, alone.ns, "udp", to(alone2, 53), "no answer"},
				{"unseen by iptables, same bridge, " + name, bridge2.ns, "tcp", to(bridge, 80), fmt.Sprintf("pod3 sees %s", bridge2.address(i == 1))},
				{"unseen by iptables, another bridge, " + name, far.ns, "tcp", to(bridge, 80), "no connection"},
			})
		}
		for _, p := range []*pod{plain, bridge, bridge2, far, alone, alone2} {
			if found := m.check(t, p.attachment); found != "" {
				t.Errorf("CHECK of pod%d: %s", p.pod, found)
			}
		}
		for _, p := range []*pod{bridge, bridge2, far, alone, alone2} {
			m.del(t, p.attachment)
		}
		m.expect(t, []call{{"who stayed", m.Host, "tcp", traffic.At(plain.address(false).String(), 80), "pod2 sees 10.80.0.1"}})
		for _, text := range []string{"10.81.", "10.82.", "10.83.", "fd00:81:", "fd00:83:", "veth"} {
			if left := lines(m.rules(), text); len(left) > 0 && text != "veth" || len(left) > len(lines(empty, text)) {
				t.Errorf("left of %s:\n%s", text, strings.Join(left, "\n"))
			}
		}
	})
}

// lines are those that hold part.
func lines(text, part string) []string {
	return slices.DeleteFunc(strings.Split(text, "\n"), func(line string) bool { return !strings.Contains(line, part) })
}

// TestForgedSource: a pod can't pass for another by a source address that isn't its own.
func TestForgedSource(t *testing.T) {
	onEachBackend(t, func(t *testing.T, m *machine) {
		target := m.attach(m.newPod(2, walled(1, `,"ingressPolicy":"same-bridge"`)), "udp :53")
		liar := m.attach(m.newPod(3, walled(2, `,"ingressPolicy":"same-bridge"`)))
		m.Run(m.Host, "sysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.cni2.rp_filter=0")
		m.Run(liar.ns, "ip addr add 203.0.113.9/32 dev lo")
		m.Run(m.Host, "ip route add 203.0.113.9/32 dev cni2")
		m.Run(liar.ns, "ip route replace 10.81.0.0/16 via 10.82.0.1 src 203.0.113.9")
		m.expect(t, []call{{"a forged source", liar.ns, "udp", traffic.At(target.address(false).String(), 53), "no answer"}})
	})
}

// TestFirewallWithoutPrograms: where a chain of iptables may drop and no program is there to say so, ADD fails and leaves nothing, and STATUS
// tells beforehand.
func TestFirewallWithoutPrograms(t *testing.T) {
	m := newMachineOf(t, t.TempDir())
	m.iptables = ""
	for _, line := range []string{"add table ip filter", "add chain ip filter FORWARD { type filter hook forward priority 0 ; policy drop ; }"} {
		m.RunWith(m.Host, "nft -f -", line)
	}
	a := m.newPod(2, walled(1, ""))
	if err := m.tryAdd(t, a.attachment); !errors.Is(err, netstate.ErrUnsupported) || !strings.Contains(err.Error(), "iptables-save is not installed") {
		t.Errorf("ADD = %v, want the program that is missing", err)
	}
	if left := lines(m.rules(), "10.81."); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	for _, step := range a.steps(t, cni.VerbStatus) {
		if err := m.engine.Status(t.Context(), step); step.Def.Info.Type == "firewall" && cni.CodeOf(err) != cni.CodeNotAvailable {
			t.Errorf("STATUS = %v, want code %d", err, cni.CodeNotAvailable)
		}
	}
	v6 := m.newPod(3, strings.Replace(walled(1, ""), `"10.81.0.0/16",`, "", 1))
	if err := m.tryAdd(t, v6.attachment); err != nil {
		t.Errorf("a pod of the other family: %v", err)
	}
}

// TestB060FirewallCheck: CHECK sees each thing that is missing, and a repair puts it back.
func TestB060FirewallCheck(t *testing.T) {
	t.Run("nftables", func(t *testing.T) {
		m := newMachine(t)
		a := m.attach(m.newPod(2, walled(1, `,"ingressPolicy":"isolated"`)))
		for _, line := range []string{
			"delete element inet cleat fw4 { 10.81.0.2 }", "delete element inet cleat fw_closed6 { fd00:81::2 }",
			"flush set bridge cleat fw_isolated", "flush chain inet cleat firewall", "flush chain inet cleat firewall_mark",
			"flush chain bridge cleat fw_isolated", "flush chain bridge cleat fw_origin",
		} {
			m.Run(m.Host, "nft "+line)
			if found := m.check(t, a.attachment); !strings.Contains(found, "fw") && !strings.Contains(found, "firewall") {
				t.Errorf("after %s: %q", line, found)
			}
			if wrong, err := m.engine.Repair(t.Context(), a.steps(t, cni.VerbCheck)); err != nil || len(wrong) == 0 {
				t.Errorf("repair after %s: %v, %v", line, wrong, err)
			}
			if found := m.check(t, a.attachment); found != "" {
				t.Errorf("after the repair of %s: %s", line, found)
			}
		}
	})
	onDockerHosts(t, func(t *testing.T, m *machine, programs string) {
		a := m.attach(m.newPod(2, walled(1, `,"ingressPolicy":"isolated"`)))
		m.Run(m.Host, programs+"/iptables -F FORWARD")
		if found := m.check(t, a.attachment); !strings.Contains(found, "iptables ip filter chain FORWARD rule") || strings.Contains(found, "ip6 filter") {
			t.Errorf("CHECK after a flush: %q", found)
		}
		if _, err := m.engine.Repair(t.Context(), a.steps(t, cni.VerbCheck)); err != nil {
			t.Error(err)
		}
		m.Serve(m.Outside, "tcp", ":8080", "outside")
		m.expect(t, []call{{"after the repair", a.ns, "tcp", "192.0.2.9:8080", "outside sees 192.0.2.1"}})
	})
}

// TestB054FirewallForgotten: a DEL that knows nothing, and GC, find what is the pod's by its mark, and no more.
func TestB054FirewallForgotten(t *testing.T) {
	onEachBackend(t, func(t *testing.T, m *machine) {
		kept := m.attach(m.newPod(2, walled(1, `,"ingressPolicy":"isolated"`)), "tcp :80")
		before := m.rules()
		a := m.attach(m.newPod(3, walled(1, `,"ingressPolicy":"isolated"`)))
		a.prev = nil
		m.del(t, a.attachment)
		if diff := cmp.Diff(before, m.rules()); diff != "" {
			t.Errorf("after DEL (-before +after)\n%s", diff)
		}
		m.attach(m.newPod(4, walled(1, `,"ingressPolicy":"isolated"`)))
		valid := []netstate.Owner{{Network: "walled1", ContainerID: "pod2", IfName: "eth0"}}
		if _, err := m.kernel.Collect(t.Context(), "walled1", valid, false); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(before, m.rules()); diff != "" {
			t.Errorf("after GC (-before +after)\n%s", diff)
		}
		if found := m.check(t, kept.attachment); found != "" {
			t.Errorf("CHECK of the other: %s", found)
		}
	})
}

// TestAdminChain: what the administrator puts before ours decides, and stays.
func TestAdminChain(t *testing.T) {
	onEachBackend(t, func(t *testing.T, m *machine) {
		m.Serve(m.Outside, "tcp", ":8080", "outside")
		a, b := m.attach(m.newPod(2, walled(1, `,"ingressPolicy":"same-bridge"`)), "tcp :80"), m.attach(m.newPod(3, walled(2, `,"ingressPolicy":"same-bridge"`)))
		if m.iptables == "" {
			m.Run(m.Host, "nft add rule inet cleat admin ip saddr 10.82.0.3 ip daddr 10.81.0.2 accept")
			m.Run(m.Host, "nft add rule inet cleat admin ip daddr 192.0.2.9 drop")
		} else {
			m.Run(m.Host, m.iptables+"/iptables -A CNI-ADMIN -s 10.82.0.3 -d 10.81.0.2 -j ACCEPT")
			m.Run(m.Host, m.iptables+"/iptables -A CNI-ADMIN -d 192.0.2.9 -j DROP")
		}
		for range 2 {
			m.expect(t, []call{
				{"allowed", b.ns, "tcp", "10.81.0.2:80", "pod2 sees 10.81.0.1"},
				{"forbidden", a.ns, "tcp", "192.0.2.9:8080", "no connection"},
			})
			m.attach(m.newPod(4, walled(1, `,"ingressPolicy":"same-bridge"`)))
			m.del(t, m.newPod(4, walled(1, `,"ingressPolicy":"same-bridge"`)).attachment)
		}
	})
}

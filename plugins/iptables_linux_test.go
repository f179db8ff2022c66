package plugins_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/sandbox"
	"github.com/cleat-cni/cleat/netstate"
)

// onBothKinds runs a test on machines with each kind of the programs of iptables.
func onBothKinds(t *testing.T, run func(t *testing.T, m *machine)) {
	t.Helper()
	for _, kind := range []string{"legacy", "nft"} {
		t.Run(kind, func(t *testing.T) {
			sandbox.Require(t)
			run(t, newMachineOf(t, sandbox.Iptables(t, kind)))
		})
	}
}

// TestB062ExternalSetMarkChain: the chain of somebody else must be there, and marks in place of ours.
func TestB062ExternalSetMarkChain(t *testing.T) {
	onBothKinds(t, func(t *testing.T, m *machine) {
		conf := strings.Replace(podNetwork, `"type":"portmap",`, `"type":"portmap","externalSetMarkChain":"KUBE-MARK-MASQ",`, 1)
		before := m.rules()
		a := m.newPod(2, conf, tcp(8080, 80))
		if err := m.tryAdd(t, a.attachment); err == nil || !strings.Contains(err.Error(), "KUBE-MARK-MASQ: does not exist") {
			t.Errorf("without the chain: %v", err)
		}
		if strings.Contains(m.rules(), "pod2") {
			t.Errorf("rules are left:\n%s", cmp.Diff(before, m.rules()))
		}
		for _, program := range []string{"iptables", "ip6tables"} {
			m.Run(m.Host, m.iptables+"/"+program+" -t nat -N KUBE-MARK-MASQ")
			m.Run(m.Host, m.iptables+"/"+program+" -t nat -A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000")
			m.Run(m.Host, m.iptables+"/"+program+" -t nat -A POSTROUTING -m mark --mark 0x4000/0x4000 -j MASQUERADE")
		}
		m.attach(a, "tcp :80")
		m.expect(t, []call{
			{"self", a.ns, "tcp", "192.0.2.1:8080", "pod2 sees 10.88.0.1"},
			{"self, v6", a.ns, "tcp", "[2001:db8::1]:8080", "pod2 sees fd00:88::1"},
			{"localhost", m.Host, "tcp", "127.0.0.1:8080", "pod2 sees 10.88.0.1"},
			{"outside", m.Outside, "tcp", "192.0.2.1:8080", "pod2 sees 192.0.2.9"},
		})
		m.del(t, a.attachment)
		if rules := m.rules(); !strings.Contains(rules, "KUBE-MARK-MASQ") || strings.Contains(rules, "pod2") {
			t.Errorf("after DEL:\n%s", rules)
		}
	})
}

func TestConditions(t *testing.T) {
	onBothKinds(t, func(t *testing.T, m *machine) {
		m.Run(m.Outside, "ip addr add 192.0.2.10/24 dev up0")
		conf := strings.Replace(podNetwork, `"type":"portmap",`,
			`"type":"portmap","conditionsV4":["!","-s","192.0.2.9","-m","comment","--comment","not \"him\""],`, 1)
		a := m.attach(m.newPod(2, conf, tcp(8080, 80)), "tcp :80")
		m.expect(t, []call{
			{"who is excluded", m.Outside, "tcp", "192.0.2.1:8080", "no connection"},
			{"the other family", m.Outside, "tcp", "[2001:db8::1]:8080", "pod2 sees 2001:db8::9"},
			{"the host", m.Host, "tcp", "192.0.2.1:8080", "pod2 sees 192.0.2.1"},
		})
		if found := m.check(t, a.attachment); found != "" {
			t.Errorf("CHECK: %s", found)
		}
		m.del(t, a.attachment)
		if rules := m.rules(); strings.Contains(rules, "him") {
			t.Errorf("after DEL:\n%s", rules)
		}
	})
}

// TestTwoInterfacesOfOneNetwork: a container twice on one network, and DEL of one leaves the other masqueraded and reachable.
func TestTwoInterfacesOfOneNetwork(t *testing.T) {
	onBothKinds(t, func(t *testing.T, m *machine) {
		m.Serve(m.Outside, "tcp", ":8080", "outside")
		first := m.attach(m.newPod(2, podNetwork, tcp(8080, 80)), "tcp :80")
		second := &attachment{network: first.network, pod: 3, container: 2, ifName: "eth1", netns: first.netns, ports: []cni.PortMapping{tcp(8081, 80)}}
		m.add(t, second)
		m.expect(t, []call{{"the second port", m.Outside, "tcp", "[2001:db8::1]:8081", "pod2 sees 2001:db8::9"}})
		m.del(t, second)
		m.expect(t, []call{
			{"to the world", first.ns, "tcp", "192.0.2.9:8080", "outside sees 192.0.2.1"},
			{"to the world, v6", first.ns, "tcp", "[2001:db8::9]:8080", "outside sees 2001:db8::1"},
			{"the first port", m.Outside, "tcp", "192.0.2.1:8080", "pod2 sees 192.0.2.9"},
			{"the second port", m.Outside, "tcp", "192.0.2.1:8081", "no connection"},
		})
		if found := m.check(t, first.attachment); found != "" {
			t.Errorf("CHECK of the first: %s", found)
		}
	})
}

// TestB060FlushedIptables: CHECK names what a flush took, and a repair brings it back.
func TestB060FlushedIptables(t *testing.T) {
	onBothKinds(t, func(t *testing.T, m *machine) {
		a := m.attach(m.newPod(2, podNetwork, tcp(8080, 80)), "tcp :80")
		m.Run(m.Host, m.iptables+"/iptables -t nat -F")
		found := m.check(t, a.attachment)
		for _, rule := range []string{
			"iptables ip nat chain POSTROUTING rule -j CLEAT-MASQ",
			"chain CLEAT-MASQ rule -s 10.88.0.2/32 ! -d 10.88.0.0/16 -j MASQUERADE",
			"chain CLEAT-tcp-8080 rule -p tcp -j DNAT --to-destination 10.88.0.2:80",
		} {
			if !strings.Contains(found, rule) {
				t.Errorf("CHECK does not name %q:\n%s", rule, found)
			}
		}
		if strings.Contains(found, "iptables ip6") {
			t.Errorf("CHECK names the other family, which was not flushed:\n%s", found)
		}
		if wrong, err := m.engine.Repair(t.Context(), a.steps(t, cni.VerbCheck)); err != nil || len(wrong) == 0 {
			t.Errorf("repair: %v, %v", wrong, err)
		}
		if found := m.check(t, a.attachment); found != "" {
			t.Errorf("CHECK after the repair: %s", found)
		}
		m.expect(t, []call{{"after the repair", m.Outside, "tcp", "192.0.2.1:8080", "pod2 sees 192.0.2.9"}})
		m.Run(m.Host, m.iptables+"/iptables -t nat -F")
		m.del(t, a.attachment)
		if strings.Contains(m.rules(), "CLEAT-tcp-8080") {
			t.Errorf("the emptied chain is left:\n%s", m.rules())
		}
		m.attach(m.newPod(3, podNetwork, tcp(8080, 80)), "tcp :80")
		m.expect(t, []call{{"after it", m.Outside, "tcp", "192.0.2.1:8080", "pod3 sees 192.0.2.9"}})
	})
}

// counting makes the machine count the calls of the programs.
func (m *machine) counting() (calls func() string) {
	m.t.Helper()
	real, log := m.iptables+".real", filepath.Join(m.t.TempDir(), "calls")
	if err := os.Rename(m.iptables, real); err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { os.RemoveAll(real) })
	if err := os.Mkdir(m.iptables, 0o755); err != nil {
		m.t.Fatal(err)
	}
	for _, name := range []string{"iptables-save", "iptables-restore", "ip6tables-save", "ip6tables-restore"} {
		script := fmt.Sprintf("#!/bin/sh\necho %s >>%s\nexec %s/%s \"$@\"\n", name, log, real, name)
		if err := os.WriteFile(filepath.Join(m.iptables, name), []byte(script), 0o755); err != nil {
			m.t.Fatal(err)
		}
	}
	return func() string {
		data, err := os.ReadFile(log)
		if err != nil && !os.IsNotExist(err) {
			m.t.Fatal(err)
		}
		if err == nil {
			if err := os.Remove(log); err != nil {
				m.t.Fatal(err)
			}
		}
		return strings.Join(strings.Fields(string(data)), " ")
	}
}

// TestB007IptablesCalls, which is B101 too: without mappings no program is started, and with two hundred it is one save
// and one restore a family.
func TestB007IptablesCalls(t *testing.T) {
	onBothKinds(t, func(t *testing.T, m *machine) {
		calls := m.counting()
		conf := strings.Replace(podNetwork, `"ipMasq":true,`, "", 1)
		quiet := m.attach(m.newPod(2, conf))
		if found := m.check(t, quiet.attachment); found != "" {
			t.Errorf("CHECK: %s", found)
		}
		m.del(t, quiet.attachment)
		if got := calls(); got != "" {
			t.Errorf("without mappings: %s", got)
		}
		var ports []cni.PortMapping
		for port := range 200 {
			ports = append(ports, tcp(20000+port, 80))
		}
		const once = "iptables-save iptables-restore ip6tables-save ip6tables-restore"
		a := m.attach(m.newPod(3, podNetwork, ports...), "tcp :80")
		if got := calls(); got != once {
			t.Errorf("ADD: %s, want %s", got, once)
		}
		m.expect(t, []call{{"the last port", m.Outside, "tcp", "192.0.2.1:20199", "pod3 sees 192.0.2.9"}})
		m.del(t, a.attachment)
		if got := calls(); got != once {
			t.Errorf("DEL: %s, want %s", got, once)
		}
		if rules := m.rules(); strings.Contains(rules, "pod3") || strings.Contains(rules, "CLEAT-tcp") {
			t.Error("after DEL there are rules of the pod")
		}
	})
}

// TestIptablesCollect: GC finds by mark what a DEL that never came would have removed.
func TestIptablesCollect(t *testing.T) {
	onBothKinds(t, func(t *testing.T, m *machine) {
		kept := m.attach(m.newPod(2, podNetwork, tcp(8080, 80)), "tcp :80")
		before := m.rules()
		m.attach(m.newPod(3, podNetwork, tcp(8081, 80)))
		owner := netstate.Owner{Network: "pods", ContainerID: "pod2", IfName: "eth0"}
		if _, err := m.kernel.Collect(t.Context(), "pods", []netstate.Owner{owner}, false); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(before, m.rules()); diff != "" {
			t.Errorf("rules (-before +after)\n%s", diff)
		}
		m.expect(t, []call{{"the other pod", m.Outside, "tcp", "192.0.2.1:8080", "pod2 sees 192.0.2.9"}})
		if found := m.check(t, kept.attachment); found != "" {
			t.Errorf("CHECK: %s", found)
		}
	})
}

package plugins_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/netns"
	"github.com/cleat-cni/cleat/internal/originals"
	"github.com/cleat-cni/cleat/internal/sandbox/traffic"
	"github.com/cleat-cni/cleat/netstate"
)

const tuningConf = `{"type":"tuning","mac":"02:00:00:00:00:07","mtu":1400,"promisc":true,"allmulti":true,"txQLen":500,
  "sysctl":{"net.core.somaxconn":"500","net.ipv4.conf.IFNAME.arp_filter":"1"},"dataDir":"DATA"}`

// tuned lists what tuning may change in a pod.
func (m *machine) tuned(ns *netns.Handle) string {
	link := strings.ReplaceAll(m.Run(ns, "ip -d -o link show dev eth0"), "\\", "\n")
	var kept []string
	for _, word := range []string{"mtu", "qlen", "promiscuity", "allmulti", "link/ether"} {
		if _, after, ok := strings.Cut(link, word+" "); ok {
			kept = append(kept, word+" "+strings.Fields(after)[0])
		}
	}
	return strings.Join(kept, " ") + "\n" + m.Run(ns, "sysctl net.core.somaxconn net.ipv4.conf.eth0.arp_filter")
}

func TestB065TuningInOnePass(t *testing.T) {
	m := newMachine(t)
	data := t.TempDir()
	network := strings.Replace(podNetwork, `{"type":"portmap"`, strings.Replace(tuningConf, "DATA", data, 1)+`,{"type":"portmap"`, 1)
	p := m.newPod(2, network, tcp(8080, 80))
	somaxconn := m.Run(p.ns, "sysctl net.core.somaxconn")
	m.attach(p, "tcp :80")
	want := "mtu 1400 qlen 500 promiscuity 1 allmulti 1 link/ether 02:00:00:00:00:07\nnet.core.somaxconn = 500\nnet.ipv4.conf.eth0.arp_filter = 1\n"
	if diff := cmp.Diff(want, m.tuned(p.ns)); diff != "" {
		t.Errorf("after ADD (-want +got)\n%s", diff)
	}
	if found := m.check(t, p.attachment); found != "" {
		t.Errorf("CHECK: %s", found)
	}
	m.expect(t, []call{{"a port of the tuned pod", m.Outside, "tcp", "192.0.2.1:8080", "pod2 sees 192.0.2.9"}})
	for _, dev := range p.prev.Interfaces {
		if dev.Name == "eth0" && (dev.MAC != "02:00:00:00:00:07" || dev.MTU != 1400) {
			t.Errorf("the result's interface is %v", dev)
		}
	}
	m.Run(p.ns, "ip link set eth0 promisc off mtu 1300")
	if diffs, err := m.engine.Repair(t.Context(), p.steps(t, cni.VerbCheck)); err != nil || len(diffs) != 1 {
		t.Errorf("repair: %v, %v", diffs, err)
	}
	if diff := cmp.Diff(want, m.tuned(p.ns)); diff != "" {
		t.Errorf("after repair (-want +got)\n%s", diff)
	}
	m.del(t, p.attachment)
	if after := m.Run(p.ns, "sysctl net.core.somaxconn"); after != somaxconn {
		t.Errorf("after DEL %s, before ADD %s", after, somaxconn)
	}
	if left, err := os.ReadDir(data); err != nil || len(left) > 0 {
		t.Errorf("left in the folder: %v, %v", left, err)
	}
}

// TestB065TuningPutsBack: of an interface that outlives the attachment all is as before after DEL.
func TestB065TuningPutsBack(t *testing.T) {
	m := newMachine(t)
	for name, damage := range map[string]func(t *testing.T, file string){
		"told":    func(*testing.T, string) {},
		"missing": func(t *testing.T, file string) { remove(t, file) },
		"corrupt": func(t *testing.T, file string) { write(t, file, "{") },
		// The file of the reference's plugin.
		"reference": func(t *testing.T, file string) {
			write(t, file, `{"mac":"02:00:00:00:00:01","promisc":false,"mtu":1450,"allmulti":false,"txQLen":1000}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			data := t.TempDir()
			p := m.newPod(2, `{"cniVersion":"1.1.0","name":"pods","plugins":[`+strings.Replace(tuningConf, "DATA", data, 1)+`]}`)
			m.Run(m.Host, "ip link add other"+name[:2]+" mtu 1450 type veth peer name eth0 address 02:00:00:00:00:01 mtu 1450 netns "+traffic.Inherited(p.ns))
			m.Run(p.ns, "ip link set eth0 up")
			before := m.tuned(p.ns)
			p.prev = &cni.Result{Interfaces: []cni.Interface{{Name: "eth0", Sandbox: p.netns}}}
			for range 2 { // the second does not take the tuned values for how things were
				m.add(t, p.attachment)
			}
			tuned := m.tuned(p.ns)
			if found := m.check(t, p.attachment); found != "" || tuned == before {
				t.Errorf("CHECK: %s\n%s", found, tuned)
			}
			damage(t, filepath.Join(data, "pod2_eth0.json"))
			for range 2 {
				m.del(t, p.attachment)
			}
			want := before
			switch name {
			case "missing", "corrupt":
				want = tuned
			case "reference": // it knows no sysctls
				link, _, _ := strings.Cut(before, "\n")
				_, values, _ := strings.Cut(tuned, "\n")
				want = link + "\n" + values
			}
			if diff := cmp.Diff(want, m.tuned(p.ns)); diff != "" {
				t.Errorf("after DEL (-want +got)\n%s", diff)
			}
			if left, err := os.ReadDir(data); err != nil || len(left) > 0 {
				t.Errorf("left in the folder: %v, %v", left, err)
			}
		})
	}
}

// TestB065TuningFails: an ADD that fails leaves everything as it was, and no file.
func TestB065TuningFails(t *testing.T) {
	m := newMachine(t)
	data := t.TempDir()
	conf := strings.Replace(strings.Replace(tuningConf, "DATA", data, 1), `"net.ipv4.conf.IFNAME`, `"net.ipv4.conf.none.arp_filter":"1","net.ipv4.conf.IFNAME`, 1)
	p := m.newPod(2, `{"cniVersion":"1.1.0","name":"pods","plugins":[`+conf+`]}`)
	m.Run(p.ns, "ip link add eth0 type veth peer name eth1")
	before := m.tuned(p.ns)
	p.prev = &cni.Result{Interfaces: []cni.Interface{{Name: "eth0", Sandbox: p.netns}}}
	if err := m.tryAdd(t, p.attachment); err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("ADD: %v", err)
	}
	if diff := cmp.Diff(before, m.tuned(p.ns)); diff != "" {
		t.Errorf("after the ADD that failed (-before +after)\n%s", diff)
	}
	if left, err := os.ReadDir(data); err != nil || len(left) > 0 {
		t.Errorf("left in the folder: %v, %v", left, err)
	}
}

// TestTuningCollected: GC forgets what was kept for those who are gone, of this network.
func TestTuningCollected(t *testing.T) {
	m := newMachine(t)
	data := t.TempDir()
	p := m.newPod(2, `{"cniVersion":"1.1.0","name":"pods","plugins":[`+strings.Replace(tuningConf, "DATA", data, 1)+`]}`)
	m.Run(p.ns, "ip link add eth0 type veth peer name eth1")
	p.prev = &cni.Result{Interfaces: []cni.Interface{{Name: "eth0", Sandbox: p.netns}}}
	m.add(t, p.attachment)
	other := netstate.Owner{Network: "others", ContainerID: "x", IfName: "eth0"}
	if _, err := (originals.Store{}).Save(data, netstate.State{Owner: other, Sysctls: []netstate.Sysctl{{Place: netstate.Pod, Name: "net/x", Value: "1"}}}); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(data, "old_eth0.json"), `{"mtu":1500}`)
	step := p.steps(t, cni.VerbCheck)[0]
	for i, valid := range [][]netstate.Owner{{p.netOwner()}, nil} {
		freed, err := m.engine.Collect(t.Context(), step, valid, false)
		if err != nil || len(freed) != i {
			t.Errorf("with %v valid: %v, %v", valid, freed, err)
		}
	}
	if left, err := os.ReadDir(data); err != nil || len(left) != 2 {
		t.Errorf("left in the folder: %v, %v; want another network's and the reference's", left, err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

// TestTuningAfterBridge: what bridge sets and tuning sets otherwise is as tuning set it for CHECK too: of the list, and of each
// plugin by itself, which knows of the others only what the result tells. Repair leaves it so.
func TestTuningAfterBridge(t *testing.T) {
	const retuned = `{"type":"tuning","mtu":1400,"mac":"02:00:00:00:00:07","dataDir":"DATA",
	  "sysctl":{"net.ipv6.conf.IFNAME.accept_ra":"2","net.ipv4.conf.IFNAME.arp_notify":"0","net.ipv6.conf.IFNAME.disable_ipv6":"0"}}`
	for _, version := range []string{"0.4.0", "1.0.0", "1.1.0"} {
		t.Run(version, func(t *testing.T) {
			m := newMachine(t)
			network := strings.Replace(podNetwork, `{"type":"portmap"`, strings.Replace(retuned, "DATA", t.TempDir(), 1)+`,{"type":"portmap"`, 1)
			p := m.newPod(2, strings.Replace(network, "1.1.0", version, 1))
			// As container engines make namespaces: the address can only be given after IPv6 is on again.
			m.Run(p.ns, "sysctl -qw net.ipv6.conf.default.disable_ipv6=1")
			m.attach(p)
			values := func() string {
				return m.Run(p.ns, "sysctl -n net.ipv6.conf.eth0.accept_ra net.ipv4.conf.eth0.arp_notify") + m.Run(p.ns, "ip -o link show dev eth0")
			}
			before := values()
			if found := m.check(t, p.attachment); found != "" {
				t.Errorf("CHECK: %s", found)
			}
			m.Run(p.ns, "sysctl -qw net.ipv6.conf.eth0.accept_ra=0 net.ipv4.conf.eth0.arp_notify=1")
			m.Run(p.ns, "ip link set eth0 mtu 1300")
			found := m.check(t, p.attachment)
			for _, missed := range []string{"accept_ra value 2", "arp_notify value 0", "eth0 kind veth mac 02:00:00:00:00:07 mtu 1400"} {
				if !strings.Contains(found, missed) {
					t.Errorf("CHECK does not say %q:\n%s", missed, found)
				}
			}
			if diffs, err := m.engine.Repair(t.Context(), p.steps(t, cni.VerbCheck)); err != nil || len(diffs) != 3 {
				t.Errorf("repair: %v, %v", diffs, err)
			}
			if diff := cmp.Diff(before, values()); diff != "" {
				t.Errorf("after repair (-before +after)\n%s", diff)
			}
		})
	}
}

// TestTuningAndSpoofCheck: a pod that is held to its MAC talks from the one that tuning gives it, made in one pass or plugin by plugin, from no
// other, and a DEL that is told nothing of it leaves nothing.
func TestTuningAndSpoofCheck(t *testing.T) {
	for _, passes := range []string{"one-pass", "plugin-by-plugin"} {
		t.Run(passes, func(t *testing.T) {
			m := newMachine(t)
			network := strings.Replace(podNetwork, `"type":"bridge"`, `"type":"bridge","capabilities":{"mac":true},"runtimeConfig":{"mac":"02:00:00:00:00:05"}`, 1)
			network = strings.Replace(network, `{"type":"portmap"`, strings.Replace(tuningConf, "DATA", t.TempDir(), 1)+`,{"type":"portmap"`, 1)
			other := m.attach(m.newPod(3, podNetwork), "tcp :80")
			empty := m.rules()
			p := m.newPod(2, network)
			if passes == "one-pass" {
				m.add(t, p.attachment)
			} else {
				m.addByPlugin(t, p.attachment)
			}
			to := traffic.At(other.address(false).String(), 80)
			m.expect(t, []call{{"tuning's MAC", p.ns, "tcp", to, "pod3 sees 10.88.0.2"}})
			if found := m.check(t, p.attachment); found != "" {
				t.Errorf("CHECK: %s", found)
			}
			m.Run(m.Host, "nft flush table bridge cleat")
			m.Run(m.Host, "nft flush set bridge cleat macspoof_macs")
			if wrong, err := m.engine.Repair(t.Context(), p.steps(t, cni.VerbCheck)); err != nil || len(wrong) != 4 {
				t.Errorf("repair: %v, %v", wrong, err)
			}
			if wrong, err := m.engine.Repair(t.Context(), other.steps(t, cni.VerbCheck)); err != nil || len(wrong) != 1 {
				t.Errorf("repair of the other: %v, %v", wrong, err)
			}
			m.expect(t, []call{{"after the repair", p.ns, "tcp", to, "pod3 sees 10.88.0.2"}})
			m.Run(p.ns, "ip link set eth0 address 02:00:00:00:00:99")
			m.expect(t, []call{{"a MAC that nobody gave", p.ns, "tcp", to, "no connection"}})
			p.network = podNetwork
			m.del(t, p.attachment)
			if diff := cmp.Diff(empty, m.rules()); diff != "" {
				t.Errorf("after DEL (-want +got)\n%s", diff)
			}
		})
	}
}

package plugins_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/sandbox"
	"github.com/cleat-cni/cleat/internal/sandbox/traffic"
	"github.com/cleat-cni/cleat/netstate"
)

func TestB042AddressesAreUsable(t *testing.T) {
	for _, tc := range []struct{ name, dad string }{{"at-once", "false"}, {"after-detection", "true"}} {
		t.Run(tc.name, func(t *testing.T) {
			m := newMachine(t)
			// hairpinMode sends the probes back to the pod, which must not take them for another host's.
			p := m.attach(m.newPod(2, strings.Replace(podNetwork, `"macspoofchk":true`, `"enabledad":`+tc.dad, 1)))
			for line := range strings.Lines(m.Run(p.ns, "ip -o -6 addr show dev eth0 scope global")) {
				if strings.Contains(line, "tentative") || strings.Contains(line, "dadfailed") {
					t.Errorf("after ADD: %s", line)
				}
			}
			for name, want := range map[string]string{"accept_ra": "0", "autoconf": "0"} {
				if got := strings.TrimSpace(m.Run(p.ns, "sysctl -n net.ipv6.conf.eth0."+name)); got != want {
					t.Errorf("%s is %s, want %s", name, got, want)
				}
			}
			if got := strings.TrimSpace(m.Run(m.Host, "sysctl -n net.ipv6.conf.cni0.accept_ra")); got != "0" {
				t.Errorf("accept_ra of the bridge is %s", got)
			}
		})
	}
}

func TestB037ForcedAddress(t *testing.T) {
	m := newMachine(t)
	m.Run(m.Host, "ip link add cni0 address 02:00:00:00:00:aa type bridge")
	m.Run(m.Host, "ip addr add 10.1.0.1/24 dev cni0")
	addrs := func() string { return m.Run(m.Host, "ip -o -4 addr show dev cni0") }
	err := m.tryAdd(t, m.newPod(2, podNetwork).attachment)
	if cni.CodeOf(err) != cni.CodeInvalidConfig || !strings.Contains(err.Error(), "10.1.0.1/24") || !strings.Contains(addrs(), "10.1.0.1/24") {
		t.Errorf("without forceAddress: %v\n%s", err, addrs())
	}
	forced := strings.Replace(podNetwork, `"ipMasq":true`, `"forceAddress":true`, 1)
	// An ADD that fails later puts the old address back.
	taken := m.newPod(3, forced)
	m.Run(taken.ns, "ip link add eth0 type bridge")
	if err := m.tryAdd(t, taken.attachment); !errors.Is(err, netstate.ErrExist) || !strings.Contains(addrs(), "10.1.0.1/24") {
		t.Errorf("ADD into a pod that has an eth0: %v\n%s", err, addrs())
	}
	p := m.attach(m.newPod(4, forced), "tcp :80")
	if now := addrs(); strings.Contains(now, "10.1.0.1/24") || !strings.Contains(now, "10.88.0.1/16") {
		t.Errorf("with forceAddress: %s", now)
	}
	m.expect(t, []call{{"host", m.Host, "tcp", traffic.At(p.address(false).String(), 80), "pod4 sees 10.88.0.1"}})
	i := slices.IndexFunc(p.prev.Interfaces, func(dev cni.Interface) bool { return dev.Name == "cni0" })
	if mac := p.prev.Interfaces[i].MAC; mac != "02:00:00:00:00:aa" {
		t.Errorf("the bridge's MAC is %s in the result, and was there before", mac)
	}
	if found := m.check(t, p.attachment); found != "" {
		t.Errorf("CHECK: %s", found)
	}
}

func TestB005DeadPodsPort(t *testing.T) { onEachBackend(t, testB005DeadPodsPort) }

func testB005DeadPodsPort(t *testing.T, m *machine) {
	first, second := m.attach(m.newPod(2, podNetwork, tcp(8080, 80)), "tcp :80"), m.newPod(3, podNetwork, tcp(8080, 80))
	if err := m.tryAdd(t, second.attachment); !errors.Is(err, netstate.ErrInUse) || !strings.Contains(err.Error(), "pods/pod2/eth0") {
		t.Errorf("the port of a living pod: %v", err)
	}
	m.expect(t, []call{{"the first pod", m.Outside, "tcp", "192.0.2.1:8080", "pod2 sees 192.0.2.9"}})
	i := slices.IndexFunc(first.prev.Interfaces, func(dev cni.Interface) bool { return strings.HasPrefix(dev.Name, "veth") })
	m.Run(m.Host, "ip link del "+first.prev.Interfaces[i].Name)
	m.attach(second, "tcp :80")
	m.del(t, first.attachment)
	m.expect(t, []call{{"the second pod", m.Outside, "tcp", "192.0.2.1:8080", "pod3 sees 192.0.2.9"}})
	if found := m.check(t, second.attachment); found != "" {
		t.Errorf("CHECK: %s", found)
	}
}

func TestB048VLANs(t *testing.T) {
	m := newMachine(t)
	if err := m.Host.Do(func() error {
		return exec.Command("ip", "link", "add", "probe", "type", "bridge", "vlan_filtering", "1").Run()
	}); err != nil {
		sandbox.Need(t, "vlan_filtering", err.Error())
	}
	m.Run(m.Host, "ip link del probe")
	conf := func(options, subnet string) string {
		return fmt.Sprintf(`{"cniVersion":"1.1.0","name":"v","plugins":[{"type":"bridge",%s,"ipam":{"type":"numbered","subnets":["%s"]}}]}`, options, subnet)
	}
	a := m.attach(m.newPod(2, conf(`"isDefaultGateway":true,"vlan":100`, "10.100.0.0/24")))
	b := m.attach(m.newPod(3, conf(`"isDefaultGateway":true,"vlan":100`, "10.100.0.0/24")), "tcp :80")
	stranger := m.attach(m.newPod(4, conf(`"vlan":200,"vlanTrunk":[{"id":42},{"minID":300,"maxID":303}]`, "10.100.0.0/24")))
	to := traffic.At(b.address(false).String(), 80)
	m.expect(t, []call{
		{"same vlan", a.ns, "tcp", to, "pod3 sees 10.100.0.2"},
		{"the gateway", m.Host, "tcp", to, "pod3 sees 10.100.0.1"},
		{"another vlan", stranger.ns, "tcp", to, "no connection"},
	})
	for _, p := range []*pod{a, b, stranger} {
		if found := m.check(t, p.attachment); found != "" {
			t.Errorf("CHECK of pod%d: %s", p.pod, found)
		}
		m.del(t, p.attachment)
	}
}

// TestHairpinWithoutBridgeNetfilter: frames that only cross the bridge are not translated back, so that the
// pod must not see its neighbour's address.
func TestHairpinWithoutBridgeNetfilter(t *testing.T) {
	m := newMachine(t)
	if _, err := os.Stat("/proc/sys/net/bridge"); err == nil {
		m.Run(m.Host, "sysctl -qw net.bridge.bridge-nf-call-iptables=0")
		m.Run(m.Host, "sysctl -qw net.bridge.bridge-nf-call-ip6tables=0")
	}
	network := strings.Replace(podNetwork, `"hairpinMode":true,`, "", 1)
	a, b := m.attach(m.newPod(2, network, tcp(8080, 80)), "tcp :80"), m.attach(m.newPod(3, network))
	for i, gateway := range []string{"10.88.0.1", "fd00:88::1"} {
		m.expect(t, []call{
			{"the pod itself", a.ns, "tcp", traffic.At(traffic.HostAddr(i), 8080), "pod2 sees " + gateway},
			{"sibling", b.ns, "tcp", traffic.At(traffic.HostAddr(i), 8080), "pod2 sees " + gateway},
			{"pod to pod", b.ns, "tcp", traffic.At(a.address(i == 1).String(), 80), "pod2 sees " + b.address(i == 1).String()},
		})
	}
}

func TestFirstPodsAtOnce(t *testing.T) {
	const count = 16
	m := newMachine(t)
	pods := make([]*pod, count)
	for i := range pods {
		pods[i] = m.newPod(i+2, podNetwork, tcp(8000+i, 80))
	}
	atOnce := func(do func(p *pod) error) {
		var wg sync.WaitGroup
		for _, p := range pods {
			wg.Go(func() {
				if err := do(p); err != nil {
					t.Errorf("pod%d: %v", p.pod, err)
				}
			})
		}
		wg.Wait()
	}
	atOnce(func(p *pod) error { return m.tryAdd(t, p.attachment) })
	if t.Failed() {
		return
	}
	for _, p := range pods {
		if found := m.check(t, p.attachment); found != "" {
			t.Errorf("CHECK of pod%d: %s", p.pod, found)
		}
	}
	atOnce(func(p *pod) error { return m.engine.DelList(t.Context(), p.steps(t, cni.VerbDel)) })
	if list := m.Run(m.Host, "nft list ruleset") + m.Run(m.Host, "ip -o link"); strings.Contains(list, "elements") || strings.Contains(list, "veth") && strings.Contains(list, "master cni0") {
		t.Errorf("left after DEL:\n%s", list)
	}
}

package plugins_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/sandbox/traffic"
	"github.com/cleat-cni/cleat/netstate"
)

// routedNetwork is a network of two families, each pod on a wire of its own.
const routedNetwork = `{"cniVersion":"1.1.0","name":"pods","plugins":[
  {"type":"loopback"},
  {"type":"ptp","ipMasq":true,"ipam":{"type":"numbered","subnets":["10.88.0.0/16","fd00:88::/64"],"routes":["0.0.0.0/0","::/0"]}},
  {"type":"portmap","capabilities":{"portMappings":true}}]}`

func TestRoutedPodsTalk(t *testing.T) {
	onEachBackend(t, func(t *testing.T, m *machine) {
		ports := []cni.PortMapping{tcp(8080, 80), udp(5353, 53)}
		a := m.attach(m.newPod(2, routedNetwork, ports...), "tcp :80", "udp :53")
		b := m.attach(m.newPod(3, routedNetwork), "tcp :80", "udp :53")
		m.Serve(m.Outside, "tcp", ":8080", "outside")
		for name, i := range traffic.Families() {
			t.Run(name, func(t *testing.T) {
				ipA, ipB := a.address(i == 1).String(), b.address(i == 1).String()
				gateway := []string{"10.88.0.1", "fd00:88::1"}[i]
				m.expect(t, []call{
					{"pod to pod", b.ns, "tcp", traffic.At(ipA, 80), "pod2 sees " + ipB},
					{"pod to pod back", a.ns, "udp", traffic.At(ipB, 53), "pod3 sees " + ipA},
					{"host to pod", m.Host, "tcp", traffic.At(ipA, 80), "pod2 sees " + gateway},
					{"pod to the world", a.ns, "tcp", traffic.At(traffic.OutsideAddr(i), 8080), "outside sees " + traffic.HostAddr(i)},
					{"the world to a port", m.Outside, "tcp", traffic.At(traffic.HostAddr(i), 8080), "pod2 sees " + traffic.OutsideAddr(i)},
					{"the world to a port, udp", m.Outside, "udp", traffic.At(traffic.HostAddr(i), 5353), "pod2 sees " + traffic.OutsideAddr(i)},
					{"host to its port", m.Host, "tcp", traffic.At(traffic.HostAddr(i), 8080), "pod2 sees " + traffic.HostAddr(i)},
					{"the pod itself", a.ns, "tcp", traffic.At(traffic.HostAddr(i), 8080), "pod2 sees " + gateway},
					{"sibling", b.ns, "tcp", traffic.At(traffic.HostAddr(i), 8080), "pod2 sees " + gateway},
					{"sibling by the gateway", b.ns, "udp", traffic.At(gateway, 5353), "pod2 sees " + gateway},
				})
			})
		}
		m.expect(t, []call{{"localhost", m.Host, "tcp", "127.0.0.1:8080", "pod2 sees 10.88.0.1"}})
		for _, p := range []*pod{a, b} {
			if found := m.check(t, p.attachment); found != "" {
				t.Errorf("CHECK of pod%d: %s", p.pod, found)
			}
		}
		// Behind lo, with its two addresses: the host's end, the pod's, whose the addresses are.
		if list := a.prev.Interfaces; len(list) != 3 || list[1].Sandbox != "" || list[2].Name != "eth0" || a.prev.IPs[2].Interface != cni.Some(2) {
			t.Errorf("result %+v", a.prev)
		}
	})
}

// TestRoutedSeveralAddresses: two subnets of a family, and an address that is all of its subnet.
func TestRoutedSeveralAddresses(t *testing.T) {
	m := newMachine(t)
	conf := func(subnets string) string { return strings.Replace(routedNetwork, `"10.88.0.0/16"`, subnets, 1) }
	a := m.attach(m.newPod(2, conf(`"10.88.0.0/16","10.89.0.0/16"`)), "tcp :80")
	b := m.attach(m.newPod(3, conf(`"10.88.0.0/16","10.90.0.0/24"`)))
	m.expect(t, []call{
		{"the first address", b.ns, "tcp", "10.88.0.2:80", "pod2 sees 10.88.0.3"},
		{"the second address", m.Host, "tcp", "10.89.0.2:80", "pod2 sees 10.88.0.1"},
		{"IPv6", b.ns, "tcp", "[fd00:88::2]:80", "pod2 sees fd00:88::3"},
	})
	if found := m.check(t, a.attachment); found != "" {
		t.Errorf("CHECK: %s", found)
	}
}

// TestRoutedNothingIsLeft is W-M1 and W-M3: a DEL with whatever is known leaves what one ADD and DEL leave, and so does an
// ADD that fails.
func TestRoutedNothingIsLeft(t *testing.T) {
	onEachBackend(t, func(t *testing.T, m *machine) {
		ports := []cni.PortMapping{tcp(8080, 80)}
		before := m.leavesNothing(t, routedNetwork, ports...)
		taken := m.newPod(2, routedNetwork, ports...)
		m.Run(taken.ns, "ip link add eth0 type bridge")
		err := m.tryAdd(t, taken.attachment)
		if !errors.Is(err, netstate.ErrExist) || !strings.Contains(err.Error(), "eth0") {
			t.Errorf("ADD into a pod that has an eth0: %v", err)
		}
		if diff := cmp.Diff(before, m.made()); diff != "" {
			t.Errorf("an ADD that failed left something (-before +after):\n%s", diff)
		}
	})
}

package plugins_test

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/cleat-cni/cleat/internal/sandbox"
	"github.com/cleat-cni/cleat/internal/sandbox/traffic"
	"github.com/cleat-cni/cleat/netstate"
)

// TestB042AddIsNotDelayed: an attachment with IPv6 on a bridge that reflects the probes of address detection takes no
// second. The best of a few shows it on a busy machine too.
func TestB042AddIsNotDelayed(t *testing.T) {
	m := newMachine(t)
	best := time.Hour
	for i := range 5 {
		p := m.newPod(i+2, podNetwork)
		start := time.Now()
		m.add(t, p.attachment)
		best = min(best, time.Since(start))
		if list := m.Run(p.ns, "ip -o -6 addr show dev eth0 scope global"); strings.Contains(list, "tentative") || !strings.Contains(list, "fd00:88::") {
			t.Errorf("after ADD: %s", list)
		}
	}
	if best > 50*time.Millisecond {
		t.Errorf("the fastest ADD took %v", best)
	}
}

// advertised is the prefix that the router of TestB044RouterAdvertisements offers.
var advertised = netip.MustParsePrefix("2001:db8:ff::/64")

// advertise sends router advertisements into the bridge cni0 every 50 ms until the test ends.
func (m *machine) advertise(t *testing.T) {
	t.Helper()
	packet := []byte{134, 0, 0, 0, 64, 0, 0x07, 0x08, 0, 0, 0, 0, 0, 0, 0, 0} // the kernel fills in the checksum
	packet = append(packet, 3, 4, byte(advertised.Bits()), 0xc0)
	packet = binary.BigEndian.AppendUint32(packet, 3600)
	packet = binary.BigEndian.AppendUint32(packet, 3600)
	packet = binary.BigEndian.AppendUint32(packet, 0)
	packet = append(packet, advertised.Addr().AsSlice()...)
	var conn net.PacketConn
	err := m.Host.Do(func() error {
		dev, err := net.InterfaceByName("cni0")
		if err != nil {
			return err
		}
		if conn, err = net.ListenPacket("ip6:ipv6-icmp", "::"); err != nil {
			return err
		}
		raw, err := conn.(*net.IPConn).SyscallConn()
		if err != nil {
			return err
		}
		var set error
		err = raw.Control(func(fd uintptr) {
			if set = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_HOPS, 255); set == nil {
				set = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_IF, dev.Index)
			}
		})
		if err != nil {
			return err
		}
		return set
	})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for range tick.C {
			// Until the bridge has its own address nothing can be sent.
			if _, err := conn.WriteTo(packet, &net.IPAddr{IP: net.IPv6linklocalallnodes}); errors.Is(err, net.ErrClosed) {
				return
			}
		}
	}()
	t.Cleanup(func() { conn.Close(); <-done })
}

// TestB044RouterAdvertisements: a router on the bridge gives a pod that has its addresses from IPAM neither another
// address nor a route, at no time. One that takes what comes shows that the router is heard.
func TestB044RouterAdvertisements(t *testing.T) {
	m := newMachine(t)
	first := m.attach(m.newPod(2, podNetwork))
	naive := sandbox.Namespace(t)
	m.Run(m.Host, "ip link add naive type veth peer name eth0 netns "+traffic.Inherited(naive))
	m.Run(m.Host, "ip link set naive master cni0 up")
	m.Run(naive, "ip link set eth0 up")
	m.advertise(t)
	hears := func() bool {
		return strings.Contains(m.Run(naive, "ip -o -6 addr show dev eth0 scope global"), "2001:db8:ff:")
	}
	for end := time.Now().Add(20 * time.Second); !hears(); {
		if time.Now().After(end) {
			t.Fatal("nobody hears the router")
		}
	}
	pods := []*pod{first}
	for i := range 8 {
		pods = append(pods, m.attach(m.newPod(i+3, podNetwork)))
	}
	for _, p := range pods {
		want := []string{p.address(true).String() + "/64"}
		var got []string
		for line := range strings.Lines(m.Run(p.ns, "ip -o -6 addr show dev eth0 scope global")) {
			got = append(got, strings.Fields(line)[3])
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("addresses of pod%d (-want +got):\n%s", p.pod, diff)
		}
		if routes := m.Run(p.ns, "ip -6 route"); strings.Contains(routes, "proto ra") || strings.Contains(routes, "2001:db8:ff:") {
			t.Errorf("routes of pod%d:\n%s", p.pod, routes)
		}
	}
}

// TestB056OnlyLocalPorts: what a pod sends to the same port of somebody else goes there, not to the pod that has the
// port of this host.
func TestB056OnlyLocalPorts(t *testing.T) { onEachBackend(t, testB056OnlyLocalPorts) }

func testB056OnlyLocalPorts(t *testing.T, m *machine) {
	m.attach(m.newPod(2, podNetwork, udp(53, 53), tcp(53, 53)), "tcp :53", "udp :53")
	client := m.attach(m.newPod(3, podNetwork))
	other := m.attach(m.newPod(4, podNetwork), "tcp :53", "udp :53")
	m.Serve(m.Outside, "udp", ":53", "outside")
	m.Serve(m.Outside, "tcp", ":53", "outside")
	for name, i := range traffic.Families() {
		t.Run(name, func(t *testing.T) {
			for _, network := range []string{"udp", "tcp"} {
				m.expect(t, []call{
					{"another host", client.ns, network, traffic.At(traffic.OutsideAddr(i), 53), "outside sees " + traffic.HostAddr(i)},
					{"another pod", client.ns, network, traffic.At(other.address(i == 1).String(), 53), "pod4 sees " + client.address(i == 1).String()},
					{"this host", m.Outside, network, traffic.At(traffic.HostAddr(i), 53), "pod2 sees " + traffic.OutsideAddr(i)},
				})
			}
		})
	}
}

// TestB100RulesDoNotGrow: a pod costs elements of sets, never a rule, and those of a pod that vanished are found without it.
func TestB100RulesDoNotGrow(t *testing.T) {
	m := newMachine(t)
	rules := func() string { return m.Run(m.Host, "nft --terse list ruleset") }
	first := m.attach(m.newPod(2, podNetwork, tcp(8002, 80)))
	before := rules()
	for i := range 20 {
		m.attach(m.newPod(i+3, podNetwork, tcp(8003+i, 80)))
	}
	if diff := cmp.Diff(before, rules()); diff != "" {
		t.Errorf("rules (-of the first pod +of 21):\n%s", diff)
	}
	if list := m.Run(m.Host, "nft list ruleset"); !strings.Contains(list, "pod22") {
		t.Errorf("no element of pod22:\n%s", list)
	}
	owner := netstate.Owner{Network: "pods", ContainerID: "pod2", IfName: "eth0"}
	freed, err := m.kernel.Collect(t.Context(), "pods", []netstate.Owner{owner}, false)
	if err != nil || !slices.ContainsFunc(freed, func(f netstate.Freed) bool { return f.Owner.ContainerID == "pod22" }) {
		t.Errorf("freed %v, error %v", freed, err)
	}
	if list := m.Run(m.Host, "nft list ruleset"); strings.Contains(list, "pod22") || !strings.Contains(list, "pod2 ") {
		t.Errorf("after GC:\n%s", list)
	}
	if found := m.check(t, first.attachment); found != "" {
		t.Errorf("CHECK: %s", found)
	}
}

package plugins_test

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/netns"
	"github.com/cleat-cni/cleat/internal/sandbox"
	"github.com/cleat-cni/cleat/internal/sandbox/traffic"
)

func udp(host, container int) cni.PortMapping {
	return cni.PortMapping{HostPort: host, ContainerPort: container, Protocol: "udp"}
}

func TestB061PodsTalk(t *testing.T) { onEachBackend(t, testB061PodsTalk) }

func testB061PodsTalk(t *testing.T, m *machine) {
	ports := []cni.PortMapping{tcp(8080, 80), udp(5353, 53)}
	a := m.attach(m.newPod(2, podNetwork, ports...), "tcp :80", "udp :53")
	b := m.attach(m.newPod(3, podNetwork), "tcp :80", "udp :53")
	other := m.attach(m.newPod(2, strings.NewReplacer("cni0", "cni1", "10.88.", "10.89.", "fd00:88:", "fd00:89:", `"pods"`, `"others"`).Replace(podNetwork)))
	m.Serve(m.Outside, "tcp", ":8080", "outside")
	for name, i := range traffic.Families() {
		t.Run(name, func(t *testing.T) {
			ipA, ipB := a.address(i == 1).String(), b.address(i == 1).String()
			gateway := netip.MustParsePrefix([]string{"10.88.0.0/16", "fd00:88::/64"}[i]).Addr().Next().String()
			m.expect(t, []call{
				{"pod to pod", b.ns, "tcp", traffic.At(ipA, 80), "pod2 sees " + ipB},
				{"pod to pod back", a.ns, "udp", traffic.At(ipB, 53), "pod3 sees " + ipA},
				{"host to pod", m.Host, "tcp", traffic.At(ipA, 80), "pod2 sees " + gateway},
				{"pod to the world", a.ns, "tcp", traffic.At(traffic.OutsideAddr(i), 8080), "outside sees " + traffic.HostAddr(i)},
				{"the world to a port", m.Outside, "tcp", traffic.At(traffic.HostAddr(i), 8080), "pod2 sees " + traffic.OutsideAddr(i)},
				{"the world to a port, udp", m.Outside, "udp", traffic.At(traffic.HostAddr(i), 5353), "pod2 sees " + traffic.OutsideAddr(i)},
				{"host to its port", m.Host, "tcp", traffic.At(traffic.HostAddr(i), 8080), "pod2 sees " + traffic.HostAddr(i)},
				{"host to its port, udp", m.Host, "udp", traffic.At(traffic.HostAddr(i), 5353), "pod2 sees " + traffic.HostAddr(i)},
				{"the pod itself", a.ns, "tcp", traffic.At(traffic.HostAddr(i), 8080), "pod2 sees " + gateway},
				{"the pod itself, udp", a.ns, "udp", traffic.At(traffic.HostAddr(i), 5353), "pod2 sees " + gateway},
				{"sibling", b.ns, "tcp", traffic.At(traffic.HostAddr(i), 8080), "pod2 sees " + gateway},
				{"sibling, udp", b.ns, "udp", traffic.At(traffic.HostAddr(i), 5353), "pod2 sees " + gateway},
				{"sibling by the gateway", b.ns, "tcp", traffic.At(gateway, 8080), "pod2 sees " + gateway},
				{"pod of another bridge", other.ns, "tcp", traffic.At(traffic.HostAddr(i), 8080), "pod2 sees " + gateway},
				{"a port of another host", b.ns, "tcp", traffic.At(traffic.OutsideAddr(i), 8080), "outside sees " + traffic.HostAddr(i)},
				{"a port that is not mapped", m.Outside, "tcp", traffic.At(traffic.HostAddr(i), 8081), "no connection"},
			})
		})
	}
	m.expect(t, []call{
		{"localhost", m.Host, "tcp", "127.0.0.1:8080", "pod2 sees 10.88.0.1"},
		{"localhost, another address", m.Host, "tcp", "127.1.2.3:8080", "pod2 sees 10.88.0.1"},
		{"localhost, udp", m.Host, "udp", "127.0.0.1:5353", "pod2 sees 10.88.0.1"},
		{"localhost, v6", m.Host, "tcp", "[::1]:8080", "no connection"},
	})
	for _, p := range []*pod{a, b, other} {
		if found := m.check(t, p.attachment); found != "" {
			t.Errorf("CHECK of pod%d: %s", p.pod, found)
		}
	}
	mapping := "10.88.0.2 . 80"
	if m.iptables != "" {
		mapping = "10.88.0.2:80"
	}
	if list := m.rules(); !strings.Contains(list, mapping) {
		t.Errorf("the mapping is not listed:\n%s", list)
	}
}

func TestB054NothingIsLeft(t *testing.T) { onEachBackend(t, testB054NothingIsLeft) }

func testB054NothingIsLeft(t *testing.T, m *machine) {
	m.leavesNothing(t, podNetwork, tcp(8080, 80), udp(5353, 53))
}

func TestPortmapOptions(t *testing.T) {
	conf := func(options string) string {
		return strings.Replace(podNetwork, `"type":"portmap",`, `"type":"portmap",`+options, 1)
	}
	for _, tc := range []struct {
		name, options          string
		outside, sibling, self string
		localhost              string
	}{
		{"no-snat", `"snat":false,`, "pod2 sees 192.0.2.9", "", "", "no connection"},
		{"masq-all", `"masqAll":true,`, "pod2 sees 10.88.0.1", "pod2 sees 10.88.0.1", "pod2 sees 10.88.0.1", "pod2 sees 10.88.0.1"},
		{"mark-bit", `"markMasqBit":20,`, "pod2 sees 192.0.2.9", "pod2 sees 10.88.0.1", "pod2 sees 10.88.0.1", "pod2 sees 10.88.0.1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			onEachBackend(t, func(t *testing.T, m *machine) {
				a := m.attach(m.newPod(2, conf(tc.options), tcp(8080, 80)), "tcp :80")
				b := m.attach(m.newPod(3, conf(tc.options)))
				calls := []call{
					{"outside", m.Outside, "tcp", "192.0.2.1:8080", tc.outside},
					{"localhost", m.Host, "tcp", "127.0.0.1:8080", tc.localhost},
				}
				if tc.sibling != "" {
					calls = append(calls,
						call{"sibling", b.ns, "tcp", "192.0.2.1:8080", tc.sibling},
						call{"self", a.ns, "tcp", "192.0.2.1:8080", tc.self})
				}
				m.expect(t, calls)
				if found := m.check(t, a.attachment); found != "" {
					t.Errorf("CHECK: %s", found)
				}
			})
		})
	}
}

func TestB053HostIP(t *testing.T) { onEachBackend(t, testB053HostIP) }

func testB053HostIP(t *testing.T, m *machine) {
	m.Run(m.Host, "ip addr add 192.0.2.2/24 dev up0")
	m.Run(m.Host, "ip addr add 2001:db8::2/64 dev up0 nodad")
	mapping := func(host, container int, ip string) cni.PortMapping {
		return cni.PortMapping{HostPort: host, ContainerPort: container, Protocol: "TCP", HostIP: ip}
	}
	m.attach(m.newPod(2, podNetwork, mapping(80, 80, "192.0.2.2"), mapping(80, 80, "2001:db8::2"), mapping(82, 80, "127.0.0.1"), mapping(83, 80, "::")), "tcp :80")
	m.attach(m.newPod(3, podNetwork, tcp(80, 80)), "tcp :80")
	m.expect(t, []call{
		{"the address of the mapping", m.Outside, "tcp", "192.0.2.2:80", "pod2 sees 192.0.2.9"},
		{"another address", m.Outside, "tcp", "192.0.2.1:80", "pod3 sees 192.0.2.9"},
		{"the address of the mapping, v6", m.Outside, "tcp", "[2001:db8::2]:80", "pod2 sees 2001:db8::9"},
		{"another address, v6", m.Outside, "tcp", "[2001:db8::1]:80", "pod3 sees 2001:db8::9"},
		{"for the host alone", m.Host, "tcp", "127.0.0.1:82", "pod2 sees 10.88.0.1"},
		{"for the host alone, from outside", m.Outside, "tcp", "192.0.2.1:82", "no connection"},
		{"one family alone", m.Outside, "tcp", "[2001:db8::1]:83", "pod2 sees 2001:db8::9"},
		{"the other family", m.Outside, "tcp", "192.0.2.1:83", "no connection"},
	})
}

// TestLocalnetStaysClosed: route_localnet must not open what listens on 127.0.0.1.
func TestLocalnetStaysClosed(t *testing.T) { onEachBackend(t, testLocalnetStaysClosed) }

func testLocalnetStaysClosed(t *testing.T, m *machine) {
	p := m.attach(m.newPod(2, podNetwork, tcp(8080, 80)))
	m.Serve(m.Host, "tcp", "127.0.0.1:9999", "host")
	for _, line := range []string{
		"ip addr del 127.0.0.1/8 dev lo", "ip route add 127.0.0.1/32 via 10.88.0.1",
		"sysctl -qw net.ipv4.conf.eth0.route_localnet=1", "sysctl -qw net.ipv4.conf.all.route_localnet=1",
	} {
		m.Run(p.ns, line)
	}
	m.expect(t, []call{
		{"the host itself", m.Host, "tcp", "127.0.0.1:9999", "host sees 127.0.0.1"},
		{"a pod", p.ns, "tcp", "127.0.0.1:9999", "no connection"},
	})
	// Without the guard the pod gets through: the test would notice.
	if m.iptables != "" {
		m.Run(m.Host, m.iptables+"/iptables -t raw -F CLEAT-LOCALNET")
	} else {
		m.Run(m.Host, "nft flush chain inet cleat localnet_guard")
	}
	m.expect(t, []call{{"a pod without the guard", p.ns, "tcp", "127.0.0.1:9999", "host sees 10.88.0.2"}})
}

func TestB006UDPSenderFollowsThePort(t *testing.T) { onEachBackend(t, testB006UDPSenderFollowsThePort) }

func testB006UDPSenderFollowsThePort(t *testing.T, m *machine) {
	first := m.attach(m.newPod(2, podNetwork, udp(5005, 53)), "udp :53")
	var conn net.Conn
	err := m.Outside.Do(func() error {
		var err error
		conn, err = net.Dial("udp", "192.0.2.1:5005")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ask := func() string { return traffic.Exchange(conn, "udp", time.Now().Add(traffic.Patience)) }
	if got := ask(); got != "pod2 sees 192.0.2.9" {
		t.Fatalf("first pod: %q", got)
	}
	m.del(t, first.attachment)
	m.Serve(m.Host, "udp", "192.0.2.1:5005", "host")
	if got := ask(); got != "host sees 192.0.2.9" {
		t.Errorf("after DEL: %q, want the host's own server", got)
	}
	m.attach(m.newPod(3, podNetwork, udp(5005, 53)), "udp :53")
	if got := ask(); got != "pod3 sees 192.0.2.9" {
		t.Errorf("after the next ADD: %q", got)
	}
}

func TestSpoofedFramesAreDropped(t *testing.T) {
	m := newMachine(t)
	a := m.attach(m.newPod(2, podNetwork))
	b := m.attach(m.newPod(3, podNetwork), "tcp :80")
	to := traffic.At(b.address(false).String(), 80)
	m.expect(t, []call{{"own mac", a.ns, "tcp", to, "pod3 sees 10.88.0.2"}})
	m.Run(a.ns, "ip link set eth0 address 02:00:00:00:00:99")
	m.expect(t, []call{{"another mac", a.ns, "tcp", to, "no connection"}})
	i := slices.IndexFunc(a.prev.Interfaces, func(dev cni.Interface) bool { return dev.Name == "eth0" })
	m.Run(a.ns, "ip link set eth0 address "+a.prev.Interfaces[i].MAC)
	m.expect(t, []call{{"own mac again", a.ns, "tcp", to, "pod3 sees 10.88.0.2"}})
}

func TestIsolatedPorts(t *testing.T) {
	m := newMachine(t)
	network := strings.Replace(podNetwork, `"macspoofchk":true`, `"portIsolation":true`, 1)
	a, b := m.attach(m.newPod(2, network)), m.attach(m.newPod(3, network), "tcp :80")
	m.expect(t, []call{
		{"isolated pods", a.ns, "tcp", traffic.At(b.address(false).String(), 80), "no connection"},
		{"the host", m.Host, "tcp", traffic.At(b.address(false).String(), 80), "pod3 sees 10.88.0.1"},
	})
	if found := m.check(t, a.attachment); found != "" {
		t.Errorf("CHECK: %s", found)
	}
}

func TestB047BridgeIsSteady(t *testing.T) {
	m := newMachine(t)
	state := func() string {
		var words []string
		for w := range strings.FieldsSeq(m.Run(m.Host, "ip -o link show cni0")) {
			if strings.Contains(w, ":") && len(w) == 17 || len(words) > 0 && words[len(words)-1] == "mtu" || w == "mtu" {
				words = append(words, w)
			}
		}
		return strings.Join(words, " ")
	}
	conf := func(mtu int) string {
		return fmt.Sprintf(`{"cniVersion":"1.1.0","name":"n","plugins":[{"type":"bridge","mtu":%d}]}`, mtu)
	}
	m.attach(m.newPod(2, conf(9000)))
	before := state()
	if !strings.Contains(before, "mtu 9000") {
		t.Errorf("bridge: %s", before)
	}
	small := m.attach(m.newPod(3, conf(1400)))
	if after := state(); after != before {
		t.Errorf("a pod with smaller frames changed the bridge from %q to %q", before, after)
	}
	m.del(t, small.attachment)
	large := m.attach(m.newPod(4, conf(9100)))
	if after := state(); !strings.Contains(after, "mtu 9100") {
		t.Errorf("a pod with larger frames: bridge %q", after)
	}
	if found := m.check(t, large.attachment); found != "" {
		t.Errorf("CHECK: %s", found)
	}
}

// TestB043WithoutIPv6: a kernel without IPv6 has nothing below /proc/sys/net/ipv6.
func TestB043WithoutIPv6(t *testing.T) {
	m := newMachine(t)
	const v4 = `{"cniVersion":"1.1.0","name":"n","plugins":[{"type":"bridge","isDefaultGateway":true,"ipMasq":true,
	  "ipam":{"type":"numbered","subnets":["10.88.0.0/16"]}},{"type":"portmap","capabilities":{"portMappings":true}}]}`
	a, both := m.newPod(2, v4, tcp(8080, 80)), m.newPod(3, podNetwork)
	for _, ns := range []*netns.Handle{m.Host, a.ns, both.ns} {
		m.Run(ns, "mount -t tmpfs tmpfs /proc/sys/net/ipv6")
		t.Cleanup(func() { m.RunAnyway(ns, "umount /proc/sys/net/ipv6") })
	}
	m.attach(a, "tcp4 :80")
	m.expect(t, []call{{"outside", m.Outside, "tcp", "192.0.2.1:8080", "pod2 sees 192.0.2.9"}})
	if found := m.check(t, a.attachment); found != "" {
		t.Errorf("CHECK: %s", found)
	}
	if err := m.tryAdd(t, both.attachment); err == nil || !strings.Contains(err.Error(), "IPv6 is disabled") {
		t.Errorf("ADD with IPv6 addresses: %v", err)
	}
	m.del(t, a.attachment)
}

// TestSCTP sends the first packet of an association; the sandbox's kernel may have no sockets for more.
func TestSCTP(t *testing.T) {
	m := newMachine(t)
	if _, err := os.Stat("/proc/sys/net/netfilter/nf_conntrack_sctp_timeout_established"); err != nil {
		sandbox.Need(t, "conntrack-sctp", err.Error())
	}
	p := m.attach(m.newPod(2, podNetwork, cni.PortMapping{HostPort: 9899, ContainerPort: 3868, Protocol: "SCTP"}))
	for name, i := range traffic.Families() {
		t.Run(name, func(t *testing.T) {
			network := []string{"ip4:132", "ip6:132"}[i]
			var in net.PacketConn
			err := p.ns.Do(func() error {
				var err error
				in, err = net.ListenPacket(network, []string{"0.0.0.0", "::"}[i])
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			defer in.Close()
			err = m.Outside.Do(func() error {
				out, err := net.Dial(network, traffic.HostAddr(i))
				if err != nil {
					return err
				}
				defer out.Close()
				_, err = out.Write(sctpInit(40000, 9899))
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := in.SetReadDeadline(time.Now().Add(traffic.Patience)); err != nil {
				t.Fatal(err)
			}
			buf := make([]byte, 512)
			n, from, err := in.ReadFrom(buf)
			if err != nil {
				t.Fatalf("nothing came to the pod: %v", err)
			}
			if port := binary.BigEndian.Uint16(buf[2:]); n < 12 || port != 3868 || from.String() != traffic.OutsideAddr(i) {
				t.Errorf("got %d bytes for port %d from %s, want port 3868 from %s", n, port, from, traffic.OutsideAddr(i))
			}
		})
	}
}

// sctpInit is a packet with an INIT chunk (RFC 9260, section 3.3.2).
func sctpInit(from, to uint16) []byte {
	b := binary.BigEndian.AppendUint16(nil, from)
	b = binary.BigEndian.AppendUint16(b, to)
	b = append(b, 0, 0, 0, 0, 0, 0, 0, 0)             // verification tag 0, checksum
	b = append(b, 1, 0, 0, 20, 0, 0, 0, 1)            // INIT, 20 bytes, initiate tag
	b = append(b, 0, 1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 1) // window, streams, initial TSN
	sum := crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli))
	binary.LittleEndian.PutUint32(b[8:], sum)
	return b
}

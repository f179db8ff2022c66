package kernel

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/cleat-cni/cleat/internal/netns"
	"github.com/cleat-cni/cleat/internal/sandbox"
	"github.com/cleat-cni/cleat/netstate"
)

// trafficNet is a host that routes between a pod and an outside machine. Outside has no route to the pod's
// network, so that an answer shows translated addresses.
type trafficNet struct {
	host, pod, outside *netns.Handle
}

const trafficTimeout = 2 * time.Second

func newTrafficNet(t *testing.T) trafficNet {
	t.Helper()
	n := trafficNet{sandbox.Namespace(t), sandbox.Namespace(t), sandbox.Namespace(t)}
	ip := func(ns *netns.Handle, commands ...string) {
		for _, c := range commands {
			runIn(t, ns, "ip", strings.Fields(c)...)
		}
	}
	for _, ns := range []*netns.Handle{n.host, n.pod, n.outside} {
		// Neighbours are asked for from link-local addresses, which must be usable at once.
		writeIn(t, ns, "/proc/sys/net/ipv6/conf/default/accept_dad", "0")
	}
	ip(n.host,
		"link set lo up",
		"link add pod type veth peer name eth0 netns "+n.pod.Path(),
		"link add ext type veth peer name eth0 netns "+n.outside.Path(),
		"addr add 10.88.0.1/24 dev pod", "addr add fd88::1/64 dev pod nodad",
		"addr add 192.0.2.1/24 dev ext", "addr add 2001:db8::1/64 dev ext nodad",
		"link set pod up", "link set ext up")
	ip(n.pod,
		"link set lo up", "link set eth0 up",
		"addr add 10.88.0.5/24 dev eth0", "addr add 10.88.0.6/24 dev eth0", "addr add fd88::5/64 dev eth0 nodad",
		"route add default via 10.88.0.1", "-6 route add default via fd88::1")
	ip(n.outside,
		"link set lo up", "link set eth0 up",
		"addr add 192.0.2.2/24 dev eth0", "addr add 2001:db8::2/64 dev eth0 nodad")
	writeIn(t, n.host, "/proc/sys/net/ipv4/ip_forward", "1")
	writeIn(t, n.host, "/proc/sys/net/ipv6/conf/all/forwarding", "1")
	return n
}

func writeIn(t testing.TB, ns *netns.Handle, path, value string) {
	t.Helper()
	if err := ns.Do(func() error { return os.WriteFile(path, []byte(value), 0) }); err != nil {
		t.Fatal(err)
	}
}

func runIn(t testing.TB, ns *netns.Handle, name string, args ...string) {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		sandbox.Need(t, name+"-program", err.Error())
	}
	err = ns.Do(func() error {
		out, err := exec.CommandContext(t.Context(), path, args...).CombinedOutput()
		if err != nil {
			t.Errorf("%s %s: %s", name, strings.Join(args, " "), out)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// serve answers on a port of all addresses, over TCP and UDP, with name, the address it was asked
// at (TCP only) and the address of the one who asks.
func serve(t *testing.T, ns *netns.Handle, port, name string) {
	t.Helper()
	err := ns.Do(func() error {
		l, err := net.Listen("tcp", ":"+port)
		if err != nil {
			return err
		}
		p, err := net.ListenPacket("udp", ":"+port)
		if err != nil {
			return errors.Join(err, l.Close())
		}
		t.Cleanup(func() {
			l.Close()
			p.Close()
		})
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				io.WriteString(c, name+" "+hostOf(c.LocalAddr())+" "+hostOf(c.RemoteAddr()))
				c.Close()
			}
		}()
		go func() {
			b := make([]byte, 16)
			for {
				_, from, err := p.ReadFrom(b)
				if err != nil {
					return
				}
				p.WriteTo([]byte(name+" "+hostOf(from)), from)
			}
		}()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func hostOf(a net.Addr) string {
	return netip.MustParseAddrPort(a.String()).Addr().Unmap().String()
}

// ask connects from a namespace and returns the answer.
func ask(t *testing.T, ns *netns.Handle, network, addr string) string {
	t.Helper()
	var c net.Conn
	err := ns.Do(func() error {
		d := net.Dialer{Timeout: trafficTimeout}
		var err error
		c, err = d.DialContext(t.Context(), network, addr)
		return err
	})
	if err != nil {
		return err.Error()
	}
	defer c.Close()
	return askOn(c, network)
}

func askOn(c net.Conn, network string) string {
	if err := c.SetDeadline(time.Now().Add(trafficTimeout)); err != nil {
		return err.Error()
	}
	if network == "udp" {
		if _, err := c.Write([]byte("?")); err != nil {
			return err.Error()
		}
	}
	b := make([]byte, 128)
	n, err := c.Read(b)
	if err != nil {
		return err.Error()
	}
	return string(b[:n])
}

// trafficState publishes port 8080 of both families, and hides the pod.
func trafficState() netstate.State {
	t := netstate.Table{Family: "inet", Name: netstate.TableName, Sets: []netstate.Set{
		{Name: "ports4", Key: []string{"inet_proto", "inet_service"}, Data: []string{"ipv4_addr", "inet_service"}},
		{Name: "hostip_ports6", Key: []string{"ipv6_addr", "inet_proto", "inet_service"}, Data: []string{"ipv6_addr", "inet_service"}},
		{Name: "masq4", Key: []string{"ipv4_addr"}},
		{Name: "skip4", Key: []string{"ipv4_addr", "ipv4_addr"}},
		{Name: "masq6", Key: []string{"ipv6_addr"}},
	}, Chains: []netstate.Chain{
		{Name: "prerouting", Type: "nat", Hook: "prerouting", Priority: -100, Rules: []string{
			"fib daddr type local dnat ip addr . port to meta l4proto . th dport map @ports4",
			"fib daddr type local dnat ip6 addr . port to ip6 daddr . meta l4proto . th dport map @hostip_ports6",
		}},
		{Name: "postrouting", Type: "nat", Hook: "postrouting", Priority: 100, Rules: []string{
			"ip saddr . ip daddr & 255.255.255.0 @skip4 return",
			"ip saddr @masq4 masquerade",
			"ip6 saddr @masq6 masquerade",
		}},
	}}
	s := netstate.State{Owner: testOwner(1), Tables: []netstate.Table{t}}
	add := func(set, match, data string) {
		e := netstate.Element{Family: "inet", Table: t.Name, Set: set, Match: strings.Fields(match)}
		if data != "" {
			e.Data = strings.Fields(data)
		}
		s.Elements = append(s.Elements, e)
	}
	for _, protocol := range []string{"tcp", "udp"} {
		add("ports4", protocol+" 8080", "10.88.0.5 80")
		add("hostip_ports6", "2001:db8::1 "+protocol+" 8080", "fd88::5 80")
	}
	add("masq4", "10.88.0.5", "")
	add("masq6", "fd88::5", "")
	add("skip4", "10.88.0.5 10.88.0.0", "")
	return s
}

func TestRulesCarryTraffic(t *testing.T) {
	n := newTrafficNet(t)
	serve(t, n.pod, "80", "pod")
	serve(t, n.outside, "8080", "outside")
	serve(t, n.host, "8081", "host")
	mustApply(t, openTestRuleset(t, n.host), trafficState())
	for _, tc := range []struct {
		name, network, addr string
		from                *netns.Handle
		want                string
	}{
		{"published-tcp4", "tcp", "192.0.2.1:8080", n.outside, "pod 10.88.0.5 192.0.2.2"},
		{"published-tcp6", "tcp", "[2001:db8::1]:8080", n.outside, "pod fd88::5 2001:db8::2"},
		{"published-udp4", "udp", "192.0.2.1:8080", n.outside, "pod 192.0.2.2"},
		{"published-udp6", "udp", "[2001:db8::1]:8080", n.outside, "pod 2001:db8::2"},
		// The host's port is nobody else's: what passes through is left alone, and so is another port.
		{"masqueraded-tcp4", "tcp", "192.0.2.2:8080", n.pod, "outside 192.0.2.2 192.0.2.1"},
		{"masqueraded-tcp6", "tcp", "[2001:db8::2]:8080", n.pod, "outside 2001:db8::2 2001:db8::1"},
		{"masqueraded-udp4", "udp", "192.0.2.2:8080", n.pod, "outside 192.0.2.1"},
		{"unpublished", "tcp", "192.0.2.1:8081", n.outside, "host 192.0.2.1 192.0.2.2"},
		{"not-masqueraded-inside", "tcp", "10.88.0.1:8081", n.pod, "host 10.88.0.1 10.88.0.5"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if have := ask(t, tc.from, tc.network, tc.addr); have != tc.want {
				t.Errorf("answer %q, want %q", have, tc.want)
			}
		})
	}
}

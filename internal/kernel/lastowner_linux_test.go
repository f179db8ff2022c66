package kernel

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/cleat-cni/cleat/internal/netns"
)

// connections lists the UDP entries of the host: source, destination and who answers.
func connections(t *testing.T, ns *netns.Handle) []string {
	t.Helper()
	c, err := dialFilter(&space{ns: ns})
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	var all []string
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		entries, err := c.list(t.Context(), filterMessage{kind: ctMessageGet, family: family, flags: netlink.Dump}, func(e trackedFlow) bool {
			return e.protocol == unix.IPPROTO_UDP
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			all = append(all, fmt.Sprintf("%s > %s, %s answers", e.src, netip.AddrPortFrom(e.dst, e.port), e.answers))
		}
	}
	slices.Sort(all)
	return all
}

// TestForgetOwner forgets what comes from an address and what is answered by it, also behind a published port, and nothing else.
func TestForgetOwner(t *testing.T) {
	const (
		from5   = "10.88.0.5 > 192.0.2.2:9, 192.0.2.2 answers" // masqueraded
		from6   = "10.88.0.6 > 192.0.2.2:9, 192.0.2.2 answers"
		to5     = "192.0.2.2 > 10.88.0.5:9, 10.88.0.5 answers"
		to6     = "192.0.2.2 > 10.88.0.6:9, 10.88.0.6 answers"
		port5   = "192.0.2.2 > 192.0.2.1:8080, 10.88.0.5 answers"
		v6from5 = "fd88::5 > [2001:db8::2]:9, 2001:db8::2 answers"
		v6from6 = "fd88::6 > [2001:db8::2]:9, 2001:db8::2 answers"
		v6to5   = "2001:db8::2 > [fd88::5]:9, fd88::5 answers"
		v6port5 = "2001:db8::2 > [2001:db8::1]:8080, fd88::5 answers"
	)
	all := []string{from5, from6, to5, to6, port5, v6from5, v6from6, v6to5, v6port5}
	slices.Sort(all)
	for _, tc := range []struct {
		name   string
		addrs  []string
		search bool
		gone   []string
	}{
		{"nobody", nil, true, nil},
		{"one", []string{"10.88.0.5"}, false, []string{from5, to5, port5}},
		{"one-that-has-none", []string{"10.88.0.7"}, true, nil},
		{"two", []string{"10.88.0.5", "10.88.0.6"}, true, []string{from5, from6, to5, to6, port5}},
		{"ipv6-searched", []string{"fd88::5"}, true, []string{v6from5, v6to5, v6port5}},
		{"ipv6-not-searched", []string{"fd88::5"}, false, nil},
		{"both", []string{"10.88.0.5", "fd88::5"}, true, []string{from5, to5, port5, v6from5, v6to5, v6port5}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := newTrafficNet(t)
			runIn(t, n.pod, "ip", "addr", "add", "fd88::6/64", "dev", "eth0", "nodad")
			for _, r := range []string{"10.88.0.0/24 via 192.0.2.1", "fd88::/64 via 2001:db8::1"} {
				runIn(t, n.outside, "ip", append([]string{"route", "add"}, strings.Fields(r)...)...)
			}
			r := openTestRuleset(t, n.host)
			mustApply(t, r, trafficState())
			for _, call := range []struct {
				ns       *netns.Handle
				from, to string
			}{
				{n.pod, "10.88.0.5:0", "192.0.2.2:9"}, {n.pod, "10.88.0.6:0", "192.0.2.2:9"},
				{n.outside, "", "10.88.0.5:9"}, {n.outside, "", "10.88.0.6:9"}, {n.outside, "", "192.0.2.1:8080"},
				{n.pod, "[fd88::5]:0", "[2001:db8::2]:9"}, {n.pod, "[fd88::6]:0", "[2001:db8::2]:9"},
				{n.outside, "", "[fd88::5]:9"}, {n.outside, "", "[2001:db8::1]:8080"},
			} {
				sendFrom(t, call.ns, call.from, call.to)
			}
			for i := 0; i < 200 && !slices.Equal(connections(t, n.host), all); i++ { // each look takes milliseconds
			}
			if diff := cmp.Diff(all, connections(t, n.host)); diff != "" {
				t.Fatalf("before (-want +got):\n%s", diff)
			}
			var addrs []netip.Addr
			for _, a := range tc.addrs {
				addrs = append(addrs, netip.MustParseAddr(a))
			}
			if err := r.forgetOwner(t.Context(), addrs, tc.search); err != nil {
				t.Fatal(err)
			}
			want := slices.DeleteFunc(slices.Clone(all), func(f string) bool { return slices.Contains(tc.gone, f) })
			if diff := cmp.Diff(want, connections(t, n.host)); diff != "" {
				t.Errorf("after (-want +got):\n%s", diff)
			}
		})
	}
}

// sendFrom sends a datagram from an address, "" for any.
func sendFrom(t *testing.T, ns *netns.Handle, from, to string) {
	t.Helper()
	err := ns.Do(func() error {
		var local *net.UDPAddr
		if from != "" {
			local = net.UDPAddrFromAddrPort(netip.MustParseAddrPort(from))
		}
		c, err := net.DialUDP("udp", local, net.UDPAddrFromAddrPort(netip.MustParseAddrPort(to)))
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = c.Write([]byte("!"))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

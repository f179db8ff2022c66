package kernel

import (
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/cleat-cni/cleat/internal/netns"
	"github.com/cleat-cni/cleat/internal/sandbox"
	"github.com/cleat-cni/cleat/netstate"
)

// TestForgetFlows moves a published UDP port to another pod: whoever sent to the old one all the time
// reaches the new one as soon as its flow is forgotten.
func TestForgetFlows(t *testing.T) {
	n := newTrafficNet(t)
	for _, pod := range []string{"10.88.0.5", "10.88.0.6"} {
		answerUDP(t, n.pod, pod+":80")
	}
	r := openTestRuleset(t, n.host)
	s := trafficState()
	mustApply(t, r, s)
	var c net.Conn
	err := n.outside.Do(func() error {
		var err error
		c, err = net.Dial("udp", "192.0.2.1:8080")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	expect := func(want string) {
		t.Helper()
		if have := askOn(c, "udp"); have != want {
			t.Errorf("answer %q, want %q", have, want)
		}
	}
	expect("10.88.0.5:80")
	for i := range s.Elements {
		if s.Elements[i].Set == "ports4" {
			s.Elements[i].Data[0] = "10.88.0.6"
		}
	}
	mustApply(t, r, s)
	expect("10.88.0.5:80")
	flows := []netstate.Flow{{Protocol: "udp", Port: 8080}}
	if err := r.forget(t.Context(), flows); err != nil {
		t.Fatal(err)
	}
	expect("10.88.0.6:80")
}

// answerUDP answers whatever comes at an address with that address.
func answerUDP(t *testing.T, ns *netns.Handle, addr string) {
	t.Helper()
	err := ns.Do(func() error {
		p, err := net.ListenPacket("udp", addr)
		if err != nil {
			return err
		}
		t.Cleanup(func() { p.Close() })
		go func() {
			b := make([]byte, 16)
			for {
				_, from, err := p.ReadFrom(b)
				if err != nil {
					return
				}
				p.WriteTo([]byte(addr), from)
			}
		}()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestForgetFlowsSelects(t *testing.T) {
	all := []string{
		"udp 192.0.2.1:5005", "udp 192.0.2.1:5006", "udp 10.88.0.1:5005",
		"udp [2001:db8::1]:5005", "udp [2001:db8::1]:5006",
	}
	v4, v6 := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")
	for _, tc := range []struct {
		name  string
		flows []netstate.Flow
		gone  []string
	}{
		{"nothing", nil, nil},
		{"port", []netstate.Flow{{Protocol: "udp", Port: 5005}}, []string{all[0], all[2]}},
		{"port6", []netstate.Flow{{Protocol: "udp", Port: 5005, IPv6: true}}, []string{all[3]}},
		{"address", []netstate.Flow{{Protocol: "udp", Port: 5005, Addr: v4}}, []string{all[0]}},
		{"address6", []netstate.Flow{{Protocol: "udp", Port: 5006, Addr: v6, IPv6: true}}, []string{all[4]}},
		{"another-protocol", []netstate.Flow{{Protocol: "tcp", Port: 5005}, {Protocol: "sctp", Port: 5005, IPv6: true}}, nil},
		{"another-port", []netstate.Flow{{Protocol: "udp", Port: 5007}}, nil},
		{"several", []netstate.Flow{
			{Protocol: "udp", Port: 5006}, {Protocol: "udp", Port: 5005, Addr: v4},
			{Protocol: "udp", Port: 5005, IPv6: true}, {Protocol: "udp", Port: 5006, IPv6: true},
		}, []string{all[0], all[1], all[3], all[4]}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := newTrafficNet(t)
			r := openTestRuleset(t, n.host)
			mustApply(t, r, trafficState()) // so that connections are tracked
			for _, addr := range all {
				send(t, n.pod, addr[len("udp "):])
			}
			waitTracked(t, n.host, all)
			if err := r.forget(t.Context(), tc.flows); err != nil {
				t.Fatal(err)
			}
			want := slices.DeleteFunc(slices.Clone(all), func(f string) bool { return slices.Contains(tc.gone, f) })
			if diff := cmp.Diff(want, trackedUDP(t, n.host)); diff != "" {
				t.Errorf("entries (-want +got):\n%s", diff)
			}
		})
	}
}

func send(t *testing.T, ns *netns.Handle, addr string) {
	t.Helper()
	err := ns.Do(func() error {
		c, err := net.Dial("udp", addr)
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

// waitTracked looks until the entries are there: a packet over a veth is taken in a little after it
// was sent.
func waitTracked(t *testing.T, ns *netns.Handle, want []string) {
	t.Helper()
	for range 200 { // each look takes milliseconds
		if slices.Equal(trackedUDP(t, ns), want) {
			return
		}
	}
	t.Fatalf("entries %q, want %q", trackedUDP(t, ns), want)
}

// trackedUDP lists the UDP entries by destination, in the order of the test's list.
func trackedUDP(t *testing.T, ns *netns.Handle) []string {
	t.Helper()
	c, err := dialFilter(&space{ns: ns})
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	var all []string
	for _, v6 := range []bool{false, true} {
		var ports []netstate.Flow
		for p := 5000; p < 5010; p++ {
			ports = append(ports, netstate.Flow{Protocol: "udp", Port: p, IPv6: v6})
		}
		entries, err := c.tracked(t.Context(), flowGroup{v6, unix.IPPROTO_UDP}, ports, false)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			all = append(all, "udp "+netip.AddrPortFrom(e.dst, e.port).String())
		}
	}
	order := func(s string) int {
		return slices.Index([]string{
			"udp 192.0.2.1:5005", "udp 192.0.2.1:5006", "udp 10.88.0.1:5005",
			"udp [2001:db8::1]:5005", "udp [2001:db8::1]:5006",
		}, s)
	}
	slices.SortFunc(all, func(a, b string) int { return order(a) - order(b) })
	return all
}

func TestForgetFlowsRefuses(t *testing.T) {
	r := openTestRuleset(t, sandbox.Namespace(t))
	for _, tc := range []struct {
		name string
		flow netstate.Flow
	}{
		{"protocol", netstate.Flow{Protocol: "x", Port: 1}},
		{"port", netstate.Flow{Protocol: "udp"}},
		{"port-too-large", netstate.Flow{Protocol: "udp", Port: 65536}},
		{"family", netstate.Flow{Protocol: "udp", Port: 1, Addr: netip.MustParseAddr("::1")}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if err := r.forget(t.Context(), []netstate.Flow{tc.flow}); err == nil {
				t.Error("no error")
			}
		})
	}
}

// TestForgetFlowsFiltersInTheKernel proves that the kernel takes the filter: of many entries it hands
// over the few that are asked for.
func TestForgetFlowsFiltersInTheKernel(t *testing.T) {
	n := newTrafficNet(t)
	mustApply(t, openTestRuleset(t, n.host), trafficState())
	send(t, n.pod, "192.0.2.1:5005")
	send(t, n.pod, "192.0.2.1:5006")
	waitTracked(t, n.host, []string{"udp 192.0.2.1:5005", "udp 192.0.2.1:5006"})
	c, err := dialFilter(&space{ns: n.host})
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	flows := []netstate.Flow{{Protocol: "udp", Port: 5005, Addr: netip.MustParseAddr("192.0.2.1")}}
	g := flowGroup{false, unix.IPPROTO_UDP}
	ae := newAttrs()
	encodeFlowFilter(ae, g, flows)
	attrs, err := ae.Encode()
	if err != nil {
		t.Fatal(err)
	}
	replies := 0
	results, err := c.ask(t.Context(), []filterMessage{{kind: ctMessageGet, family: g.family(), flags: netlink.Dump, attrs: attrs}},
		func(int, []byte) error { replies++; return nil })
	if err != nil || results[0] != nil {
		sandbox.Need(t, "conntrack-filter", "dump with a filter refused")
	}
	if replies != 1 {
		t.Errorf("%d entries, want 1", replies)
	}
}

// TestForgetFlowsWarns has forgetting fail: the caller goes on, and the log says why.
func TestForgetFlowsWarns(t *testing.T) {
	var logged strings.Builder
	k, err := New(Config{Host: sandbox.Namespace(t), Log: slog.New(slog.NewTextHandler(&logged, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	k.forgetFlows(t.Context(), nil)
	k.forgetFlows(t.Context(), []netstate.Flow{{Protocol: "udp", Port: 8080}})
	if logged.Len() > 0 {
		t.Errorf("logged %s", logged.String())
	}
	k.forgetFlows(t.Context(), []netstate.Flow{{Protocol: "x", Port: 8080}})
	if !strings.Contains(logged.String(), "level=WARN") || !strings.Contains(logged.String(), "no transport protocol") {
		t.Errorf("logged %q", logged.String())
	}
}

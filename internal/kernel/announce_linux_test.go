package kernel_test

import (
	"bytes"
	"fmt"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cleat-cni/cleat/internal/kernel"
	"github.com/cleat-cni/cleat/internal/netns"
	"github.com/cleat-cni/cleat/netstate"
)

// capture opens a socket that gets all frames of an interface.
func capture(t *testing.T, ns *netns.Handle, dev string) int {
	t.Helper()
	var fd int
	err := ns.Do(func() error {
		const all = unix.ETH_P_ALL<<8&0xff00 | unix.ETH_P_ALL>>8
		var err error
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, all); err != nil {
			return err
		}
		var ifr *unix.Ifreq
		if ifr, err = unix.NewIfreq(dev); err != nil {
			return err
		}
		if err := unix.IoctlIfreq(fd, unix.SIOCGIFINDEX, ifr); err != nil {
			return err
		}
		return unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: int(ifr.Uint32())})
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 2}); err != nil {
		t.Fatal(err)
	}
	return fd
}

// announces reports whether a frame says that a is at the hardware address it comes from: an ARP packet whose sender and target
// are a, or an unsolicited neighbour advertisement that overrides.
func announces(frame []byte, a netip.Addr) bool {
	ip := a.AsSlice()
	switch {
	case len(frame) >= 42 && frame[12] == 8 && frame[13] == 6:
		return bytes.Equal(frame[28:32], ip) && bytes.Equal(frame[38:42], ip)
	case len(frame) >= 78 && frame[12] == 0x86 && frame[13] == 0xdd && frame[20] == unix.IPPROTO_ICMPV6:
		const advertisement, override = 136, 0x20
		return frame[54] == advertisement && frame[58]&override != 0 && bytes.Equal(frame[62:78], ip)
	}
	return false
}

// TestAnnounced: a pod that takes over an address tells its neighbours at once, in both families. Another pod and the host,
// which know the address as its last owner's, know better when the ADD has returned.
func TestAnnounced(t *testing.T) {
	m := newMachine(t)
	k, err := kernel.New(kernel.Config{Host: m.host})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	seen := m.attach(k, bridged(1))
	neigh := m.neigh
	fd := capture(t, seen, "eth0")
	const rounds = 10 // the order of events on the way is not always the same
	for n := 2; n < 2+rounds; n++ {
		addrs := []netip.Addr{}
		for _, a := range bridged(n).Addrs {
			if a.Place == netstate.Pod {
				addrs = append(addrs, a.Prefix.Addr())
			}
		}
		for _, a := range addrs {
			neigh(seen, "replace", a.String(), "lladdr", "02:00:00:00:00:99", "dev", "eth0", "nud", "reachable")
			neigh(m.host, "replace", a.String(), "lladdr", "02:00:00:00:00:99", "dev", "cni0", "nud", "reachable")
		}
		// An entry that has just changed is held for a second, against fights over an address.
		for _, at := range []struct {
			ns  *netns.Handle
			dev string
		}{{seen, "eth0"}, {m.host, "cni0"}} {
			if err := at.ns.Do(exec.Command("sysctl", "-qw", "net.ipv4.neigh."+at.dev+".locktime=0").Run); err != nil {
				t.Fatal(err)
			}
		}
		s := bridged(n)
		m.attach(k, s)
		for _, a := range addrs {
			for _, at := range []struct {
				ns  *netns.Handle
				dev string
			}{{seen, "eth0"}, {m.host, "cni0"}} {
				if have := neigh(at.ns, "show", a.String(), "dev", at.dev); !strings.Contains(have, s.Links[2].MAC) {
					t.Errorf("round %d: the entry of %s on %s is %s", n, a, at.dev, have)
				}
			}
		}
		told := map[netip.Addr]bool{}
		frame := make([]byte, 2048)
		for end := time.Now().Add(5 * time.Second); len(told) < len(addrs) && time.Now().Before(end); {
			size, _, err := unix.Recvfrom(fd, frame, 0)
			if err != nil {
				break
			}
			for _, a := range addrs {
				if announces(frame[:size], a) {
					told[a] = true
				}
			}
		}
		if len(told) < len(addrs) {
			t.Errorf("round %d: announced %v of %v", n, told, addrs)
		}
	}
}

// TestAnnouncedIfNeeded: where it is said that the neighbours know the addresses by the pod's MAC nobody is told, unless the host
// knows better.
func TestAnnouncedIfNeeded(t *testing.T) {
	const other = "02:00:00:00:00:99"
	for n, tc := range []struct {
		name, host string // the MAC by which the host knows the address
		known      bool
		told       bool
	}{
		{"known", "", true, false},
		{"known-to-the-host", "own", true, false},
		{"known-as-another's", other, true, true},
		{"not-known", "", false, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := newMachine(t)
			k, err := kernel.New(kernel.Config{Host: m.host})
			if err != nil {
				t.Fatal(err)
			}
			defer k.Close()
			pod := func(n int) netstate.State {
				s := bridged(n)
				s.Addrs = slices.DeleteFunc(s.Addrs, func(a netstate.Addr) bool { return a.Prefix.Addr().Is6() })
				s.Links[2].Known = tc.known
				return s
			}
			seen, s := m.attach(k, pod(1)), pod(n+2)
			ip := s.Addrs[1].Prefix.Addr().String()
			m.neigh(seen, "replace", ip, "lladdr", other, "dev", "eth0", "nud", "reachable")
			if tc.host != "" {
				m.neigh(m.host, "replace", ip, "lladdr", strings.Replace(tc.host, "own", s.Links[2].MAC, 1), "dev", "cni0", "nud", "stale")
			}
			if err := seen.Do(exec.Command("sysctl", "-qw", "net.ipv4.neigh.eth0.locktime=0").Run); err != nil {
				t.Fatal(err)
			}
			m.attach(k, s)
			if have := m.neigh(seen, "show", ip, "dev", "eth0"); strings.Contains(have, s.Links[2].MAC) != tc.told {
				t.Errorf("the other pod's entry is %s", have)
			}
		})
	}
}

// attach makes a state in a pod of its own, and returns the pod's namespace.
func (m *machine) attach(k *kernel.Kernel, s netstate.State) *netns.Handle {
	m.t.Helper()
	path := m.newPod()
	pod, err := netns.Open(path)
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { pod.Close() })
	session, err := k.Open(m.t.Context(), path, false)
	if err != nil {
		m.t.Fatal(err)
	}
	defer session.Close()
	if err := session.Apply(m.t.Context(), s); err != nil {
		m.t.Fatal(err)
	}
	return pod
}

func (m *machine) neigh(ns *netns.Handle, args ...string) string {
	m.t.Helper()
	var out []byte
	err := ns.Do(func() error {
		var err error
		out, err = exec.Command("ip", append([]string{"neigh"}, args...)...).CombinedOutput()
		return err
	})
	if err != nil {
		m.t.Fatalf("ip neigh %v: %v: %s", args, err, out)
	}
	return string(out)
}

// bridged is a pod on a bridge, as plugin bridge has it.
func bridged(n int) netstate.State {
	owner := netstate.Owner{Network: "pods", ContainerID: fmt.Sprintf("c%d", n), IfName: "eth0"}
	host := owner.HostName("veth")
	ip4, ip6 := netip.MustParsePrefix(fmt.Sprintf("10.88.0.%d/24", n+1)), netip.MustParsePrefix(fmt.Sprintf("fd00:88::%x/64", n+1))
	return netstate.State{
		Owner: owner,
		Links: []netstate.Link{
			{Place: netstate.Host, Name: "cni0", Kind: "bridge", Shared: true},
			{Place: netstate.Host, Name: host, Kind: "veth", Peer: "eth0", PeerPlace: netstate.Pod, Master: "cni0"},
			{Place: netstate.Pod, Name: "eth0", Kind: "veth", Peer: host, PeerPlace: netstate.Host, ARPNotify: true, MAC: owner.MAC("eth0")},
		},
		Sysctls: []netstate.Sysctl{
			{Place: netstate.Pod, Name: "net/ipv6/conf/eth0/ndisc_notify", Value: "1"},
			{Place: netstate.Pod, Name: "net/ipv6/conf/eth0/accept_dad", Value: "0"},
		},
		Addrs: []netstate.Addr{
			{Place: netstate.Host, Dev: "cni0", Prefix: netip.MustParsePrefix("10.88.0.1/24"), Shared: true},
			{Place: netstate.Host, Dev: "cni0", Prefix: netip.MustParsePrefix("fd00:88::1/64"), Shared: true},
			{Place: netstate.Pod, Dev: "eth0", Prefix: ip4}, {Place: netstate.Pod, Dev: "eth0", Prefix: ip6},
		},
	}
}

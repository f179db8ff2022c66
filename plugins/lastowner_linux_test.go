package plugins_test

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cleat-cni/cleat/internal/netns"
	"github.com/cleat-cni/cleat/internal/sandbox/traffic"
)

// talk is what a pod has begun with a machine outside, which goes on answering.
type talk struct {
	outside, inside net.PacketConn
	from            net.Addr // as whom the machine outside knows the pod
	local           netip.AddrPort
}

func listenIn(t *testing.T, ns *netns.Handle, addr string) net.PacketConn {
	t.Helper()
	var c net.PacketConn
	err := ns.Do(func() error {
		var err error
		c, err = net.ListenPacket("udp", addr)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// begin has the pod say something to a machine outside.
func (m *machine) begin(t *testing.T, p *pod, family int) talk {
	t.Helper()
	k := talk{outside: listenIn(t, m.Outside, net.JoinHostPort(traffic.OutsideAddr(family), "7000"))}
	k.local = netip.AddrPortFrom(p.address(family == 1), 7000)
	k.inside = listenIn(t, p.ns, k.local.String())
	to, err := net.ResolveUDPAddr("udp", k.outside.LocalAddr().String())
	if err == nil {
		_, err = k.inside.WriteTo([]byte("hello"), to)
	}
	if err == nil {
		err = k.outside.SetReadDeadline(time.Now().Add(10 * time.Second))
	}
	if err == nil {
		_, k.from, err = k.outside.ReadFrom(make([]byte, 64))
	}
	if err != nil {
		t.Fatal(err)
	}
	if from := k.from.(*net.UDPAddr).AddrPort().Addr().Unmap().String(); from != traffic.HostAddr(family) {
		t.Fatalf("the machine outside sees %s", from)
	}
	return k
}

// arrives reports whether an answer to what was begun comes to a socket.
func (k talk) arrives(t *testing.T, at net.PacketConn, patience time.Duration) bool {
	t.Helper()
	if _, err := k.outside.WriteTo([]byte("answer"), k.from); err != nil {
		t.Fatal(err)
	}
	if err := at.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	_, _, err := at.ReadFrom(make([]byte, 64))
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	return err == nil
}

// TestLastOwner: an answer to what a pod has begun reaches nobody who has its address next, and the host knows the pod's hardware address no
// more.
func TestLastOwner(t *testing.T) { onEachBackend(t, testLastOwner) }

func testLastOwner(t *testing.T, m *machine) {
	for name, family := range traffic.Families() {
		t.Run(name, func(t *testing.T) {
			first := m.attach(m.newPod(2, podNetwork))
			k := m.begin(t, first, family)
			if !k.arrives(t, k.inside, 10*time.Second) {
				t.Fatal("the answer doesn't reach the pod that asked")
			}
			if known := m.Run(m.Host, "ip neigh show dev cni0"); !strings.Contains(known, k.local.Addr().String()) {
				t.Fatalf("the host doesn't know the pod: %s", known)
			}
			m.del(t, first.attachment)
			if known := m.Run(m.Host, "ip neigh show dev cni0"); strings.Contains(known, k.local.Addr().String()) {
				t.Errorf("the host still knows %s", known)
			}
			next := m.attach(m.newPod(2, podNetwork))
			if k.arrives(t, listenIn(t, next.ns, k.local.String()), 300*time.Millisecond) {
				t.Error("the next owner of the address gets the answer")
			}
			m.del(t, next.attachment)
		})
	}
}

// TestLastOwnerWithoutDEL: that holds too if the pod went without a DEL, and an ADD takes its address over.
func TestLastOwnerWithoutDEL(t *testing.T) {
	m := newMachine(t)
	first := m.attach(m.newPod(2, podNetwork))
	k := m.begin(t, first, 0)
	m.Run(m.Host, "ip link del "+first.netOwner().HostName("veth"))
	next := m.attach(m.newPod(2, podNetwork))
	if k.arrives(t, listenIn(t, next.ns, k.local.String()), 300*time.Millisecond) {
		t.Error("the next owner of the address gets the answer")
	}
}

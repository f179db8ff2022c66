package kernel

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/cleat-cni/cleat/internal/sandbox"
)

// Others take the MTU of a bridge that is up for its pods'. So it has the final one once and for all, and before
// anybody can bring it up with that.
func TestMTUOfANewBridgeComesOnce(t *testing.T) {
	t.Parallel()
	for _, mtu := range []int{1500, 9000, 68} {
		k := testKernel(t)
		notices, err := netlink.Dial(unix.NETLINK_ROUTE, &netlink.Config{NetNS: k.host.ns.FD(), Groups: 1 << (unix.RTNLGRP_LINK - 1)})
		if err != nil {
			t.Fatal(err)
		}
		defer notices.Close()
		st := bridgeState(1)
		st.Links[0].MTU = mtu
		add(t, openPod(t, k, sandbox.Namespace(t)), st)
		look(t, k.host.ns, "ip", "link", "add", "end", "type", "bridge")
		seen := mtusOf(t, notices, "cni0", "end")
		first := slices.Index(seen, mtu)
		if first < 1 || slices.ContainsFunc(seen[first:], func(n int) bool { return n != mtu }) {
			t.Errorf("MTUs of the bridge one after the other: %v, want another before %d, and none after it", seen, mtu)
		}
		// It is the bridge's own now, and no longer that of the smallest port.
		look(t, k.host.ns, "ip", "link", "add", "port", "mtu", "1300", "type", "veth", "peer", "other")
		look(t, k.host.ns, "ip", "link", "set", "port", "master", "cni0")
		f, err := openPod(t, k, sandbox.Namespace(t)).Observe(t.Context(), seeBridge)
		if err != nil {
			t.Fatal(err)
		}
		if f.Links[0].MTU != mtu {
			t.Errorf("the bridge has MTU %d of its port, not %d", f.Links[0].MTU, mtu)
		}
	}
}

// mtusOf reads notices of links up to one about the link end, and returns the MTUs of name.
func mtusOf(t *testing.T, notices *netlink.Conn, name, end string) []int {
	t.Helper()
	var list []int
	for {
		msgs, err := notices.Receive()
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range msgs {
			if m.Header.Type != unix.RTM_NEWLINK || len(m.Data) < unix.SizeofIfInfomsg {
				continue
			}
			ad, err := netlink.NewAttributeDecoder(m.Data[unix.SizeofIfInfomsg:])
			if err != nil {
				t.Fatal(err)
			}
			about, mtu := "", 0
			for ad.Next() {
				switch ad.Type() {
				case unix.IFLA_IFNAME:
					about = ad.String()
				case unix.IFLA_MTU:
					mtu = int(binary.NativeEndian.Uint32(ad.Bytes()))
				}
			}
			switch about {
			case name:
				list = append(list, mtu)
			case end:
				return list
			}
		}
	}
}

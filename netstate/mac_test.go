package netstate_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/cleat-cni/cleat/netstate"
)

func TestParseMAC(t *testing.T) {
	for _, tc := range []struct{ name, in, want, err string }{
		{name: "canonical", in: "02:42:ac:11:00:02", want: "02:42:ac:11:00:02"},
		{name: "upper-case", in: "02:42:AC:11:00:02", want: "02:42:ac:11:00:02"},
		{name: "dashes", in: "02-42-ac-11-00-02", want: "02:42:ac:11:00:02"},
		{name: "dots", in: "0242.ac11.0002", want: "02:42:ac:11:00:02"},
		{name: "empty", in: "", err: `"" is no MAC address`},
		{name: "short", in: "02:42:ac", err: "is no MAC address"},
		{name: "eight-bytes", in: "02:42:ac:11:00:02:03:04", err: "has 8 bytes"},
		{name: "group", in: "01:00:5e:00:00:01", err: "address of a group"},
		{name: "broadcast", in: "ff:ff:ff:ff:ff:ff", err: "address of a group"},
		{name: "zero", in: "00:00:00:00:00:00", err: "of no interface"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := netstate.ParseMAC(tc.in)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Fatalf("error %v, want one with %q", err, tc.err)
				}
				return
			}
			if err != nil || got != tc.want {
				t.Fatalf("got %q, %v, want %q", got, err, tc.want)
			}
		})
	}
}

func TestDerivedMACs(t *testing.T) {
	o := netstate.Owner{Network: "n", ContainerID: "c", IfName: "eth0"}
	for name, mac := range map[string]string{"pod": o.MAC("pod"), "host": o.MAC("host"), "bridge": netstate.MACFor("cni0")} {
		if got, err := netstate.ParseMAC(mac); err != nil || got != mac {
			t.Errorf("%s: %q is not one interface's: %v", name, mac, err)
		}
		if mac[1] != '2' && mac[1] != '6' && mac[1] != 'a' && mac[1] != 'e' {
			t.Errorf("%s: %q is not locally administered", name, mac)
		}
	}
	if o.MAC("pod") == o.MAC("host") {
		t.Error("both sides have one address")
	}
	if first, again := o.MAC("pod"), o.MAC("pod"); first != again {
		t.Errorf("one owner has two addresses, %s and %s", first, again)
	}
	if got, want := netstate.MACFromIPv4(netip.MustParseAddr("10.88.0.5")), "0a:58:0a:58:00:05"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

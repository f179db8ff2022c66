package netstate_test

import (
	"net/netip"
	"testing"

	"github.com/cleat-cni/cleat/netstate"
)

func TestNetmask(t *testing.T) {
	for prefix, want := range map[string]string{
		"10.88.0.5/16":  "255.255.0.0",
		"10.88.0.5/20":  "255.255.240.0",
		"10.88.0.5/32":  "255.255.255.255",
		"0.0.0.0/0":     "0.0.0.0",
		"fd00::5/64":    "ffff:ffff:ffff:ffff::",
		"fd00::5/65":    "ffff:ffff:ffff:ffff:8000::",
		"2001:db8::/32": "ffff:ffff::",
	} {
		if got := netstate.Netmask(netip.MustParsePrefix(prefix)).String(); got != want {
			t.Errorf("%s: got %s, want %s", prefix, got, want)
		}
	}
}

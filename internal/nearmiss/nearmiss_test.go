package nearmiss_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/internal/nearmiss"
)

func TestOf(t *testing.T) {
	names := []string{"bridge", "bandwidth", "host-local", "host-device", "portmap", "ptp", "tap"}
	for _, tc := range []struct {
		name, in string
		want     []string
	}{
		{"letter-missing", "brige", []string{"bridge"}},
		{"letter-too-many", "portmapp", []string{"portmap"}},
		{"hyphen-missing", "hostlocal", []string{"host-local"}},
		{"underscore", "host_local", []string{"host-local"}},
		{"case", "Bridge", []string{"bridge"}},
		{"short-name", "ptb", []string{"ptp"}},
		{"swapped", "tpa", []string{"tap"}},
		{"two-near", "tp", []string{"ptp", "tap"}},
		{"far", "macvlan", nil},
		{"the-name-itself", "bridge", nil},
		{"empty", "", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, nearmiss.Of(tc.in, names)); diff != "" {
				t.Errorf("Of(%q) (-want +got):\n%s", tc.in, diff)
			}
		})
	}
}

func TestHint(t *testing.T) {
	for _, tc := range []struct {
		name, got string
		names     []string
		want      string
	}{
		{"typo", "mynett", []string{"other", "mynet"}, `did you mean mynet?`},
		{"case", "MYNET", []string{"mynet"}, `did you mean mynet?`},
		{"prefix", "production-net", []string{"a", "production-network-one"}, `did you mean production-network-one?`},
		{"few", "x", []string{"alpha-net", "beta-net"}, "there is alpha-net, beta-net"},
		{"none", "x", nil, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := nearmiss.Hint(tc.got, tc.names); got != tc.want {
				t.Errorf("Hint = %q, want %q", got, tc.want)
			}
		})
	}
}

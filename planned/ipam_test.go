package planned

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/netstate"
	"github.com/cleat-cni/cleat/plugin"
)

func TestAddressIn(t *testing.T) {
	subnet := netip.MustParsePrefix("10.1.0.0/24")
	addr := netip.MustParseAddr
	set := []netstate.Range{
		{Subnet: subnet, Start: addr("10.1.0.2"), End: addr("10.1.0.9"), Gateway: addr("10.1.0.1")},
		{Subnet: subnet, Start: addr("10.1.0.20"), End: addr("10.1.0.29"), Gateway: addr("10.1.0.254")},
	}
	for a, want := range map[string]string{"10.1.0.9": "10.1.0.1", "10.1.0.20": "10.1.0.254", "10.1.0.15": "10.1.0.1"} {
		got, err := addressIn(set, addr(a))
		if err != nil || got.Address != netip.PrefixFrom(addr(a), 24) || got.Gateway != addr(want) {
			t.Errorf("%s: got %+v, error %v, want gateway %s", a, got, err, want)
		}
	}
	if got, err := addressIn(set, addr("10.2.0.9")); err == nil {
		t.Errorf("an address of no range gave %+v", got)
	}
}

func TestCheckFixed(t *testing.T) {
	ip := func(prefix, gateway string) cni.IP {
		i := cni.IP{Address: netip.MustParsePrefix(prefix)}
		if gateway != "" {
			i.Gateway = netip.MustParseAddr(gateway)
		}
		return i
	}
	fixed := []cni.IP{ip("10.1.0.2/24", "10.1.0.1"), ip("10.2.0.2/24", ""), ip("10.3.0.2/24", "10.3.0.1")}
	for _, tc := range []struct {
		name string
		prev []cni.IP
		want []string // the objects that are not as they should be
	}{
		{"as-given", fixed, nil},
		{"gateway-chosen-by-a-plugin", []cni.IP{fixed[0], ip("10.2.0.2/24", "10.2.0.9"), fixed[2]}, nil},
		{"another-gateway", []cni.IP{ip("10.1.0.2/24", "10.1.0.9"), fixed[1], fixed[2]}, []string{"address 10.1.0.2/24"}},
		{"last-missing", fixed[:2], []string{"address 10.3.0.2/24"}},
		{"all-missing", nil, []string{"address 10.1.0.2/24", "address 10.2.0.2/24", "address 10.3.0.2/24"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := checkFixed(fixed, &plugin.Request{IfName: "eth0", Prev: &cni.Result{IPs: tc.prev}})
			var got []string
			if found, ok := errors.AsType[*DifferencesError](err); ok {
				for _, d := range found.Differences {
					got = append(got, d.Object)
				}
			} else if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

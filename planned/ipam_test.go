package planned

import (
	"net/netip"
	"testing"

	"github.com/cleat-cni/cleat/netstate"
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

package planned

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/netstate"
)

// TestNewRepair says of a state with differences what goes and what comes.
func TestNewRepair(t *testing.T) {
	owner := netstate.Owner{Network: "n", ContainerID: "c1", IfName: "eth0"}
	host := netstate.Link{Place: netstate.Host, Name: "veth0", Kind: "veth", MTU: 1400, Peer: "eth0", PeerPlace: netstate.Pod}
	pod := netstate.Link{Place: netstate.Pod, Name: "eth0", Kind: "veth", MTU: 1400, Peer: "veth0", PeerPlace: netstate.Host}
	route := func(dst, via string) netstate.Route {
		return netstate.Route{Place: netstate.Pod, Dst: netip.MustParsePrefix(dst), Via: netip.MustParseAddr(via), Dev: "eth0"}
	}
	first, second, third := route("10.1.0.0/16", "10.0.0.1"), route("10.2.0.0/16", "10.0.0.1"), route("10.3.0.0/16", "10.0.0.1")
	missing := func(o netstate.Object) netstate.Difference {
		return netstate.Difference{Object: o.Key(), Want: o.String()}
	}
	otherwise := func(o netstate.Object) netstate.Difference {
		return netstate.Difference{Object: o.Key(), Want: o.String(), Have: "otherwise"}
	}
	adjusted := pod
	adjusted.Kind, adjusted.Peer = "", ""
	for _, tc := range []struct {
		name       string
		diffs      []netstate.Difference
		away, back netstate.State
	}{
		{"nothing", nil, netstate.State{}, netstate.State{}},
		{"routes", []netstate.Difference{otherwise(second), missing(third)},
			netstate.State{Routes: []netstate.Route{second}}, netstate.State{Routes: []netstate.Route{second, third}}},
		{"link-otherwise", []netstate.Difference{otherwise(pod)}, netstate.State{}, netstate.State{Links: []netstate.Link{adjusted}}},
		{"one-end-missing", []netstate.Difference{missing(pod)},
			netstate.State{Links: []netstate.Link{host}}, netstate.State{Links: []netstate.Link{host, pod}}},
		{"both-ends-missing", []netstate.Difference{missing(host), missing(pod)},
			netstate.State{Links: []netstate.Link{host, pod}}, netstate.State{Links: []netstate.Link{host, pod}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			want := netstate.State{Owner: owner, Links: []netstate.Link{host, pod}, Routes: []netstate.Route{first, second, third}}
			r := newRepair(want, tc.diffs)
			if diff := cmp.Diff(tc.away.String(), r.away.String()); diff != "" {
				t.Errorf("what goes (-want +got)\n%s", diff)
			}
			if diff := cmp.Diff(tc.back.String(), r.back.String()); diff != "" {
				t.Errorf("what comes (-want +got)\n%s", diff)
			}
		})
	}
}

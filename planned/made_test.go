package planned

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/netstate"
)

// TestWithoutMade: what an earlier step makes for the attachment is not looked for, nor its values; what is shared, or only adjusted, is.
func TestWithoutMade(t *testing.T) {
	pod := func(name string) netstate.Ref { return netstate.Ref{Place: netstate.Pod, Name: name} }
	value := func(p netstate.Place, name string) netstate.Sysctl { return netstate.Sysctl{Place: p, Name: name} }
	r := listRun{plans: []Plan{{}, {State: netstate.State{Links: []netstate.Link{
		{Place: netstate.Host, Name: "cni0", Kind: "bridge", Shared: true},
		{Place: netstate.Pod, Name: "eth0", Kind: "veth"},
		{Place: netstate.Pod, Name: "lo"},
	}}}}}
	ask := netstate.Query{
		Links: []netstate.Ref{pod("eth0"), pod("lo"), {Place: netstate.Host, Name: "eth0"}, {Place: netstate.Host, Name: "cni0"}},
		Sysctls: []netstate.Sysctl{
			value(netstate.Pod, "net/ipv4/conf/eth0/arp_filter"), value(netstate.Host, "net/ipv4/conf/eth0/arp_filter"),
			value(netstate.Pod, "net/ipv4/conf/lo/arp_filter"), value(netstate.Pod, "net/core/somaxconn"),
		},
	}
	want := netstate.Query{Links: ask.Links[1:], Sysctls: ask.Sysctls[1:]}
	if diff := cmp.Diff(want, r.withoutMade(ask)); diff != "" {
		t.Errorf("it asks (-want +got)\n%s", diff)
	}
	ask.UplinkIfMissing = true
	if diff := cmp.Diff(ask, r.withoutMade(ask)); diff != "" {
		t.Errorf("whether links are missing is asked (-want +got)\n%s", diff)
	}
}

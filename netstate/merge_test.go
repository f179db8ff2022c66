package netstate_test

import (
	"testing"

	"github.com/cleat-cni/cleat/netstate"
)

// TestMergeAdjusts: what adjusts a link that another state makes is part of it, and the later of two values counts.
func TestMergeAdjusts(t *testing.T) {
	made := netstate.State{Links: []netstate.Link{{Place: netstate.Pod, Name: "eth0", Kind: "veth", MAC: "02:00:00:00:00:01", MTU: 1500, Peer: "veth1", PeerPlace: netstate.Host, Promisc: true}},
		Sysctls: []netstate.Sysctl{{Place: netstate.Pod, Name: "net/a", Value: "0"}}}
	tuned := netstate.State{Links: []netstate.Link{{Place: netstate.Pod, Name: "eth0", MAC: "02:00:00:00:00:07", NoPromisc: true, AllMulti: netstate.On, TxQLen: 5}, {Place: netstate.Pod, Name: "lo", MTU: 1000}},
		Sysctls: []netstate.Sysctl{{Place: netstate.Pod, Name: "net/a", Value: "1"}}}
	const link = "pod  link eth0 kind veth mac 02:00:00:00:00:07 mtu 1500 peer host/veth1 nopromisc allmulti on txqlen 5\npod  link lo mtu 1000\n"
	if got, want := netstate.Merge(made, tuned).String(), link+"pod  sysctl net/a value 1\n"; got != want {
		t.Errorf("merged\n%swant\n%s", got, want)
	}
	if got, want := netstate.Merge(made, made).String(), made.String(); got != want {
		t.Errorf("merged with itself\n%swant\n%s", got, want)
	}
	if want := 1500; made.Links[0].MTU != want || made.Links[0].MAC != "02:00:00:00:00:01" {
		t.Errorf("the state that was merged changed: %s", made)
	}
}

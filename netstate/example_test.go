package netstate_test

import (
	"fmt"
	"net/netip"

	"github.com/cleat-cni/cleat/netstate"
)

// A state is data, and has one text: an object a line.
func ExampleState() {
	s := netstate.State{
		Links: []netstate.Link{{Place: netstate.Host, Name: "cni0", Kind: "bridge", Shared: true}},
		Addrs: []netstate.Addr{{Place: netstate.Pod, Dev: "eth0", Prefix: netip.MustParsePrefix("10.88.0.5/16")}},
	}
	fmt.Print(s)
	// Output:
	// host link cni0 kind bridge shared
	// pod  addr 10.88.0.5/16 dev eth0
}

// An owner's names and mark follow from its attachment, so that what belongs to it is found without memory.
func ExampleOwner() {
	o := netstate.Owner{Network: "pods", ContainerID: "5f2c0d", IfName: "eth0"}
	fmt.Println(o.HostName("veth"))
	fmt.Println(o.Comment(64))
	_, again, _ := netstate.ParseMark(o.Comment(64))
	fmt.Println(again == o)
	// Output:
	// veth38cf8ae1c04
	// e32b5192-122c055cd607 pods 5f2c0d eth0
	// true
}

// The states of several plugins are applied as one.
func ExampleMerge() {
	bridge := netstate.State{Links: []netstate.Link{{Place: netstate.Host, Name: "cni0", Kind: "bridge", Shared: true}}}
	routes := netstate.State{Routes: []netstate.Route{{Place: netstate.Pod, Dst: netip.MustParsePrefix("10.20.0.0/16"),
		Via: netip.MustParseAddr("10.88.0.1"), Dev: "eth0"}}}
	fmt.Print(netstate.Merge(bridge, routes))
	// Output:
	// host link cni0 kind bridge shared
	// pod  route 10.20.0.0/16 via 10.88.0.1 dev eth0
}

// What a planner asked for comes back as facts.
func ExampleFacts() {
	seen := netstate.Facts{
		Links: []netstate.Link{{Place: netstate.Host, Name: "cni0", Kind: "bridge", MTU: 1450}},
		Addrs: []netstate.Addr{{Place: netstate.Host, Dev: "cni0", Prefix: netip.MustParsePrefix("10.88.0.1/16")}},
	}
	l, ok := seen.Link(netstate.Host, "cni0")
	fmt.Println(l.MTU, ok, seen.AddrsOf(netstate.Host, "cni0")[0].Prefix)
	// Output:
	// 1450 true 10.88.0.1/16
}

package doctor

import (
	"slices"

	"github.com/cleat-cni/cleat/netstate"
)

// Trial is something that a kernel is to make out of the host's sight, to see whether it can.
type Trial struct {
	Name  string
	State netstate.State
	// Uses reports whether a plan needs it.
	Uses func(s netstate.State) bool
}

// Trials are what kernels may lack.
func Trials() []Trial {
	owner := netstate.Owner{Network: "cleat", ContainerID: "cleat-doctor", IfName: "eth0"}
	state := func(s netstate.State) netstate.State {
		s.Owner = owner
		return s
	}
	bridge := netstate.Link{Place: netstate.Host, Name: "cleat0", Kind: "bridge", Shared: true}
	host, pod := owner.HostName("veth"), "eth0"
	pair := []netstate.Link{
		{Place: netstate.Host, Name: host, Kind: "veth", Peer: pod, PeerPlace: netstate.Pod},
		{Place: netstate.Pod, Name: pod, Kind: "veth", Peer: host, PeerPlace: netstate.Host},
	}
	filtering := bridge
	filtering.Bridge.VLANFiltering = true
	anyLink := func(of func(netstate.Link) bool) func(netstate.State) bool {
		return func(s netstate.State) bool { return slices.ContainsFunc(s.Links, of) }
	}
	return []Trial{
		{"veth pairs", state(netstate.State{Links: pair}), anyLink(func(l netstate.Link) bool { return l.Kind == "veth" })},
		{"bridges", state(netstate.State{Links: []netstate.Link{bridge}}), anyLink(func(l netstate.Link) bool { return l.Kind == "bridge" })},
		{"VLANs of bridges", state(netstate.State{Links: []netstate.Link{filtering}}), anyLink(func(l netstate.Link) bool { return l.Bridge.VLANFiltering })},
		{"masquerading by nftables", state(natTable("postrouting", 100, "ip saddr 192.0.2.1 masquerade")),
			func(s netstate.State) bool { return len(s.Tables) > 0 }},
		{"limits of bandwidth", state(netstate.State{
			Links:  []netstate.Link{{Place: netstate.Host, Name: "cleat1", Kind: "ifb"}},
			Qdiscs: []netstate.Qdisc{{Place: netstate.Host, Dev: "cleat1", Kind: "tbf", Handle: 1 << 16, Parent: 0xffffffff, Rate: 125000, Burst: 20000, Limit: 40000}},
		}), func(s netstate.State) bool { return len(s.Qdiscs) > 0 }},
	}
}

// natTable is a table with one chain that has one rule.
func natTable(hook string, priority int, rule string) netstate.State {
	return netstate.State{Tables: []netstate.Table{{Family: "inet", Name: "cleat", Chains: []netstate.Chain{
		{Name: "cleat_doctor", Type: "nat", Hook: hook, Priority: priority, Rules: []string{rule}},
	}}}}
}

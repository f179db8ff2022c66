package netstate

import (
	"errors"
	"net/netip"
)

// What can be wrong with an object or a place, for errors.Is.
var (
	ErrExist         = errors.New("already exists")
	ErrNotExist      = errors.New("does not exist")
	ErrInUse         = errors.New("in use by another attachment")
	ErrExhausted     = errors.New("no free address")
	ErrUnsupported   = errors.New("not supported by this kernel")
	ErrNotNamespace  = errors.New("not a network namespace")
	ErrHostNamespace = errors.New("the host's own network namespace")
)

// Place says in which namespace an object lives.
type Place string

// The two namespaces of an attachment.
const (
	Host Place = "host"
	Pod  Place = "pod"
)

// Object is one thing that exists or should exist. It is one line of text.
type Object interface {
	// Key identifies the object among others of its kind: `host link cni0`. Two
	// objects with one key can't exist beside each other.
	Key() string
	// String is the object's canonical line.
	String() string
}

// State is what should exist for one or several plugins of one attachment, or what
// was seen. The order of the slices is the order in which they are made.
type State struct {
	Owner      Owner // of what is not Shared
	Leases     []Lease
	Links      []Link
	Sysctls    []Sysctl
	Addrs      []Addr
	Routes     []Route
	Rules      []Rule
	Neighbours []Neighbour
	Qdiscs     []Qdisc
	Filters    []Filter
	Tables     []Table
	Elements   []Element
	Flows      []Flow // conntrack entries that must not exist
}

// Link is a network interface.
type Link struct {
	Place Place
	Name  string
	Kind  string // veth, bridge, ifb, …; "" for one that is only adjusted (lo, a borrowed device)
	MAC   string // lower case, colons; "" leaves it to the kernel (or as it is)
	MTU   int    // 0 leaves it to the kernel (or as it is)

	Peer      string // veth: the other end's name, in PeerPlace
	PeerPlace Place
	Master    string // bridge that it is a port of
	Port      Port   // as a port of Master
	Bridge    Bridge // Kind bridge
	VLANs     []VLAN // of a bridge port, or of the bridge itself; nil leaves them
	NoIPv6    bool   // no IPv6 link-local address of its own (addrgenmode none)
	ARPNotify bool   // announce its addresses when it comes up
	Down      bool   // stays down
	Promisc   bool
	Shared    bool // made if missing, never removed, belongs to nobody
}

// Port is how a link behaves as a bridge port.
type Port struct {
	Hairpin  bool
	Isolated bool
}

// Bridge is how a bridge behaves.
type Bridge struct {
	VLANFiltering bool
}

// VLAN is a range of VLAN ids on a bridge port. From equals To for a single one.
type VLAN struct {
	From, To int
	PVID     bool // ingress frames without a tag get it
	Untagged bool // egress frames lose their tag
}

// Addr is an address of an interface.
type Addr struct {
	Place         Place
	Dev           string
	Prefix        netip.Prefix // the address with its prefix length, host bits kept
	DAD           bool         // wait for duplicate address detection; else the address is usable at once
	NoPrefixRoute bool         // the kernel makes no connected route for it
	Shared        bool
}

// Route is an entry of a routing table.
type Route struct {
	Place    Place
	Dst      netip.Prefix // 0.0.0.0/0 and ::/0 for the default
	Via      netip.Addr   // zero is on link
	Dev      string
	Src      netip.Addr
	Table    int // 0 is main
	Scope    int // kernel's number: 0 global, 253 link, 254 host
	Priority int
	MTU      int
	AdvMSS   int
	OnLink   bool // Via is reachable though no route says so
	Shared   bool
}

// Rule is an entry of the routing policy.
type Rule struct {
	Place    Place
	From     netip.Prefix
	To       netip.Prefix
	Table    int
	Priority int
	Shared   bool
}

// Neighbour is a permanent neighbour entry.
type Neighbour struct {
	Place Place
	Dev   string
	Addr  netip.Addr
	MAC   string
}

// Sysctl is a value below /proc/sys, set in the namespace of Place.
type Sysctl struct {
	Place  Place
	Key    string // net/ipv4/ip_forward
	Value  string
	Shared bool // never set back
	// AfterUp: the value is set when the links are up; else before.
	AfterUp bool
}

// Qdisc is a queueing discipline of an interface.
type Qdisc struct {
	Place  Place
	Dev    string
	Kind   string // tbf, ingress
	Handle uint32
	Parent uint32
	Rate   uint64 // tbf: bytes a second
	Burst  uint32 // tbf: bytes
	Limit  uint32 // tbf: bytes
}

// Filter sends all that comes in on Dev to the interface To (u32 match all, mirred egress
// redirect), below the ingress qdisc.
type Filter struct {
	Place Place
	Dev   string
	To    string
}

// Table is an nft table of our own with all that does not grow with pods: sets and
// maps (their declarations), chains and the chains' rules. It is shared.
type Table struct {
	Family string // inet, bridge
	Name   string
	Sets   []Set
	Chains []Chain
}

// Set declares an nft set or map.
type Set struct {
	Name string
	Key  []string // types: ipv4_addr, ipv6_addr, inet_proto, inet_service, ifname, ether_addr, mark
	Data []string // types of a map's values; nil for a set
}

// Chain is an nft chain with its rules in order.
type Chain struct {
	Name     string
	Type     string // filter, nat; "" for a chain without a hook
	Hook     string // prerouting, input, forward, output, postrouting
	Priority int
	Rules    []string // nft's own syntax, in the subset that internal/kernel compiles
}

// Element is an element of an nft set or map.
type Element struct {
	Family, Table, Set string
	Key                []string // values as text: tcp, 8080, 10.88.0.5, cni0
	Data               []string
	Owner              Owner
	// Lives names what proves that the owner is alive: "link vethab12" on the host or
	// "netns /run/netns/x". An element whose owner is dead may be replaced.
	Lives string
}

// Flow selects conntrack entries by their original destination, to be forgotten when a
// state is applied and when it is removed.
type Flow struct {
	Protocol string     // udp
	Addr     netip.Addr // original destination; zero is any of the family
	IPv6     bool
	Port     int // original destination port
}

// Lease is an address that an IPAM plugin holds for an owner.
type Lease struct {
	Network string
	Addr    netip.Addr
	Store   string // folder of the store
	Owner   Owner
}

// Difference is one object that is not as it should be.
type Difference struct {
	Object string `json:"object"` // the key
	Want   string `json:"want"`   // canonical line, "" for an object that should not be there
	Have   string `json:"have"`   // canonical line of what is there, "" for nothing
}

// Query says what a planner needs to know about the kernel before it plans.
type Query struct {
	Links  []Ref // these links, with their addresses
	Uplink bool  // the host's interface of the default route (IPv4 first)
}

// Ref names a link.
type Ref struct {
	Place Place
	Name  string
}

// Facts is what was seen: links and addresses that a Query asked for and that exist.
type Facts struct {
	Links  []Link
	Addrs  []Addr
	Uplink Link // zero when the host has no default route
}

// Freed is an object that GC removed, or would remove.
type Freed struct {
	Object string // canonical line
	Mark   string
	Owner  Owner // only Network is set where the object names no more than the mark
}

// Pool is where an IPAM plugin chooses addresses: a store and the ranges it may give from it.
type Pool struct {
	Network string
	Dir     string       // the store's folder for all networks; this network's is <Dir>/<Network>
	Sets    [][]Range    // one address is taken from each set; within a set its ranges follow each other
	Want    []netip.Addr // addresses asked for: each must lie in a set and is taken instead of a free one
}

// Range is a run of addresses of a subnet.
type Range struct {
	Subnet  netip.Prefix // masked
	Start   netip.Addr   // included
	End     netip.Addr   // included
	Gateway netip.Addr   // never given out; zero is none
}

package netstate

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// What can be wrong with an object or a place, for errors.Is.
var (
	ErrExist         = errors.New("already exists")
	ErrOtherForm     = fmt.Errorf("%w in another form", ErrExist)
	ErrNotExist      = errors.New("does not exist")
	ErrInUse         = errors.New("in use by another attachment")
	ErrExhausted     = errors.New("no free address")
	ErrLeft          = errors.New("not undone") // beside the error of a call: what it had made is there still
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

// PlaceOf returns the place of an object that has one; all others are on the host.
func PlaceOf(o Object) Place {
	switch o := o.(type) {
	case Link:
		return o.Place
	case Sysctl:
		return o.Place
	case Addr:
		return o.Place
	case Route:
		return o.Place
	case Rule:
		return o.Place
	case Neighbour:
		return o.Place
	case Qdisc:
		return o.Place
	case Filter:
		return o.Place
	}
	return Host
}

// State is what should exist for one or several plugins of one attachment, or what
// was seen. The order of the slices is the order in which they are made.
type State struct {
	Owner      Owner       `json:"owner,omitzero"` // of what is not Shared
	PodID      string      `json:"-"`              // of what is kept for a pod: [Facts.PodID]
	Leases     []Lease     `json:"leases,omitzero"`
	Links      []Link      `json:"links,omitzero"`
	Sysctls    []Sysctl    `json:"sysctls,omitzero"`
	Addrs      []Addr      `json:"addrs,omitzero"`
	Routes     []Route     `json:"routes,omitzero"`
	Rules      []Rule      `json:"rules,omitzero"`
	Neighbours []Neighbour `json:"neighbours,omitzero"`
	Qdiscs     []Qdisc     `json:"qdiscs,omitzero"`
	Filters    []Filter    `json:"filters,omitzero"`
	Tables     []Table     `json:"tables,omitzero"`
	Elements   []Element   `json:"elements,omitzero"`
	// What iptables holds. On removal it is found by the owner's mark alone, in every table that a chain or a rule
	// names, since a table is read as a whole anyway.
	IptablesChains []IptablesChain `json:"iptablesChains,omitzero"`
	IptablesRules  []IptablesRule  `json:"iptablesRules,omitzero"`
	// What firewalld holds. On removal everything that the owner has there goes, if there is any of these.
	Sources []Source `json:"sources,omitzero"`
	Flows   []Flow   `json:"flows,omitzero"` // conntrack entries that must not exist
}

// Link is a network interface.
type Link struct {
	Place Place  `json:"place,omitzero"`
	Name  string `json:"name,omitzero"`
	Kind  string `json:"kind,omitzero"` // veth, bridge, ifb, …; "" for one that is only adjusted (lo, a borrowed device)
	MAC   string `json:"mac,omitzero"`  // lower case, colons; "" leaves it to the kernel (or as it is)
	MTU   int    `json:"mtu,omitzero"`  // 0 leaves it to the kernel (or as it is)

	Peer      string `json:"peer,omitzero"` // veth: the other end's name, in PeerPlace
	PeerPlace Place  `json:"peerPlace,omitzero"`
	Master    string `json:"master,omitzero"`    // bridge that it is a port of
	Port      Port   `json:"port,omitzero"`      // as a port of Master
	Bridge    Bridge `json:"bridge,omitzero"`    // Kind bridge
	VLANs     []VLAN `json:"vlans,omitzero"`     // of a bridge port, or of the bridge itself; nil leaves them
	NoIPv6    bool   `json:"noIPv6,omitzero"`    // no IPv6 link-local address of its own; without another one no IPv6 either
	ARPNotify bool   `json:"arpNotify,omitzero"` // announce its addresses when it comes up
	Down      bool   `json:"down,omitzero"`      // stays down
	Promisc   bool   `json:"promisc,omitzero"`
	NoPromisc bool   `json:"noPromisc,omitzero"` // not with Promisc
	AllMulti  Switch `json:"allmulti,omitzero"`  // takes the frames of all groups
	TxQLen    int    `json:"txQLen,omitzero"`    // packets that wait to be sent; 0 leaves it as it is, NoQueue is none
	// Recorded are names on the host that a record gives this attachment. On removal, a pod's veth whose other
	// end has such a name belongs to the owner, though no alias says so: another's plugin made it.
	Recorded []string `json:"-"`
	// Known: whoever knows one of its addresses from the last owner knows it by this MAC. It need not be announced, unless the host
	// knows better.
	Known bool `json:"-"`
	// Shared: made if missing, else brought to what is said here; never removed, belongs to nobody.
	Shared bool `json:"shared,omitzero"`
}

// Switch is what is on, off, or, with "", left as it is.
type Switch string

// The positions of a switch.
const (
	On  Switch = "on"
	Off Switch = "off"
)

// SwitchOf is On or Off.
func SwitchOf(on bool) Switch {
	if on {
		return On
	}
	return Off
}

// NoQueue is the TxQLen of a link whose queue has no length.
const NoQueue = -1

// Ref names the link.
func (o Link) Ref() Ref { return Ref{Place: o.Place, Name: o.Name} }

// PeerRef names the other end of a veth; without a place it is on the host.
func (o Link) PeerRef() Ref {
	ref := Ref{Place: o.PeerPlace, Name: o.Peer}
	if ref.Place == "" {
		ref.Place = Host
	}
	return ref
}

// Port is how a link behaves as a bridge port.
type Port struct {
	Hairpin  bool `json:"hairpin,omitzero"`
	Isolated bool `json:"isolated,omitzero"`
}

// Bridge is how a bridge behaves.
type Bridge struct {
	VLANFiltering bool `json:"vlanFiltering,omitzero"`
}

// VLAN is a range of VLAN ids on a bridge port. From equals To for a single one.
type VLAN struct {
	From     int  `json:"from,omitzero"`
	To       int  `json:"to,omitzero"`
	PVID     bool `json:"pvid,omitzero"`     // ingress frames without a tag get it
	Untagged bool `json:"untagged,omitzero"` // egress frames lose their tag
}

// Addr is an address of an interface.
type Addr struct {
	Place         Place        `json:"place,omitzero"`
	Dev           string       `json:"dev,omitzero"`
	Prefix        netip.Prefix `json:"prefix,omitzero"`        // the address with its prefix length, host bits kept
	DAD           bool         `json:"dad,omitzero"`           // wait for duplicate address detection; else the address is usable at once
	NoPrefixRoute bool         `json:"noPrefixRoute,omitzero"` // the kernel makes no connected route for it
	Shared        bool         `json:"shared,omitzero"`
	// Absent: the address must not be there. It is removed when the state is applied and put back
	// if the rest of the state fails.
	Absent bool `json:"absent,omitzero"`
	// AnyTable: on comparison a plugin behind may have moved the route that came with it to another table.
	AnyTable bool `json:"-"`
}

// Route is an entry of a routing table.
type Route struct {
	Place    Place        `json:"place,omitzero"`
	Dst      netip.Prefix `json:"dst,omitzero"` // 0.0.0.0/0 and ::/0 for the default
	Via      netip.Addr   `json:"via,omitzero"` // zero is on link
	Dev      string       `json:"dev,omitzero"`
	Src      netip.Addr   `json:"src,omitzero"`
	Table    int          `json:"table,omitzero"` // 0 is main
	Scope    int          `json:"scope,omitzero"` // kernel's number: 0 global, 253 link, 254 host
	Priority int          `json:"priority,omitzero"`
	MTU      int          `json:"mtu,omitzero"`
	AdvMSS   int          `json:"advmss,omitzero"`
	OnLink   bool         `json:"onLink,omitzero"` // Via is reachable though no route says so
	Shared   bool         `json:"shared,omitzero"`
	// Absent: the route must not be there. Those over Dev to Dst with this priority, whatever their gateway, are removed when the
	// state is applied, after the others are made, and put back if the rest of the state fails.
	Absent bool `json:"absent,omitzero"`
	// Connected: in what was seen, the kernel made it with an address.
	Connected bool `json:"connected,omitzero"`
	// Planned: in what was seen, a plugin before in the list makes it, or made it at ADD.
	Planned bool `json:"planned,omitzero"`
	// AnyTable: on comparison a plugin behind may have moved it to another table, and there let it lead through another gateway.
	AnyTable bool `json:"-"`
}

// Rule is an entry of the routing policy.
type Rule struct {
	Place    Place        `json:"place,omitzero"`
	From     netip.Prefix `json:"from,omitzero"`
	To       netip.Prefix `json:"to,omitzero"`
	Table    int          `json:"table,omitzero"`
	Priority int          `json:"priority,omitzero"`
	Shared   bool         `json:"shared,omitzero"`
}

// Neighbour is a permanent neighbour entry.
type Neighbour struct {
	Place Place      `json:"place,omitzero"`
	Dev   string     `json:"dev,omitzero"`
	Addr  netip.Addr `json:"addr,omitzero"`
	MAC   string     `json:"mac,omitzero"`
}

// Sysctl is a value below /proc/sys, set in the namespace of Place.
type Sysctl struct {
	Place  Place  `json:"place,omitzero"`
	Name   string `json:"name,omitzero"` // net/ipv4/ip_forward
	Value  string `json:"value,omitzero"`
	Shared bool   `json:"shared,omitzero"` // never set back
	// AfterUp: the value is set when the links are up; else before.
	AfterUp bool `json:"afterUp,omitzero"`
	// Optional: passed over where the kernel has no such value, as those of IPv6 where it is off.
	Optional bool `json:"optional,omitzero"`
}

// Dev is the interface whose value it is: net/ipv4/conf/eth0/arp_filter is eth0's.
func (o Sysctl) Dev() (string, bool) {
	const family, kind, dev, key = 1, 2, 3, 4
	parts := strings.Split(o.Name, "/")
	if len(parts) <= key || parts[0] != "net" || parts[kind] != "conf" && parts[kind] != "neigh" {
		return "", false
	}
	return parts[dev], true
}

// Qdisc is a queueing discipline of an interface.
type Qdisc struct {
	Place  Place  `json:"place,omitzero"`
	Dev    string `json:"dev,omitzero"`
	Kind   string `json:"kind,omitzero"` // tbf, ingress
	Handle uint32 `json:"handle,omitzero"`
	Parent uint32 `json:"parent,omitzero"`
	Rate   uint64 `json:"rate,omitzero"`  // tbf: bytes a second
	Burst  uint32 `json:"burst,omitzero"` // tbf: bytes
	Limit  uint32 `json:"limit,omitzero"` // tbf: bytes
}

// Filter sends all that comes in on Dev to the interface To (u32 match all, mirred egress
// redirect), below the ingress qdisc.
type Filter struct {
	Place Place  `json:"place,omitzero"`
	Dev   string `json:"dev,omitzero"`
	To    string `json:"to,omitzero"` // "" in what was seen: the interface is gone, and all is dropped
}

// Table is an nft table of our own with all that does not grow with pods: sets and
// maps (their declarations), chains and the chains' rules. It is shared.
type Table struct {
	Family string  `json:"family,omitzero"` // inet, bridge
	Name   string  `json:"name,omitzero"`
	Sets   []Set   `json:"sets,omitzero"`
	Chains []Chain `json:"chains,omitzero"`
}

// Set declares an nft set or map.
type Set struct {
	Name string   `json:"name,omitzero"`
	Key  []string `json:"key,omitzero"`  // types: ipv4_addr, ipv6_addr, inet_proto, inet_service, ifname, ether_addr, mark
	Data []string `json:"data,omitzero"` // types of a map's values; nil for a set
}

// Chain is an nft chain with its rules in order.
type Chain struct {
	Name     string   `json:"name,omitzero"`
	Type     string   `json:"type,omitzero"` // filter, nat; "" for a chain without a hook
	Hook     string   `json:"hook,omitzero"` // prerouting, input, forward, output, postrouting
	Priority int      `json:"priority,omitzero"`
	Rules    []string `json:"rules,omitzero"` // nft's own syntax, in the subset that internal/kernel compiles
}

// Element is an element of an nft set or map.
type Element struct {
	Family string   `json:"family,omitzero"`
	Table  string   `json:"table,omitzero"`
	Set    string   `json:"set,omitzero"`
	Match  []string `json:"match,omitzero"` // the key's values as text: tcp, 8080, 10.88.0.5, cni0
	Data   []string `json:"data,omitzero"`
	Owner  Owner    `json:"owner,omitzero"`
	// Lives names what proves that the owner is alive: "link vethab12" on the host or
	// "netns /run/netns/x". An element whose owner is dead may be replaced.
	Lives string `json:"lives,omitzero"`
}

// Source is an address that firewalld is to treat as its zone says, in what runs and not in its permanent configuration.
type Source struct {
	Zone   string       `json:"zone,omitzero"`
	Prefix netip.Prefix `json:"prefix,omitzero"` // of one address; zero, on removal, is whatever the owner has
	Owner  Owner        `json:"owner,omitzero"`
}

// Flow selects conntrack entries by their original destination, to be forgotten when a
// state is applied and when it is removed. With neither protocol nor port it selects all that come from Addr or are answered by it, what the
// last who had the address left; on IPv6 those are looked for when a state is removed.
type Flow struct {
	Protocol string     `json:"protocol,omitzero"` // udp
	Addr     netip.Addr `json:"addr,omitzero"`     // original destination; zero is any of the family
	IPv6     bool       `json:"ipv6,omitzero"`
	Port     int        `json:"port,omitzero"` // original destination port
}

// Lease is an address that an IPAM plugin holds for an owner.
type Lease struct {
	Network string     `json:"network,omitzero"`
	Addr    netip.Addr `json:"addr,omitzero"`
	Store   string     `json:"store,omitzero"` // folder of the store
	Owner   Owner      `json:"owner,omitzero"`
}

// Difference is one object that is not as it should be.
type Difference struct {
	Object string `json:"object"` // the key
	Want   string `json:"want"`   // canonical line, "" for an object that should not be there
	Have   string `json:"have"`   // canonical line of what is there, "" for nothing
}

// Freed is an object that GC removed, or would remove.
type Freed struct {
	Object string `json:"object,omitzero"` // canonical line
	Mark   string `json:"mark,omitzero"`
	Owner  Owner  `json:"owner,omitzero"` // only Network is set where the object names no more than the mark
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

// ObjectError is an error about one object.
type ObjectError struct {
	Object string // the object's key
	Err    error
}

// Error is the object, without the padding of a listing, and the cause.
func (e *ObjectError) Error() string {
	return strings.Join(strings.Fields(e.Object), " ") + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *ObjectError) Unwrap() error { return e.Err }

package cni

import (
	"bytes"
	"net/netip"
	"slices"
)

// Opt is a value that may be left out.
type Opt[T any] struct {
	Value T
	Set   bool
}

// Some returns a set Opt.
func Some[T any](v T) Opt[T] { return Opt[T]{Value: v, Set: true} }

// Result is what ADD answers, in one type for every specification version; see
// [DecodeResult] and [Result.Encode]. Extra fields keep members of a foreign
// result that this package does not know.
type Result struct {
	CNIVersion string // the version it was decoded from; Encode is told its own
	Interfaces []Interface
	IPs        []IP
	Routes     []Route
	DNS        DNS
	Extra      []Member
}

// Interface is a network interface that an ADD made or changed.
type Interface struct {
	Name       string
	MAC        string
	MTU        int    // bytes; from 1.1.0; 0 is not given
	Sandbox    string // the namespace's path; empty on the host
	SocketPath string // from 1.1.0
	PCIID      string // from 1.1.0
	Extra      []Member
}

// IP is an address that an ADD gave.
type IP struct {
	Interface Opt[int]     // index into Result.Interfaces; a foreign -1 is read as not set
	Address   netip.Prefix // host bits kept
	Gateway   netip.Addr   // zero is none
	Extra     []Member
}

// Route is a route of the container.
type Route struct {
	Dst      netip.Prefix
	GW       netip.Addr // zero is none: the gateway of an IP of its family may serve
	MTU      int
	AdvMSS   int
	Priority int
	Table    Opt[int]
	Scope    Opt[int]
	Extra    []Member
}

// DNS is what a resolver should be told.
type DNS struct {
	Nameservers []string `json:"nameservers,omitempty" doc:"addresses of servers, in the order in which they are asked"`
	Domain      string   `json:"domain,omitempty" doc:"the domain for short names"`
	Search      []string `json:"search,omitempty" doc:"domains in which short names are looked up"`
	Options     []string `json:"options,omitempty" doc:"options of resolv.conf"`
	Extra       []Member `json:"-"`
}

// IsZero reports whether nothing is set.
func (d DNS) IsZero() bool {
	return len(d.Nameservers) == 0 && d.Domain == "" && len(d.Search) == 0 && len(d.Options) == 0 && len(d.Extra) == 0
}

// Clone returns a deep copy.
func (r *Result) Clone() *Result {
	if r == nil {
		return nil
	}
	c := *r
	c.Interfaces = slices.Clone(r.Interfaces)
	for i := range c.Interfaces {
		c.Interfaces[i].Extra = cloneMembers(c.Interfaces[i].Extra)
	}
	c.IPs = slices.Clone(r.IPs)
	for i := range c.IPs {
		c.IPs[i].Extra = cloneMembers(c.IPs[i].Extra)
	}
	c.Routes = slices.Clone(r.Routes)
	for i := range c.Routes {
		c.Routes[i].Extra = cloneMembers(c.Routes[i].Extra)
	}
	c.DNS.Nameservers = slices.Clone(r.DNS.Nameservers)
	c.DNS.Search = slices.Clone(r.DNS.Search)
	c.DNS.Options = slices.Clone(r.DNS.Options)
	c.DNS.Extra = cloneMembers(r.DNS.Extra)
	c.Extra = cloneMembers(r.Extra)
	return &c
}

func cloneMembers(members []Member) []Member {
	c := slices.Clone(members)
	for i := range c {
		c[i].Value = bytes.Clone(c[i].Value)
	}
	return c
}

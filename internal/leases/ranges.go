package leases

import (
	"iter"
	"net/netip"
	"slices"
	"strings"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/netstate"
)

// inRange reports whether a lies in r, its ends included.
func inRange(r netstate.Range, a netip.Addr) bool {
	return a.BitLen() == r.Start.BitLen() && r.Start.Compare(a) <= 0 && a.Compare(r.End) <= 0
}

// inSet reports whether a lies in a range of set.
func inSet(set []netstate.Range, a netip.Addr) bool {
	return slices.ContainsFunc(set, func(r netstate.Range) bool { return inRange(r, a) })
}

// reserved says why a is never given out, "" if it may be: it is a gateway of the pool, or
// the network or broadcast address of its own IPv4 subnet, if that has them (RFC 3021: from /31
// on there are none).
func reserved(p netstate.Pool, a netip.Addr) string {
	for _, set := range p.Sets {
		for _, r := range set {
			switch {
			case a == r.Gateway:
				return "the gateway of " + r.Subnet.String()
			case !a.Is4() || r.Subnet.Bits() >= 31 || !inRange(r, a):
			case a == r.Subnet.Masked().Addr():
				return "the network address of " + r.Subnet.String()
			case !r.Subnet.Contains(a.Next()):
				return "the broadcast address of " + r.Subnet.String()
			}
		}
	}
	return ""
}

// roundRobin yields every address of set once, in order, beginning after last and ending with it. If
// last is in no range, it begins with the first.
func roundRobin(set []netstate.Range, last netip.Addr) iter.Seq[netip.Addr] {
	return func(yield func(netip.Addr) bool) {
		at := slices.IndexFunc(set, func(r netstate.Range) bool { return inRange(r, last) })
		if at < 0 {
			for _, r := range set {
				if !walkRange(r.Start, r.End, yield) {
					return
				}
			}
			return
		}
		if last != set[at].End && !walkRange(last.Next(), set[at].End, yield) {
			return
		}
		for i := 1; i < len(set); i++ {
			if r := set[(at+i)%len(set)]; !walkRange(r.Start, r.End, yield) {
				return
			}
		}
		walkRange(set[at].Start, last, yield)
	}
}

// walkRange yields from to to; it is false if yield was.
func walkRange(from, to netip.Addr, yield func(netip.Addr) bool) bool {
	for a := from; a.IsValid() && a.Compare(to) <= 0; a = a.Next() {
		if !yield(a) {
			return false
		}
	}
	return true
}

// describe gives a set as 10.9.0.2-10.9.0.9, 10.9.1.2-10.9.1.9.
func describe(set []netstate.Range) string {
	var parts []string
	for _, r := range set {
		parts = append(parts, r.Start.String()+"-"+r.End.String())
	}
	return strings.Join(parts, ", ")
}

// assign says which wanted address belongs to which set; the zero address is none. Its errors have
// code 7.
func assign(p netstate.Pool) ([]netip.Addr, error) {
	wants := make([]netip.Addr, len(p.Sets))
	for _, a := range p.Want {
		at, full := -1, false
		for i, set := range p.Sets {
			if !inSet(set, a) {
				continue
			}
			if !wants[i].IsValid() {
				at = i
				break
			}
			full = true
		}
		why := reserved(p, a)
		switch {
		case at < 0 && full:
			why = "asked for, and so is another address of its range set, which gives one"
		case at < 0:
			why = "in no range of the network"
		}
		if why != "" {
			return nil, cni.Errorf(cni.CodeInvalidConfig, "requested address %s is %s", a, why)
		}
		wants[at] = a
	}
	return wants, nil
}

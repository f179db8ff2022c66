package lint

import (
	"math/big"
	"net/netip"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/netstate"
)

// subnet is a network that a step's pods get addresses of.
type subnet struct {
	step *step
	at   *cni.Tree // where it is written; the ipam section if that is not found
	netstate.Range
}

// subnets are the ranges of all steps, and the networks of fixed addresses, each a range of its own.
func (r *run) subnets() []subnet {
	var all []subnet
	for s := range r.steps() {
		all = append(all, s.subnets()...)
	}
	return all
}

func (s *step) subnets() []subnet {
	var all []subnet
	used := map[*cni.Tree]bool{}
	for _, set := range s.pool.Pool.Sets {
		for _, rg := range set {
			all = append(all, subnet{s, s.written(rg.Subnet, used), rg})
		}
	}
	for _, ip := range s.pool.Fixed {
		a := ip.Address.Addr()
		all = append(all, subnet{s, s.written(ip.Address, used), netstate.Range{Subnet: ip.Address.Masked(), Start: a, End: a, Gateway: ip.Gateway}})
	}
	return all
}

// written is the first string in the ipam section that says a prefix and is not used yet.
func (s *step) written(p netip.Prefix, used map[*cni.Tree]bool) *cni.Tree {
	if t := findPrefix(s.ipam.node, p, used); t != nil {
		used[t] = true
		return t
	}
	return s.ipam.node
}

func findPrefix(t *cni.Tree, p netip.Prefix, used map[*cni.Tree]bool) *cni.Tree {
	if text, ok := t.Text(); ok && !used[t] {
		if q, err := netip.ParsePrefix(text); err == nil && q == p {
			return t
		}
	}
	for _, c := range t.Children {
		if found := findPrefix(c, p, used); found != nil {
			return found
		}
	}
	return nil
}

// sibling is the member of the object that t is a member of whose key is name; nil without one.
func sibling(t *cni.Tree, name string) *cni.Tree {
	if t.Parent == nil {
		return nil
	}
	return member(t.Parent, name)
}

// size is how many addresses a range gives, less than most+1.
func size(rg netstate.Range, most int) int {
	if rg.End.BitLen() != rg.Start.BitLen() || rg.End.Less(rg.Start) {
		return 0
	}
	first, last := new(big.Int).SetBytes(rg.Start.AsSlice()), new(big.Int).SetBytes(rg.End.AsSlice())
	count := last.Sub(last, first)
	if !count.IsInt64() || count.Int64() > int64(most) {
		return most
	}
	n := int(count.Int64()) + 1
	if rg.Start.Compare(rg.Gateway) <= 0 && rg.Gateway.Compare(rg.End) <= 0 {
		n--
	}
	return min(n, most)
}

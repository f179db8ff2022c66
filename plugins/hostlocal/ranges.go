package hostlocal

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/ipamconf"
	"github.com/cleat-cni/cleat/netstate"
)

// placed is a range with the path of the key that holds it.
type placed struct {
	netstate.Range
	path string
}

func (r placed) String() string { return fmt.Sprintf("%s-%s", r.Start, r.End) }

// parseSets checks sets of ranges and fills in what they leave out.
func parseSets(sets []writtenSet) ([][]placed, error) {
	var parsed [][]placed
	for _, set := range sets {
		ranges, err := parseSet(set)
		if err != nil {
			return nil, err
		}
		parsed = append(parsed, ranges)
	}
	return parsed, checkOverlaps(slices.Concat(parsed...))
}

func parseSet(set writtenSet) ([]placed, error) {
	if len(set.ranges) == 0 {
		return nil, invalid("%s: the set holds no range", set.path).
			WithHint("write at least one range with a subnet, or remove the set")
	}
	var ranges []placed
	for i, conf := range set.ranges {
		path := set.path
		if path != oldForm {
			path = fmt.Sprintf("%s[%d]", path, i)
		}
		if conf == nil {
			return nil, invalid("%s is null: remove it", path)
		}
		r, err := parseRange(path, *conf)
		if err != nil {
			return nil, err
		}
		if i > 0 && r.Start.Is4() != ranges[0].Start.Is4() {
			return nil, invalid("%s: %s is of another family than %s in the same set", path, r.Subnet, ranges[0].Subnet).
				WithHint("a set gives one address: put the other family in a set of its own, [[{…}], [{…}]]")
		}
		ranges = append(ranges, r)
	}
	return ranges, nil
}

// checkOverlaps looks at neighbours in the order of the addresses: a configuration may have
// many ranges.
func checkOverlaps(written []placed) error {
	order := make([]int, len(written))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return written[i].Start.Compare(written[j].Start) })
	for n := 1; n < len(order); n++ {
		first, second := order[n-1], order[n]
		if written[first].End.Compare(written[second].Start) < 0 {
			continue
		}
		a, b := written[min(first, second)], written[max(first, second)]
		return invalid("%s: %s overlaps %s of %s", b.path, b, a, a.path)
	}
	return nil
}

// parseRange checks a range and fills in what it leaves out: gateway the first address behind the network's,
// start likewise, end the last, or the last before the broadcast address.
func parseRange(path string, conf rangeConf) (placed, error) {
	subnet, err := parseSubnet(path+".subnet", conf.Subnet)
	if err != nil {
		return placed{}, err
	}
	first := subnet.Addr().Next()
	r := placed{path: path, Range: netstate.Range{Subnet: subnet, Start: first, End: lastOf(subnet), Gateway: first}}
	if r.End.Is4() {
		r.End = r.End.Prev()
	}
	for _, bound := range []struct {
		key, text string
		into      *netip.Addr
	}{{".rangeStart", conf.RangeStart, &r.Start}, {".rangeEnd", conf.RangeEnd, &r.End}} {
		if bound.text == "" {
			continue
		}
		if *bound.into, err = ipamconf.ParseAddr(path+bound.key, bound.text); err != nil {
			return placed{}, err
		}
		if !subnet.Contains(*bound.into) {
			return placed{}, invalid("%s%s: %s is not in %s", path, bound.key, *bound.into, subnet)
		}
	}
	if r.Start.Compare(r.End) > 0 {
		return placed{}, invalid("%s: rangeStart %s is after rangeEnd %s", path, r.Start, r.End)
	}
	if conf.Gateway != "" {
		if r.Gateway, err = ipamconf.ParseAddr(path+".gateway", conf.Gateway); err != nil {
			return placed{}, err
		}
		// One outside of the subnet is legitimate: fe80::1, or a host that answers for all.
		if r.Gateway.Is4() != subnet.Addr().Is4() {
			return placed{}, invalid("%s.gateway: %s is of another family than %s", path, r.Gateway, subnet)
		}
		if r.Gateway.Is4() && (r.Gateway == subnet.Addr() || r.Gateway == lastOf(subnet)) {
			return placed{}, invalid("%s.gateway: %s is the network or broadcast address of %s", path, r.Gateway, subnet)
		}
	}
	if !givesAny(r) {
		return placed{}, invalid("%s: %s holds no address to give: the network, broadcast and gateway addresses are left out", path, r)
	}
	return r, nil
}

func parseSubnet(path, text string) (netip.Prefix, error) {
	if text == "" {
		return netip.Prefix{}, invalid("%s is missing", path)
	}
	subnet, err := netip.ParsePrefix(text)
	if err != nil || subnet.Addr().Is4In6() {
		return netip.Prefix{}, invalid("%s: %q is not a network with a prefix length, as 10.1.0.0/16", path, text)
	}
	if subnet != subnet.Masked() {
		return netip.Prefix{}, invalid("%s: %s has host bits set", path, subnet).
			WithHint("the network with this prefix length is %s", subnet.Masked())
	}
	for _, o := range noHosts() {
		if subnet.Overlaps(o.prefix) {
			return netip.Prefix{}, invalid("%s: %s overlaps %s, which is for %s", path, subnet, o.prefix, o.what)
		}
	}
	if most := subnet.Addr().BitLen() - 2; subnet.Bits() > most {
		return netip.Prefix{}, invalid("%s: %s is too small: the longest prefix is /%d", path, subnet, most).
			WithHint("name the subnet that the addresses lie in, and bound them by rangeStart and rangeEnd")
	}
	return subnet, nil
}

// special is a network whose addresses no interface of a pod can have.
type special struct {
	prefix netip.Prefix
	what   string
}

func noHosts() []special {
	return []special{
		{netip.MustParsePrefix("127.0.0.0/8"), "loopback"},
		{netip.MustParsePrefix("224.0.0.0/4"), "multicast"},
		{netip.MustParsePrefix("ff00::/8"), "multicast"},
	}
}

// givesAny reports whether an address of r is not left out. At most three are.
func givesAny(r placed) bool {
	for a := r.Start; a.IsValid() && a.Compare(r.End) <= 0; a = a.Next() {
		leftOut := a == r.Gateway || a.Is4() && (a == r.Subnet.Addr() || a == lastOf(r.Subnet))
		if !leftOut {
			return true
		}
	}
	return false
}

// lastOf is the last address of a network.
func lastOf(p netip.Prefix) netip.Addr {
	raw := p.Addr().AsSlice()
	for bit := p.Bits(); bit < p.Addr().BitLen(); bit++ {
		raw[bit/8] |= 0x80 >> (bit % 8)
	}
	last, _ := netip.AddrFromSlice(raw) // of the length that an address has
	return last
}

// checkFamilies refuses what results before 0.3.0 can't hold: more than one address of a family.
func checkFamilies(sets [][]placed, version string) error {
	count := map[bool]int{}
	for _, set := range sets {
		v4 := set[0].Start.Is4()
		count[v4]++
		if count[v4] > 1 && !cni.AtLeast(version, "0.3.0") {
			return invalid("%s: cniVersion %s holds one address of a family, and another set gives one already", set[0].path, version).
				WithHint("set cniVersion to 0.3.0 or newer")
		}
	}
	return nil
}

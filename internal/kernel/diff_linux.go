package kernel

import (
	"context"
	"errors"
	"io/fs"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/cleat-cni/cleat/netstate"
)

// comparison is one Diff under way.
type comparison struct {
	*work
	state  netstate.State
	diffs  []netstate.Difference
	tables map[routeQuery][]seenRoute
}

// Diff compares s with what is there, object by object, and returns one difference for each that is missing or not as
// stated. What a state leaves to the kernel is not compared, nor are: leases and flows, MTU and MAC of a shared link, which
// another attachment may have brought to its own wish, and the MAC of the host's end of a veth, which other programs may
// change.
func (s *Session) Diff(ctx context.Context, st netstate.State) ([]netstate.Difference, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	c := &comparison{work: s.begin(), state: st, tables: map[routeQuery][]seenRoute{}}
	defer c.end()
	for _, step := range []func(context.Context) error{
		c.links, c.sysctls, c.addrs, c.routes, c.rules, c.neighbours, c.qdiscs, c.filters, c.nft, c.iptables, c.sources,
	} {
		if err := step(ctx); err != nil {
			return c.diffs, err
		}
	}
	return c.diffs, nil
}

// note records a difference; have is nil for an object that is missing. A route that must not be there may be.
func (c *comparison) note(want, have netstate.Object) {
	d := netstate.Difference{Object: want.Key(), Want: want.String()}
	if r, ok := want.(netstate.Route); ok && r.Absent {
		if have == nil {
			return
		}
		d.Want = ""
	}
	if have != nil {
		d.Have = have.String()
	}
	c.diffs = append(c.diffs, d)
}

// find is like lookup, each link once; nil if it is not there.
func (c *comparison) find(ctx context.Context, ref netstate.Ref) (*device, error) {
	if d, ok := c.devices[ref]; ok {
		return d, nil
	}
	d, err := c.lookup(ctx, ref)
	if errors.Is(err, netstate.ErrNotExist) {
		c.devices[ref] = nil
		return nil, nil
	}
	return d, err
}

// onLinks compares each object with the link that it is on, or is; with nil one that is on none. What is on a link that is missing
// is missing too.
func onLinks[T netstate.Object](
	ctx context.Context, c *comparison, list []T, link func(T) netstate.Ref, compare func(context.Context, T, *device) error,
) error {
	for _, want := range list {
		var d *device
		if ref := link(want); ref.Name != "" {
			var err error
			if d, err = c.find(ctx, ref); err != nil {
				return err
			}
			if d == nil {
				c.note(want, nil)
				continue
			}
		}
		if err := compare(ctx, want, d); err != nil {
			return err
		}
	}
	return nil
}

func (c *comparison) links(ctx context.Context) error {
	return onLinks(ctx, c, c.state.Links, netstate.Link.Ref, c.compareLink)
}

func (c *comparison) compareLink(ctx context.Context, want netstate.Link, d *device) error {
	if is, err := c.isOtherEnd(ctx, want, d); err != nil || !is {
		if err == nil {
			c.note(want, nil)
		}
		return err
	}
	have, err := c.describe(ctx, d)
	if err != nil {
		return err
	}
	if len(want.VLANs) > 0 {
		if have.VLANs, err = c.vlans(ctx, d); err != nil {
			return err
		}
	}
	have = stated(want, have)
	if !d.hasIPv6 {
		have.NoIPv6 = want.NoIPv6 // nothing to turn off: a kernel without IPv6, or an MTU too small for it
	}
	if have.String() != want.String() {
		c.note(want, have)
	}
	return nil
}

// stated returns want with what it states replaced by what is there.
func stated(want, have netstate.Link) netstate.Link {
	l := want
	if want.Kind != "" {
		l.Kind = have.Kind
	}
	made := want.Kind != "" && want.Shared
	drifts := want.Place == netstate.Host && want.Kind == kindVeth
	if want.MTU != 0 && !made {
		l.MTU = have.MTU
	}
	if want.MAC != "" && !made && !drifts {
		l.MAC = have.MAC
	}
	if want.Master != "" {
		l.Master, l.Port = have.Master, have.Port
	}
	if len(want.VLANs) > 0 && !containsVLANs(have.VLANs, want.VLANs) {
		l.VLANs = have.VLANs
	}
	l.Bridge.VLANFiltering = want.Bridge.VLANFiltering && have.Bridge.VLANFiltering
	l.NoIPv6 = want.NoIPv6 && have.NoIPv6
	l.ARPNotify = want.ARPNotify && have.ARPNotify
	l.Promisc, l.NoPromisc = want.Promisc && have.Promisc, want.NoPromisc && !have.Promisc
	if want.AllMulti != "" {
		l.AllMulti = have.AllMulti
	}
	if want.TxQLen != 0 {
		l.TxQLen = have.TxQLen
	}
	l.Down = have.Down
	return l
}

// containsVLANs reports whether every id of want is in have with the same flags. The kernel joins ranges as
// it likes.
func containsVLANs(have, want []netstate.VLAN) bool {
	for _, w := range want {
		for id := w.From; id <= max(w.From, w.To); id++ {
			if !slices.ContainsFunc(have, func(h netstate.VLAN) bool {
				return h.From <= id && id <= h.To && h.PVID == w.PVID && h.Untagged == w.Untagged
			}) {
				return false
			}
		}
	}
	return true
}

// vlans lists the VLANs of a port. The kernel lists those of all ports.
func (c *comparison) vlans(ctx context.Context, d *device) ([]netstate.VLAN, error) {
	conn, err := c.conn(d.place)
	if err != nil {
		return nil, err
	}
	m := linkMessage(0, 0, 0)
	m.family()[0] = unix.AF_BRIDGE
	m.u32(unix.IFLA_EXT_MASK, vlanCompressed)
	var list []netstate.VLAN
	err = conn.dump(ctx, unix.RTM_GETLINK, m, func(_ uint16, b []byte) {
		if len(b) >= unix.SizeofIfInfomsg && int32(native.Uint32(b[4:])) == d.index {
			list = append(list, parseVLANs(b)...)
		}
	})
	return list, err
}

func (c *comparison) sysctls(ctx context.Context) error {
	for _, p := range []netstate.Place{netstate.Host, netstate.Pod} {
		var list []netstate.Sysctl
		for _, s := range c.state.Sysctls {
			if s.Place == p {
				list = append(list, s)
			}
		}
		if len(list) == 0 {
			continue
		}
		sp, err := c.s.space(p)
		if err != nil {
			return err
		}
		if err := sp.do(func() error { return c.sysctlsHere(list) }); err != nil {
			return err
		}
	}
	return nil
}

func (c *comparison) sysctlsHere(list []netstate.Sysctl) error {
	for _, want := range list {
		value, err := readSysctl(want)
		switch {
		case errors.Is(err, netstate.ErrNotExist) && want.Optional:
		case errors.Is(err, fs.ErrPermission): // it can only be written
		case errors.Is(err, netstate.ErrNotExist):
			c.note(want, nil)
		case err != nil:
			return err
		case !equalValue(value, want.Value):
			have := want
			have.Value = value
			c.note(want, have)
		}
	}
	return nil
}

func (c *comparison) addrs(ctx context.Context) error {
	seen := map[netstate.Ref][]seenAddr{}
	for i := range c.state.Addrs {
		want := &c.state.Addrs[i]
		ref := netstate.Ref{Place: want.Place, Name: want.Dev}
		d, err := c.find(ctx, ref)
		if err != nil {
			return err
		}
		if _, ok := seen[ref]; !ok && d != nil {
			conn, err := c.conn(want.Place)
			if err != nil {
				return err
			}
			list, err := conn.addrs(ctx, d)
			if err != nil && !errors.Is(err, netstate.ErrNotExist) {
				return err
			}
			seen[ref] = list
		}
		routed := true
		if d != nil {
			if routed, err = c.connected(ctx, want, d); err != nil {
				return err
			}
		}
		c.compareAddr(want, seen[ref], routed)
	}
	return nil
}

// connected reports whether the route that the kernel made with an address is there: somebody may have flushed it. It is not looked for
// where there is none, or elsewhere than in the main table: without a subnet, on a link that is down or enslaved.
func (c *comparison) connected(ctx context.Context, want *netstate.Addr, d *device) (bool, error) {
	p := want.Prefix
	if want.Absent || p.IsSingleIP() || !d.up() || d.master != 0 {
		return true, nil
	}
	q := routeQuery{place: want.Place, family: family(p.Addr()), index: d.index}
	if want.AnyTable {
		q.table = anyTable
	}
	list, err := c.table(ctx, q)
	comes, _ := want.SubnetRoute()
	return slices.ContainsFunc(list, func(r seenRoute) bool {
		return r.Dst == p.Masked() && !r.Via.IsValid() && (want.AnyTable || r.Metric() == comes.Metric())
	}), err
}

func (c *comparison) compareAddr(want *netstate.Addr, list []seenAddr, routed bool) {
	for _, a := range list {
		// An address that failed its detection is there and can't be used.
		if a.prefix != want.Prefix || a.flags&unix.IFA_F_DADFAILED != 0 {
			continue
		}
		if want.Absent {
			have := *want
			have.Absent = false
			c.diffs = append(c.diffs, netstate.Difference{Object: want.Key(), Have: have.String()})
			return
		}
		have := *want
		flagged := a.flags&unix.IFA_F_NOPREFIXROUTE != 0 && (want.NoPrefixRoute || !want.AnyTable)
		// Whether one that is shared brings its route is whoever's who made it.
		if !want.Shared || !flagged && !routed {
			have.NoPrefixRoute = flagged || !routed
		}
		if have != *want {
			c.note(want, have)
		}
		return
	}
	if !want.Absent {
		c.note(want, nil)
	}
}

// table lists the routes that a query means, once.
func (c *comparison) table(ctx context.Context, q routeQuery) ([]seenRoute, error) {
	if list, ok := c.tables[q]; ok {
		return list, nil
	}
	conn, err := c.conn(q.place)
	if err != nil {
		return nil, err
	}
	list, err := conn.routes(ctx, q)
	if err == nil {
		c.tables[q] = list
	}
	return list, err
}

func (c *comparison) routes(ctx context.Context) error {
	link := func(rt netstate.Route) netstate.Ref { return netstate.Ref{Place: rt.Place, Name: rt.Dev} }
	return onLinks(ctx, c, c.state.Routes, link, c.compareRoute)
}

// compareRoute looks for the route, or for one to the same destination that is otherwise.
func (c *comparison) compareRoute(ctx context.Context, want netstate.Route, d *device) error {
	q := routeQuery{place: want.Place, family: family(want.Dst.Addr()), table: want.Table}
	if want.AnyTable {
		q.table = anyTable
	}
	if d != nil {
		q.index = d.index
	}
	list, err := c.table(ctx, q)
	if err != nil {
		return err
	}
	var other netstate.Object
	for _, r := range list {
		if r.Dst != want.Dst.Masked() || r.Priority != want.Metric() {
			continue
		}
		if want.AnyTable && r.Table != want.InTable() {
			return nil
		}
		have := want
		have.Via, have.Absent = r.Via, false
		if r.Scope != routeScope(&want) && want.Dst.Addr().Is4() {
			have.Scope = r.Scope
		}
		if want.Src.IsValid() {
			have.Src = r.Src
		}
		if want.MTU != 0 {
			have.MTU = r.MTU
		}
		if want.AdvMSS != 0 {
			have.AdvMSS = r.AdvMSS
		}
		have.OnLink = want.OnLink && r.OnLink
		if have == want {
			return nil
		}
		other = have
	}
	c.note(want, other)
	return nil
}

func (c *comparison) rules(ctx context.Context) error {
	type query struct {
		place  netstate.Place
		family uint8
	}
	seen := map[query][]policy{}
	for i := range c.state.Rules {
		want := &c.state.Rules[i]
		q := query{want.Place, ruleFamily(want)}
		if _, ok := seen[q]; !ok {
			conn, err := c.conn(want.Place)
			if err != nil {
				return err
			}
			if seen[q], err = conn.rules(ctx, q.place, q.family); err != nil {
				return err
			}
		}
		if !slices.ContainsFunc(seen[q], func(have policy) bool { return have.plain && sameRule(*want, have.Rule) }) {
			c.note(want, nil)
		}
	}
	return nil
}

func sameRule(want, have netstate.Rule) bool {
	if want.Priority == 0 {
		have.Priority = 0
	}
	want.Shared = false
	want.Table = ruleTable(want.Table)
	want.From, want.To = specific(want.From), specific(want.To)
	return want == have
}

// specific is p masked; a prefix of everything is none, as the kernel has it.
func specific(p netip.Prefix) netip.Prefix {
	if p.Bits() <= 0 {
		return netip.Prefix{}
	}
	return p.Masked()
}

func (c *comparison) neighbours(ctx context.Context) error {
	link := func(n netstate.Neighbour) netstate.Ref { return netstate.Ref{Place: n.Place, Name: n.Dev} }
	return onLinks(ctx, c, c.state.Neighbours, link, c.compareNeighbour)
}

func (c *comparison) compareNeighbour(ctx context.Context, want netstate.Neighbour, d *device) error {
	seen, err := c.neighbour(ctx, &want, d.index)
	switch {
	case err != nil:
		return err
	case seen == nil || !seen.permanent:
		c.note(want, nil)
	case seen.mac != want.MAC:
		have := want
		have.MAC = seen.mac
		c.note(want, have)
	}
	return nil
}

func (c *comparison) qdiscs(ctx context.Context) error {
	link := func(q netstate.Qdisc) netstate.Ref { return netstate.Ref{Place: q.Place, Name: q.Dev} }
	return onLinks(ctx, c, c.state.Qdiscs, link, c.compareQdisc)
}

func (c *comparison) compareQdisc(ctx context.Context, want netstate.Qdisc, d *device) error {
	conn, err := c.conn(want.Place)
	if err != nil {
		return err
	}
	list, err := conn.qdiscs(ctx, d)
	if err != nil {
		return err
	}
	parent, _ := qdiscPlace(&want)
	for _, q := range list {
		if q.Parent != parent || q.Handle == 0 {
			continue // handle 0 is the kernel's own default
		}
		have := want
		have.Kind = q.Kind
		if want.Handle != 0 {
			have.Handle = q.Handle
		}
		if want.Kind == kindTBF && q.Kind == kindTBF {
			have.Rate, have.Limit = q.Rate, q.Limit
			if q.Rate != want.Rate || !sameBurst(want, q) {
				have.Burst = q.Burst
			}
		}
		if have != want {
			c.note(want, have)
		}
		return nil
	}
	c.note(want, nil)
	return nil
}

func (c *comparison) filters(ctx context.Context) error {
	link := func(f netstate.Filter) netstate.Ref { return netstate.Ref{Place: f.Place, Name: f.Dev} }
	return onLinks(ctx, c, c.state.Filters, link, c.compareFilter)
}

func (c *comparison) compareFilter(ctx context.Context, want netstate.Filter, d *device) error {
	to, err := c.find(ctx, netstate.Ref{Place: want.Place, Name: want.To})
	if err != nil {
		return err
	}
	conn, err := c.conn(want.Place)
	if err != nil {
		return err
	}
	list, err := conn.redirects(ctx, d)
	if err != nil {
		return err
	}
	switch {
	case to != nil && slices.Contains(list, to.index):
	case slices.Contains(list, 0):
		// What it led to is gone, and all that it matches is dropped.
		have := want
		have.To = ""
		c.note(want, have)
	default:
		c.note(want, nil)
	}
	return nil
}

// nft compares the tables and elements, by the other half.
func (c *comparison) nft(ctx context.Context) error {
	if len(c.state.Tables)+len(c.state.Elements) == 0 {
		return nil
	}
	r, err := c.s.k.ruleset()
	if err != nil {
		return err
	}
	diffs, err := r.diff(ctx, c.state)
	c.diffs = append(c.diffs, diffs...)
	return err
}

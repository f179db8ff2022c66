package kernel

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/cleat-cni/cleat/netstate"
)

// addRoutes adds the routes, rules and neighbours of one place. The links are up, since the kernel refuses a
// route over one that is down.
func (c *change) addRoutes(ctx context.Context, b *batch, p netstate.Place) error {
	for i := range c.state.Routes {
		rt := &c.state.Routes[i]
		if rt.Place != p || rt.Absent {
			continue
		}
		d, err := c.routeDevice(ctx, rt)
		if err != nil {
			return err
		}
		m := routeMessage(rt, deviceIndex(d))
		// As the first of those with one destination and priority, without NLM_F_EXCL: two interfaces of a pod may both have a
		// default route. The kernel still refuses an equal one.
		r := &request{kind: unix.RTM_NEWROUTE, flags: unix.NLM_F_CREATE, body: m, object: rt}
		switch {
		case rt.Shared:
			r.accept = acceptOnly(unix.EEXIST)
		case d == nil || !d.made:
			r.undo = c.s.reverse(p, deleteRoute(rt, deviceIndex(d)))
		}
		*b = append(*b, r)
	}
	if err := c.dropRoutes(ctx, b, p); err != nil {
		return err
	}
	c.addRules(b, p)
	return c.addNeighbours(ctx, b, p)
}

// dropRoutes removes the routes of one place that must not be there. Others may need them while they are made, so this comes last. Those
// without a gateway go last of them, so that an undo, in reverse, puts back the way to a gateway before what leads through it.
func (c *change) dropRoutes(ctx context.Context, b *batch, p netstate.Place) error {
	var nearer batch
	for i := range c.state.Routes {
		rt := &c.state.Routes[i]
		if rt.Place != p || !rt.Absent {
			continue
		}
		d, err := c.routeDevice(ctx, rt)
		if err != nil {
			return err
		}
		if d == nil || d.made {
			continue
		}
		conn, err := c.conn(p)
		if err != nil {
			return err
		}
		list, err := conn.routes(ctx, routeQuery{place: p, family: family(rt.Dst.Addr()), table: rt.Table, index: d.index})
		if err != nil {
			return err
		}
		for _, have := range list {
			if have.Dst != rt.Dst.Masked() || have.Metric() != rt.Metric() || have.foreign && have.Dst.Addr().Is4() {
				continue // an IPv4 route goes with all its hops or stays
			}
			gone := &request{kind: unix.RTM_DELROUTE, body: have.message(), object: rt, step: "remove", accept: isMissing}
			gone.undo = c.s.reverse(p, &request{kind: unix.RTM_NEWROUTE, flags: unix.NLM_F_CREATE, body: have.message(), object: rt, step: "put back",
				accept: func(errno unix.Errno) bool { return errno == unix.EEXIST || isMissing(errno) }})
			if have.Via.IsValid() {
				*b = append(*b, gone)
			} else {
				nearer = append(nearer, gone)
			}
		}
	}
	*b = append(*b, nearer...)
	return nil
}

func (c *change) routeDevice(ctx context.Context, rt *netstate.Route) (*device, error) {
	if rt.Dev == "" {
		return nil, nil
	}
	d, err := c.device(ctx, netstate.Ref{Place: rt.Place, Name: rt.Dev})
	if err != nil {
		return nil, about(rt, err)
	}
	return d, nil
}

func deviceIndex(d *device) int32 {
	if d == nil {
		return 0
	}
	return d.index
}

func deleteRoute(rt *netstate.Route, index int32) *request {
	return &request{kind: unix.RTM_DELROUTE, body: routeMessage(rt, index), object: rt, step: "remove", accept: isMissing}
}

// routeScope is the scope that a route gets: an IPv4 route without a gateway reaches the link, as ip(8) has it, since a
// gateway behind it must be nearer than what it leads to.
func routeScope(rt *netstate.Route) int {
	if rt.Scope == 0 && rt.Dst.Addr().Is4() && !rt.Via.IsValid() {
		return unix.RT_SCOPE_LINK
	}
	return rt.Scope
}

// putTable adds a table's number, which the header holds only up to 255.
func putTable(m *message, table int, header *byte, attribute uint16) {
	*header = unix.RT_TABLE_UNSPEC
	if table <= 255 {
		*header = uint8(table)
	}
	m.u32(attribute, uint32(table))
}

// routeMessage is struct rtmsg with its attributes.
func routeMessage(rt *netstate.Route, index int32) message {
	dst := rt.Dst.Masked()
	m := newMessage(unix.SizeofRtMsg)
	h := m.family()
	h[0] = family(dst.Addr())
	h[1] = uint8(dst.Bits())
	h[5] = unix.RTPROT_BOOT
	h[6] = uint8(routeScope(rt))
	h[7] = unix.RTN_UNICAST
	if rt.OnLink {
		native.PutUint32(h[8:], unix.RTNH_F_ONLINK)
	}
	putTable(&m, rt.InTable(), &h[4], unix.RTA_TABLE)
	if dst.Bits() > 0 {
		m.bytes(unix.RTA_DST, dst.Addr().AsSlice())
	}
	via := rt.Via.Unmap()
	switch {
	case !via.IsValid():
	case via.Is4() == dst.Addr().Is4():
		m.bytes(unix.RTA_GATEWAY, via.AsSlice())
	default: // an IPv4 route by an IPv6 router
		m.bytes(unix.RTA_VIA, append(native.AppendUint16(nil, uint16(family(via))), via.AsSlice()...))
	}
	if rt.Src.IsValid() {
		m.bytes(unix.RTA_PREFSRC, rt.Src.Unmap().AsSlice())
	}
	if index != 0 {
		m.u32(unix.RTA_OIF, uint32(index))
	}
	if rt.Priority != 0 {
		m.u32(unix.RTA_PRIORITY, uint32(rt.Priority))
	}
	if rt.MTU != 0 || rt.AdvMSS != 0 {
		m.nest(unix.RTA_METRICS, func() {
			if rt.MTU != 0 {
				m.u32(unix.RTAX_MTU, uint32(rt.MTU))
			}
			if rt.AdvMSS != 0 {
				m.u32(unix.RTAX_ADVMSS, uint32(rt.AdvMSS))
			}
		})
	}
	return m
}

// seenRoute is a route of the kernel, or one hop of a route with several.
type seenRoute struct {
	netstate.Route
	index    int32
	kind     uint8 // RTN_UNICAST
	protocol uint8 // RTPROT_KERNEL: who made it
	raw      []byte
	several  bool // hops
	foreign  bool // and another leads over another link
}

// message names the route with all that goes with it, in a request. Of several hops IPv6, where each is a route of its own, names one, and IPv4 all.
func (r *seenRoute) message() message {
	m := newMessage(unix.SizeofRtMsg)
	h := m.family()
	copy(h, r.raw[:unix.SizeofRtMsg])
	native.PutUint32(h[8:], native.Uint32(h[8:])&unix.RTNH_F_ONLINK) // the other flags are only told
	one := r.several && h[0] == unix.AF_INET6
	for kind, v := range attributes(r.raw[unix.SizeofRtMsg:]) {
		if kind != unix.RTA_CACHEINFO && !(one && kind == unix.RTA_MULTIPATH) {
			m.bytes(kind, v)
		}
	}
	if one {
		m.u32(unix.RTA_OIF, uint32(r.index))
		if r.Via.IsValid() {
			m.bytes(unix.RTA_GATEWAY, r.Via.AsSlice())
		}
	}
	return m
}

// parseRoutes reads the body of RTM_NEWROUTE: a route, or as many as it has hops.
func parseRoutes(place netstate.Place, b []byte) []seenRoute {
	if len(b) < unix.SizeofRtMsg {
		return nil
	}
	r := seenRoute{kind: b[7], protocol: b[5], raw: b}
	r.Place, r.Table, r.Scope = place, int(b[4]), int(b[6])
	r.OnLink = native.Uint32(b[8:])&unix.RTNH_F_ONLINK != 0
	dst := netip.IPv4Unspecified()
	if b[0] == unix.AF_INET6 {
		dst = netip.IPv6Unspecified()
	}
	var hops []byte
	for kind, v := range attributes(b[unix.SizeofRtMsg:]) {
		switch kind {
		case unix.RTA_DST:
			dst, _ = netip.AddrFromSlice(v)
		case unix.RTA_MULTIPATH:
			hops = v
		case unix.RTA_TABLE:
			r.Table = int(number(v))
		case unix.RTA_PRIORITY:
			r.Priority = int(number(v))
		case unix.RTA_PREFSRC:
			r.Src, _ = netip.AddrFromSlice(v)
		case unix.RTA_METRICS:
			for kind, v := range attributes(v) {
				switch kind {
				case unix.RTAX_MTU:
					r.MTU = int(number(v))
				case unix.RTAX_ADVMSS:
					r.AdvMSS = int(number(v))
				}
			}
		default:
			r.parseNextHop(kind, v)
		}
	}
	r.Dst = netip.PrefixFrom(dst, int(b[1]))
	switch {
	case !r.Dst.IsValid():
		return nil
	case hops == nil:
		return []seenRoute{r}
	}
	return r.perHop(hops)
}

func (r *seenRoute) parseNextHop(kind uint16, v []byte) {
	switch kind {
	case unix.RTA_OIF:
		r.index = int32(number(v))
	case unix.RTA_GATEWAY:
		r.Via, _ = netip.AddrFromSlice(v)
	case unix.RTA_VIA:
		r.Via, _ = netip.AddrFromSlice(after(v, 2))
	}
}

// perHop gives the route once for each of its hops: struct rtnexthop and attributes.
func (r seenRoute) perHop(b []byte) []seenRoute {
	var list []seenRoute
	for len(b) >= unix.SizeofRtNexthop {
		size := int(native.Uint16(b))
		if size < unix.SizeofRtNexthop || size > len(b) {
			break
		}
		hop := r
		hop.several, hop.index = true, int32(native.Uint32(b[4:]))
		hop.OnLink = b[2]&unix.RTNH_F_ONLINK != 0
		for kind, v := range attributes(b[unix.SizeofRtNexthop:size]) {
			hop.parseNextHop(kind, v)
		}
		list = append(list, hop)
		b = b[min(align(size), len(b)):]
	}
	for i := range list {
		list[i].foreign = slices.ContainsFunc(list, func(o seenRoute) bool { return o.index != list[i].index })
	}
	return list
}

// routes lists the routes of a family and table; with index only those over that link, which the kernel
// picks. A table that is not there is empty.
func (c *conn) routes(ctx context.Context, q routeQuery) ([]seenRoute, error) {
	m := newMessage(unix.SizeofRtMsg)
	m.family()[0] = q.family
	table := netstate.Route{Table: q.table}.InTable()
	if q.table != anyTable {
		m.u32(unix.RTA_TABLE, uint32(table))
	}
	if q.index != 0 {
		m.u32(unix.RTA_OIF, uint32(q.index))
	}
	var list []seenRoute
	err := c.dump(ctx, unix.RTM_GETROUTE, m, func(_ uint16, b []byte) {
		for _, r := range parseRoutes(q.place, b) {
			inTable := r.Table == table || q.table == anyTable && r.Table != netstate.LocalTable
			// A kernel without IPv6 answers with what it has, and one tells of a route by all its hops.
			if inTable && b[0] == q.family && r.kind == unix.RTN_UNICAST && (q.index == 0 || r.index == q.index) {
				list = append(list, r)
			}
		}
	})
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return nil, fmt.Errorf("list routes of the %s: %w", q.place, err)
	}
	return list, nil
}

// routeQuery selects routes.
type routeQuery struct {
	place  netstate.Place
	family uint8
	table  int   // 0 is main
	index  int32 // 0 is any
}

// anyTable is the table of a query for the routes of all tables but the local one.
const anyTable = -1

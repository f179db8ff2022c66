package kernel

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/cleat-cni/cleat/netstate"
)

// ipv6Priority is the priority that the kernel gives an IPv6 route that asks for none.
const ipv6Priority = 1024

// addRoutes adds the routes, rules and neighbours of one place. The links are up, since the kernel refuses a
// route over one that is down.
func (c *change) addRoutes(ctx context.Context, b *batch, p netstate.Place) error {
	for i := range c.state.Routes {
		rt := &c.state.Routes[i]
		if rt.Place != p {
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
	c.addRules(b, p)
	return c.addNeighbours(ctx, b, p)
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

func routeTable(table int) int {
	if table == 0 {
		return unix.RT_TABLE_MAIN
	}
	return table
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
	putTable(&m, routeTable(rt.Table), &h[4], unix.RTA_TABLE)
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

// seenRoute is a route of the kernel.
type seenRoute struct {
	netstate.Route
	index int32
	kind  uint8 // RTN_UNICAST
}

// parseRoute reads the body of RTM_NEWROUTE.
func parseRoute(place netstate.Place, b []byte) (seenRoute, bool) {
	if len(b) < unix.SizeofRtMsg {
		return seenRoute{}, false
	}
	r := seenRoute{kind: b[7]}
	r.Place, r.Table, r.Scope = place, int(b[4]), int(b[6])
	r.OnLink = native.Uint32(b[8:])&unix.RTNH_F_ONLINK != 0
	dst := netip.IPv4Unspecified()
	if b[0] == unix.AF_INET6 {
		dst = netip.IPv6Unspecified()
	}
	for kind, v := range attributes(b[unix.SizeofRtMsg:]) {
		switch kind {
		case unix.RTA_DST:
			dst, _ = netip.AddrFromSlice(v)
		case unix.RTA_MULTIPATH:
			r.parseHop(v)
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
	return r, r.Dst.IsValid()
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

// parseHop takes the first of several next hops: struct rtnexthop and attributes.
func (r *seenRoute) parseHop(b []byte) {
	if len(b) < unix.SizeofRtNexthop {
		return
	}
	size := min(int(native.Uint16(b)), len(b))
	r.index = int32(native.Uint32(b[4:]))
	for kind, v := range attributes(after(b[:size], unix.SizeofRtNexthop)) {
		r.parseNextHop(kind, v)
	}
}

// routes lists the routes of a family and table; with index only those over that link, which the kernel
// picks. A table that is not there is empty.
func (c *conn) routes(ctx context.Context, q routeQuery) ([]seenRoute, error) {
	m := newMessage(unix.SizeofRtMsg)
	m.family()[0] = q.family
	m.u32(unix.RTA_TABLE, uint32(routeTable(q.table)))
	if q.index != 0 {
		m.u32(unix.RTA_OIF, uint32(q.index))
	}
	var list []seenRoute
	err := c.dump(ctx, unix.RTM_GETROUTE, m, func(_ uint16, b []byte) {
		if r, ok := parseRoute(q.place, b); ok && r.Table == routeTable(q.table) && r.kind == unix.RTN_UNICAST {
			list = append(list, r)
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
	table  int
	index  int32 // 0 is any
}

package kernel

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/cleat-cni/cleat/netstate"
)

// dadTimeout bounds the wait for duplicate address detection, which takes 1 to 2 s.
const dadTimeout = 5 * time.Second

// addAddrs adds the addresses of one place that are not there, and removes those that must not be.
func (c *change) addAddrs(ctx context.Context, b *batch, p netstate.Place) error {
	for i := range c.state.Addrs {
		a := &c.state.Addrs[i]
		if a.Place != p {
			continue
		}
		d, err := c.device(ctx, netstate.Ref{Place: p, Name: a.Dev})
		if err != nil {
			return about(a, err)
		}
		if a.Absent {
			gone := deleteAddr(a, d.index)
			gone.undo = c.s.reverse(p, &request{kind: unix.RTM_NEWADDR, flags: unix.NLM_F_CREATE, body: addrMessage(a, d.index), object: a, step: "put back"})
			*b = append(*b, gone)
			continue
		}
		if a.Shared && hasAddr(d, a.Prefix) {
			continue
		}
		r := &request{kind: unix.RTM_NEWADDR, flags: unix.NLM_F_CREATE | unix.NLM_F_EXCL, body: addrMessage(a, d.index), object: a}
		switch {
		case a.Shared:
			r.accept = acceptOnly(unix.EEXIST)
		case !d.made:
			r.undo = c.s.reverse(p, deleteAddr(a, d.index))
		}
		*b = append(*b, r)
	}
	return nil
}

func hasAddr(d *device, p netip.Prefix) bool {
	return slices.ContainsFunc(d.addrs, func(a netstate.Addr) bool { return a.Prefix == p })
}

func deleteAddr(a *netstate.Addr, index int32) *request {
	return &request{kind: unix.RTM_DELADDR, body: addrMessage(a, index), object: a, step: "remove", accept: isMissing}
}

// addrMessage is struct ifaddrmsg with its attributes.
func addrMessage(a *netstate.Addr, index int32) message {
	addr := a.Prefix.Addr().Unmap()
	m := newMessage(unix.SizeofIfAddrmsg)
	h := m.family()
	h[0] = family(addr)
	h[1] = uint8(a.Prefix.Bits())
	native.PutUint32(h[4:], uint32(index))
	m.bytes(unix.IFA_LOCAL, addr.AsSlice())
	m.bytes(unix.IFA_ADDRESS, addr.AsSlice())
	var flags uint32
	if addr.Is6() && !a.DAD {
		flags |= unix.IFA_F_NODAD
	}
	if a.NoPrefixRoute {
		flags |= unix.IFA_F_NOPREFIXROUTE
	}
	if flags != 0 {
		m.u32(unix.IFA_FLAGS, flags)
	}
	if bc, ok := broadcast(a.Prefix); ok {
		m.bytes(unix.IFA_BROADCAST, bc.AsSlice())
	}
	return m
}

func family(a netip.Addr) uint8 {
	if a.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

// broadcast is the last address of an IPv4 subnet that has room for one.
func broadcast(p netip.Prefix) (netip.Addr, bool) {
	if !p.Addr().Is4() || p.Bits() > 30 {
		return netip.Addr{}, false
	}
	b := p.Addr().As4()
	for i := p.Bits(); i < 32; i++ {
		b[i/8] |= 1 << (7 - i%8)
	}
	return netip.AddrFrom4(b), true
}

// seenAddr is an address with the kernel's flags.
type seenAddr struct {
	index  int32
	prefix netip.Prefix
	flags  uint32
}

// parseAddr reads the body of RTM_NEWADDR.
func parseAddr(b []byte) (seenAddr, bool) {
	if len(b) < unix.SizeofIfAddrmsg {
		return seenAddr{}, false
	}
	a := seenAddr{index: int32(native.Uint32(b[4:])), flags: uint32(b[2])}
	var local, address netip.Addr
	for kind, v := range attributes(b[unix.SizeofIfAddrmsg:]) {
		switch kind {
		case unix.IFA_LOCAL:
			local, _ = netip.AddrFromSlice(v)
		case unix.IFA_ADDRESS:
			address, _ = netip.AddrFromSlice(v)
		case unix.IFA_FLAGS:
			a.flags = number(v)
		}
	}
	// IPv6 gives the local address only beside a peer's.
	if !local.IsValid() {
		local = address
	}
	a.prefix = netip.PrefixFrom(local, int(b[1]))
	return a, a.prefix.IsValid()
}

// addrs lists the addresses of one link.
func (c *conn) addrs(ctx context.Context, d *device) ([]seenAddr, error) {
	m := newMessage(unix.SizeofIfAddrmsg)
	native.PutUint32(m.family()[4:], uint32(d.index))
	var list []seenAddr
	err := c.dump(ctx, unix.RTM_GETADDR, m, func(_ uint16, b []byte) {
		if a, ok := parseAddr(b); ok && a.index == d.index {
			list = append(list, a)
		}
	})
	if errors.Is(err, unix.ENODEV) {
		return nil, about(d.key(), netstate.ErrNotExist)
	}
	if err != nil {
		return nil, about(d.key(), fmt.Errorf("list addresses: %w", err))
	}
	return list, nil
}

// addr describes a seen address as netstate does.
func (a seenAddr) addr(d *device) netstate.Addr {
	return netstate.Addr{Place: d.place, Dev: d.name, Prefix: a.prefix, NoPrefixRoute: a.flags&unix.IFA_F_NOPREFIXROUTE != 0}
}

// waitDAD waits until the kernel has decided about the addresses that asked for duplicate address
// detection. It runs when both ends are up: without a carrier the detection does not begin.
func (c *change) waitDAD(ctx context.Context) error {
	waiting := map[netstate.Ref][]*netstate.Addr{}
	for i := range c.state.Addrs {
		if a := &c.state.Addrs[i]; a.DAD && a.Prefix.Addr().Is6() {
			ref := netstate.Ref{Place: a.Place, Name: a.Dev}
			waiting[ref] = append(waiting[ref], a)
		}
	}
	for ref, addrs := range waiting {
		d, err := c.device(ctx, ref)
		if err != nil {
			return err
		}
		if err := c.waitDevice(ctx, d, addrs); err != nil {
			return err
		}
	}
	return nil
}

var (
	errDuplicate = errors.New("another host on the link has this address (dadfailed)")
	errDADTime   = fmt.Errorf("duplicate address detection did not end within %v", dadTimeout)
)

func (c *change) waitDevice(ctx context.Context, d *device, addrs []*netstate.Addr) error {
	ctx, cancel := context.WithTimeoutCause(ctx, dadTimeout, errDADTime)
	defer cancel()
	sp, err := c.s.space(d.place)
	if err != nil {
		return err
	}
	// The subscription comes before the question, so that no verdict is missed between them.
	nl, err := netlink.Dial(unix.NETLINK_ROUTE, &netlink.Config{NetNS: sp.fd()})
	if err != nil {
		return fmt.Errorf("listen for address notices: %w", err)
	}
	defer nl.Close()
	if err := nl.JoinGroup(unix.RTNLGRP_IPV6_IFADDR); err != nil {
		return fmt.Errorf("listen for address notices: %w", err)
	}
	conn, err := c.conn(d.place)
	if err != nil {
		return err
	}
	seen, err := conn.addrs(ctx, d)
	if err != nil {
		return err
	}
	for _, a := range seen {
		if addrs, err = settle(addrs, a, d); err != nil {
			return err
		}
	}
	stop := context.AfterFunc(ctx, func() { nl.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	for len(addrs) > 0 {
		list, err := nl.Receive()
		if ctx.Err() != nil {
			return about(addrs[0], context.Cause(ctx))
		}
		if err != nil {
			return fmt.Errorf("listen for address notices: %w", err)
		}
		for _, msg := range list {
			a, ok := parseAddr(msg.Data)
			if !ok || msg.Header.Type != unix.RTM_NEWADDR {
				continue
			}
			if addrs, err = settle(addrs, a, d); err != nil {
				return err
			}
		}
	}
	return nil
}

// settle takes from addrs the one that a decides about.
func settle(addrs []*netstate.Addr, a seenAddr, d *device) ([]*netstate.Addr, error) {
	var rest []*netstate.Addr
	for _, want := range addrs {
		switch {
		case a.index != d.index || a.prefix.Addr() != want.Prefix.Addr():
			rest = append(rest, want)
		case a.flags&unix.IFA_F_DADFAILED != 0:
			return nil, about(want, errDuplicate)
		case a.flags&unix.IFA_F_TENTATIVE != 0:
			rest = append(rest, want)
		}
	}
	return rest, nil
}

package kernel

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/cleat-cni/cleat/netstate"
)

// answerTime is how long an address has to answer: one request and its first repetition, a second later by the kernel's
// default.
const answerTime = 1500 * time.Millisecond

// Answers reports whether something on the host's own links has an address, by having the kernel resolve it (ARP, or neighbour
// discovery): no packet of another protocol is sent. An address of the host itself has it. One that is behind a gateway, or that
// no route leads to, has not. It takes at most 1.5 s.
func (k *Kernel) Answers(ctx context.Context, addr netip.Addr) (bool, error) {
	addr = addr.Unmap()
	if !addr.IsValid() {
		return false, errors.New("ask for an address: it is not valid")
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	answers, err := k.answers(ctx, addr)
	if err != nil {
		return false, fmt.Errorf("ask whether %s answers: %w", addr, err)
	}
	return answers, nil
}

func (k *Kernel) answers(ctx context.Context, addr netip.Addr) (bool, error) {
	var hop hop
	var carrier bool
	err := k.host.with(func(c *conn) error {
		var err error
		if hop, err = c.hop(ctx, addr); err != nil || hop.kind != unix.RTN_UNICAST || hop.gateway {
			return err
		}
		d, err := c.linkByIndex(ctx, netstate.Host, hop.index)
		if err != nil {
			return err
		}
		carrier = d.flags&unix.IFF_UP != 0 && d.flags&unix.IFF_LOWER_UP != 0
		return nil
	})
	switch {
	case errors.Is(err, netstate.ErrNotExist):
		return false, nil // the link went meanwhile
	case err != nil:
		return false, err
	case hop.kind == unix.RTN_LOCAL:
		return true, nil
	case !carrier:
		return false, nil
	}
	return k.resolve(ctx, hop.index, addr)
}

// hop is where a route leads.
type hop struct {
	kind    uint8 // RTN_UNICAST, RTN_LOCAL, …; RTN_UNSPEC without a route
	index   int32 // of the link
	gateway bool
}

// hop asks for the route to an address.
func (c *conn) hop(ctx context.Context, addr netip.Addr) (hop, error) {
	m := newMessage(unix.SizeofRtMsg)
	m.family()[0] = family(addr)
	m.family()[1] = uint8(addr.BitLen())
	m.bytes(unix.RTA_DST, addr.AsSlice())
	var h hop
	err := c.run1(ctx, &request{kind: unix.RTM_GETROUTE, body: m, accept: isUnroutable, reply: func(_ uint16, b []byte) {
		if len(b) < unix.SizeofRtMsg {
			return
		}
		h.kind = b[7]
		for kind, v := range attributes(b[unix.SizeofRtMsg:]) {
			switch kind {
			case unix.RTA_OIF:
				h.index = int32(number(v))
			case unix.RTA_GATEWAY, unix.RTA_VIA:
				h.gateway = true
			}
		}
	}})
	return h, err
}

// isUnroutable says that no route leads to an address, or one that refuses.
func isUnroutable(errno unix.Errno) bool {
	switch errno {
	case unix.ENETUNREACH, unix.EHOSTUNREACH, unix.EACCES, unix.EINVAL, unix.EAFNOSUPPORT, unix.EOPNOTSUPP:
		return true
	}
	return false
}

// The states in which a neighbour's address is proved, and in which it is known but may be out of date.
const (
	neighbourProved = unix.NUD_REACHABLE | unix.NUD_PERMANENT | unix.NUD_NOARP
	neighbourOld    = unix.NUD_STALE | unix.NUD_DELAY | unix.NUD_PROBE
)

// resolve has a neighbour resolved and waits for what comes of it. That it doesn't answer is known when the kernel
// gave up, or when the time has passed.
func (k *Kernel) resolve(ctx context.Context, index int32, addr netip.Addr) (bool, error) {
	notices, err := netlink.Dial(unix.NETLINK_ROUTE, &netlink.Config{NetNS: k.host.fd()})
	if err != nil {
		return false, fmt.Errorf("open rtnetlink socket: %w", err)
	}
	defer notices.Close()
	if err := notices.JoinGroup(unix.RTNLGRP_NEIGH); err != nil {
		return false, fmt.Errorf("listen for notices: %w", err)
	}
	var state uint16
	err = k.host.with(func(c *conn) error {
		if state, err = c.neighbourState(ctx, index, addr); err != nil || state&neighbourProved != 0 {
			return err
		}
		return c.probe(ctx, index, addr, state)
	})
	if err != nil || state&neighbourProved != 0 {
		return err == nil, err
	}
	stop := context.AfterFunc(ctx, func() { notices.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	for {
		list, err := notices.Receive()
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded) && errors.Is(context.Cause(ctx), context.DeadlineExceeded):
			return false, nil
		case ctx.Err() != nil:
			return false, context.Cause(ctx)
		case err != nil:
			return false, fmt.Errorf("wait for notices: %w", err)
		}
		for _, m := range list {
			switch state := neighbourOf(m.Data, index, addr); {
			case state&neighbourProved != 0:
				return true, nil
			case state&unix.NUD_FAILED != 0:
				return false, nil
			}
		}
	}
}

// neighbourState is the state of a neighbour entry; 0 without one.
func (c *conn) neighbourState(ctx context.Context, index int32, addr netip.Addr) (uint16, error) {
	var state uint16
	r := &request{kind: unix.RTM_GETNEIGH, body: neighbourMessage(index, addr, 0), accept: isMissing,
		reply: func(_ uint16, b []byte) { state = neighbourOf(b, index, addr) }}
	return state, c.run1(ctx, r)
}

// probe has the kernel ask for an address: for the first time, or, where an answer was had some time ago, again. Left to
// itself it would believe an old answer for another five seconds.
func (c *conn) probe(ctx context.Context, index int32, addr netip.Addr, state uint16) error {
	m := neighbourMessage(index, addr, unix.NUD_NONE)
	if state&neighbourOld != 0 {
		m = neighbourMessage(index, addr, unix.NUD_PROBE)
	} else {
		m.family()[ndmFlags] = unix.NTF_USE
	}
	return c.run1(ctx, &request{kind: unix.RTM_NEWNEIGH, flags: unix.NLM_F_CREATE | unix.NLM_F_REPLACE, body: m, step: "resolve"})
}

// neighbourOf reads the state of a neighbour from struct ndmsg and what follows it; 0 if it is about another one.
func neighbourOf(b []byte, index int32, addr netip.Addr) uint16 {
	if len(b) < unix.SizeofNdMsg || b[0] != family(addr) || int32(native.Uint32(b[4:])) != index {
		return 0
	}
	for kind, v := range attributes(b[unix.SizeofNdMsg:]) {
		if got, ok := netip.AddrFromSlice(v); kind == unix.NDA_DST && ok && got == addr {
			return native.Uint16(b[8:])
		}
	}
	return 0
}

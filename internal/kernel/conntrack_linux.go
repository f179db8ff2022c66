package kernel

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/cleat-cni/cleat/netstate"
)

// Numbers of linux/netfilter/nfnetlink_conntrack.h.
const (
	ctMessageGet    = unix.NFNL_SUBSYS_CTNETLINK<<8 | 1
	ctMessageDelete = unix.NFNL_SUBSYS_CTNETLINK<<8 | 2

	ctTupleOrig  = 1
	ctTupleReply = 2
	ctID         = 12
	ctZone       = 18
	ctFilter     = 25
	ctTupleIP    = 1
	ctTupleProto = 2
	ctIPv4Src    = 1
	ctIPv4Dst    = 2
	ctIPv6Src    = 3
	ctIPv6Dst    = 4
	ctProtoNum   = 1
	ctProtoDst   = 3

	ctFilterOrig      = 1
	ctFilterReply     = 2
	ctFilterIPSrc     = 1 << 0
	ctFilterIPDst     = 1 << 1
	ctFilterProtoNum  = 1 << 3
	ctFilterProtoDst  = 1 << 5
	maxForgetMessages = 64 // in one datagram: their replies must fit into the socket's buffer
)

// forgetFlows deletes the host's connection tracking entries that flows select, so that the next
// packet of each takes the way that the rules now say. That it can't is a warning in the log: what
// was applied or removed holds all the same, for whoever connects anew.
func (k *Kernel) forgetFlows(ctx context.Context, flows []netstate.Flow) {
	if len(flows) == 0 {
		return
	}
	r, err := k.ruleset()
	if err == nil {
		err = r.forget(ctx, flows)
	}
	if err != nil {
		k.log.WarnContext(ctx, "old connections keep their way", "error", err)
	}
}

// forget deletes the entries that flows select. It takes the socket of the rules, since closing one of
// its own would wait for what the rules' transaction deleted.
func (r *ruleset) forget(ctx context.Context, flows []netstate.Flow) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.conn.forget(ctx, flows)
}

// flowGroup are the flows of one family and protocol, for which one look through the
// kernel's table is enough.
type flowGroup struct {
	ipv6     bool
	protocol byte
}

// forget deletes the entries that flows select.
func (c *filterConn) forget(ctx context.Context, flows []netstate.Flow) error {
	groups := map[flowGroup][]netstate.Flow{}
	for _, f := range flows {
		protocol, err := encodeProtocol(f.Protocol)
		if err != nil {
			return fmt.Errorf("forget flows: %w", err)
		}
		if f.Port < 1 || f.Port > 65535 || f.Addr.IsValid() && f.Addr.Is4() == f.IPv6 {
			return fmt.Errorf("forget flows: bad flow %q", f)
		}
		g := flowGroup{f.IPv6, protocol[0]}
		groups[g] = append(groups[g], f)
	}
	var errs []error
	for g, of := range groups {
		if err := c.forgetGroup(ctx, g, of); err != nil {
			errs = append(errs, fmt.Errorf("forget flows: %w", err))
		}
	}
	return errors.Join(errs...)
}

func (c *filterConn) forgetGroup(ctx context.Context, g flowGroup, flows []netstate.Flow) error {
	entries, err := c.tracked(ctx, g, flows, true)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP) {
		// Kernels before 5.8 don't look at a filter, later ones may know another one.
		entries, err = c.tracked(ctx, g, flows, false)
	}
	if err != nil {
		return err
	}
	return c.forgetTracked(ctx, g.family(), entries)
}

// forgetTracked deletes entries. One that is gone is success.
func (c *filterConn) forgetTracked(ctx context.Context, family uint8, entries []trackedFlow) error {
	for from := 0; from < len(entries); from += maxForgetMessages {
		var msgs []filterMessage
		for _, e := range entries[from:min(from+maxForgetMessages, len(entries))] {
			m, err := e.deleteMessage(family)
			if err != nil {
				return err
			}
			msgs = append(msgs, m)
		}
		results, err := c.ask(ctx, msgs, func(int, []byte) error { return nil })
		if err != nil {
			return err
		}
		for _, err := range results {
			if err != nil && !errors.Is(err, unix.ENOENT) {
				return err
			}
		}
	}
	return nil
}

// trackedFlow is an entry: what selects it, and what names it to the kernel.
type trackedFlow struct {
	protocol byte
	src, dst netip.Addr
	port     uint16
	answers  netip.Addr // who sends the replies: behind a DNAT it is not dst

	tuple, id, zone []byte
}

// family is the number of the group's address family.
func (g flowGroup) family() uint8 {
	if g.ipv6 {
		return unix.AF_INET6
	}
	return unix.AF_INET
}

// tracked reads the entries that flows, all of group g, select. With filter the kernel leaves out
// most others.
func (c *filterConn) tracked(ctx context.Context, g flowGroup, flows []netstate.Flow, filter bool) ([]trackedFlow, error) {
	m := filterMessage{kind: ctMessageGet, family: g.family(), flags: netlink.Dump, what: "list connection tracking entries"}
	if filter {
		ae := newAttrs()
		encodeFlowFilter(ae, g, flows)
		attrs, err := ae.Encode()
		if err != nil {
			return nil, err
		}
		m.attrs = attrs
	}
	return c.list(ctx, m, func(e trackedFlow) bool { return e.selected(g, flows) })
}

// list asks for entries, and returns those that are wanted.
func (c *filterConn) list(ctx context.Context, m filterMessage, wanted func(trackedFlow) bool) ([]trackedFlow, error) {
	var entries []trackedFlow
	results, err := c.ask(ctx, []filterMessage{m}, func(_ int, attrs []byte) error {
		e, err := parseTracked(attrs)
		if err == nil && wanted(e) {
			entries = append(entries, e)
		}
		return err
	})
	if err == nil {
		err = results[0]
	}
	return entries, err
}

func (e trackedFlow) selected(g flowGroup, flows []netstate.Flow) bool {
	if e.protocol != g.protocol || e.dst.Is4() == g.ipv6 {
		return false
	}
	for _, f := range flows {
		if f.Port == int(e.port) && (!f.Addr.IsValid() || f.Addr == e.dst) {
			return true
		}
	}
	return false
}

// encodeFlowFilter asks the kernel (5.8) for entries of the group's protocol only; for a single flow also of its
// port and IPv4 address. An IPv6 address is not asked for: the kernel, up to 6.18 at least, leaves out just
// the entries that have it.
func encodeFlowFilter(ae *netlink.AttributeEncoder, g flowGroup, flows []netstate.Flow) {
	flags := uint32(ctFilterProtoNum)
	only := netstate.Flow{}
	if len(flows) == 1 {
		only = flows[0]
		flags |= ctFilterProtoDst
	}
	if only.Addr.Is4() {
		flags |= ctFilterIPDst
	}
	ae.Nested(ctTupleOrig, func(ae *netlink.AttributeEncoder) error {
		if only.Addr.Is4() {
			ae.Nested(ctTupleIP, func(ae *netlink.AttributeEncoder) error {
				ae.Bytes(ctIPv4Dst, only.Addr.AsSlice())
				return nil
			})
		}
		ae.Nested(ctTupleProto, func(ae *netlink.AttributeEncoder) error {
			ae.Uint8(ctProtoNum, g.protocol)
			if only.Port != 0 {
				ae.Uint16(ctProtoDst, uint16(only.Port))
			}
			return nil
		})
		return nil
	})
	ae.Nested(ctFilter, func(ae *netlink.AttributeEncoder) error {
		// Unlike the rest the flags are in the machine's order.
		ae.Bytes(ctFilterOrig, binary.NativeEndian.AppendUint32(nil, flags))
		return nil
	})
}

// deleteMessage deletes just this entry, not a later one of the same addresses.
func (e trackedFlow) deleteMessage(family uint8) (filterMessage, error) {
	ae := newAttrs()
	ae.Bytes(unix.NLA_F_NESTED|ctTupleOrig, e.tuple)
	if len(e.id) > 0 {
		ae.Bytes(ctID, e.id)
	}
	if len(e.zone) > 0 {
		ae.Bytes(ctZone, e.zone)
	}
	attrs, err := ae.Encode()
	return filterMessage{
		kind: ctMessageDelete, family: family, flags: netlink.Acknowledge, attrs: attrs,
		what: fmt.Sprintf("delete entry of %s", netip.AddrPortFrom(e.dst, e.port)),
	}, err
}

func parseTracked(attrs []byte) (trackedFlow, error) {
	ad, err := newAttrsOf(attrs)
	if err != nil {
		return trackedFlow{}, err
	}
	var e trackedFlow
	for ad.Next() {
		switch ad.Type() {
		case ctTupleOrig:
			e.tuple = bytes.Clone(ad.Bytes())
			ad.Nested(e.parseTuple)
		case ctTupleReply:
			var reply trackedFlow
			ad.Nested(reply.parseTuple)
			e.answers = reply.src
		case ctID:
			e.id = bytes.Clone(ad.Bytes())
		case ctZone:
			e.zone = bytes.Clone(ad.Bytes())
		}
	}
	return e, ad.Err()
}

func (e *trackedFlow) parseTuple(ad *netlink.AttributeDecoder) error {
	for ad.Next() {
		switch ad.Type() {
		case ctTupleIP:
			ad.Nested(func(ad *netlink.AttributeDecoder) error {
				for ad.Next() {
					switch ad.Type() {
					case ctIPv4Src, ctIPv6Src:
						e.src, _ = netip.AddrFromSlice(ad.Bytes())
					case ctIPv4Dst, ctIPv6Dst:
						e.dst, _ = netip.AddrFromSlice(ad.Bytes())
					}
				}
				return nil
			})
		case ctTupleProto:
			ad.Nested(func(ad *netlink.AttributeDecoder) error {
				for ad.Next() {
					switch ad.Type() {
					case ctProtoNum:
						e.protocol = ad.Uint8()
					case ctProtoDst:
						e.port = ad.Uint16()
					}
				}
				return nil
			})
		}
	}
	return nil
}

package kernel

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/cleat-cni/cleat/netstate"
)

// announcing calls f for each of the pod's links that this call made to tell their neighbours who they are, with its end on the host.
func (c *change) announcing(ctx context.Context, f func(pod, host *netstate.Link, d *device) error) error {
	for i := range c.state.Links {
		l := &c.state.Links[i]
		if l.Place != netstate.Pod || l.Kind != kindVeth || !l.ARPNotify || l.Down {
			continue
		}
		host := findPeer(c.state.Links, l)
		if host == nil || host.Place != netstate.Host || !slices.ContainsFunc(c.state.Addrs, func(a netstate.Addr) bool {
			return a.Place == netstate.Pod && a.Dev == l.Name
		}) {
			continue
		}
		d, err := c.device(ctx, l.Ref())
		if err != nil {
			return err
		}
		if !d.made {
			continue
		}
		if err := f(l, host, d); err != nil {
			return err
		}
	}
	return nil
}

// awaitCarrier looks at the host's ends of what neighbours are to reach at once. The kernel (Linux 6.8) then does at once what it puts off when a carrier
// comes: till then a bridge passes nothing on from the port.
func (c *change) awaitCarrier(ctx context.Context, b *batch) error {
	return c.announcing(ctx, func(_, host *netstate.Link, _ *device) error {
		d, err := c.device(ctx, host.Ref())
		if err == nil {
			*b = append(*b, lookAt(d, host))
		}
		return err
	})
}

func lookAt(d *device, l *netstate.Link) *request {
	m := linkMessage(d.index, 0, 0)
	m.u32(unix.IFLA_EXT_MASK, skipStats)
	return &request{kind: unix.RTM_GETLINK, body: m, object: l, step: "look at its carrier"}
}

// announce has the pod tell its neighbours its addresses: some may know them as another's. The kernel does so (arp_notify, ndisc_notify) when
// a link comes up, which here is before its way out is open, and when its hardware address is set, though it is what it was.
func (c *change) announce(ctx context.Context, b *batch) error {
	return c.announcing(ctx, func(l, _ *netstate.Link, d *device) error {
		if l.Known && !c.isStrange(l) {
			return nil
		}
		mac := l.MAC
		if mac == "" {
			conn, err := c.conn(netstate.Pod)
			if err != nil {
				return err
			}
			seen, err := conn.linkByIndex(ctx, netstate.Pod, d.index)
			if err != nil {
				return err
			}
			mac = seen.mac
		}
		m := linkMessage(d.index, 0, 0)
		if err := putMAC(&m, mac, false); err != nil {
			return about(l, err)
		}
		*b = append(*b, lookAt(d, l), &request{kind: unix.RTM_SETLINK, body: m, object: l, step: "announce it"})
		return nil
	})
}

// askNeighbours asks whether the host knows the addresses of links that are said to be known by another MAC: then a foreign program gave
// them to somebody, and the pod's neighbours have to be told.
func (c *change) askNeighbours(ctx context.Context, b *batch) error {
	return c.announcing(ctx, func(l, _ *netstate.Link, _ *device) error {
		if !l.Known {
			return nil
		}
		for _, a := range c.state.Addrs {
			if a.Place != netstate.Pod || a.Dev != l.Name {
				continue
			}
			ip := a.Prefix.Addr()
			for _, at := range c.state.Addrs {
				if at.Place != netstate.Host || !at.Prefix.Contains(ip) {
					continue
				}
				d, err := c.device(ctx, netstate.Ref{Place: netstate.Host, Name: at.Dev})
				if err != nil {
					return err
				}
				r, seen := askNeighbour(&netstate.Neighbour{Place: netstate.Host, Dev: at.Dev, Addr: ip}, d.index)
				given := r.reply
				r.accept = isMissing
				r.reply = func(kind uint16, body []byte) {
					given(kind, body)
					if seen.mac != l.MAC {
						c.strange = append(c.strange, ip)
					}
				}
				*b = append(*b, r)
			}
		}
		return nil
	})
}

// isStrange reports whether the host knows an address of l as another's.
func (c *change) isStrange(l *netstate.Link) bool {
	return slices.ContainsFunc(c.state.Addrs, func(a netstate.Addr) bool {
		return a.Place == netstate.Pod && a.Dev == l.Name && slices.Contains(c.strange, a.Prefix.Addr())
	})
}

// forgetNeighbours makes the host forget the hardware addresses of a pod's addresses, on the links by whose subnets it reaches them. on gives
// a link by name, or nil. What a bridge knows of them goes with the port.
func (r *removal) forgetNeighbours(on func(dev string) *device) batch {
	var b batch
	addrs, _ := byOwner(r.state.Flows)
	for _, ip := range addrs {
		for _, a := range r.state.Addrs {
			if a.Place != netstate.Host || !a.Prefix.Contains(ip) {
				continue
			}
			if d := on(a.Dev); d != nil {
				b = append(b, deleteNeighbour(&netstate.Neighbour{Place: netstate.Host, Dev: a.Dev, Addr: ip}, d.index))
			}
		}
	}
	return b
}

// byOwner separates the flows that are all of an address, and returns those addresses.
func byOwner(flows []netstate.Flow) (addrs []netip.Addr, rest []netstate.Flow) {
	for _, f := range flows {
		if f.Protocol == "" {
			addrs = append(addrs, f.Addr)
		} else {
			rest = append(rest, f)
		}
	}
	return addrs, rest
}

// forgetOwner makes the host's connection tracking forget the connections from and to addresses, so that nobody's packets come to
// who has one next by what the last owner had begun. search: also where that means a look at every entry of the
// machine: before Linux 6.11, and for IPv6, whose filter by address, up to 6.18 at least, is the wrong way round. That it
// can't is a warning in the log.
func (k *Kernel) forgetOwner(ctx context.Context, addrs []netip.Addr, search bool) {
	if len(addrs) == 0 {
		return
	}
	r, err := k.ruleset()
	if err == nil {
		err = r.forgetOwner(ctx, addrs, search)
	}
	if err != nil {
		k.log.WarnContext(ctx, "old connections are still known", "error", err)
	}
}

func (r *ruleset) forgetOwner(ctx context.Context, addrs []netip.Addr, search bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.conn.forgetOwner(ctx, addrs, search)
}

func (c *filterConn) forgetOwner(ctx context.Context, addrs []netip.Addr, search bool) error {
	var errs []error
	left := addrs[:0:0]
	for _, a := range addrs {
		err := error(unix.EOPNOTSUPP)
		if a.Is4() {
			err = c.flush(ctx, a)
		}
		switch {
		case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.EINVAL):
			left = append(left, a)
		case err != nil:
			errs = append(errs, fmt.Errorf("forget connections of %s: %w", a, err))
		}
	}
	if search {
		errs = append(errs, c.searchOwner(ctx, false, left), c.searchOwner(ctx, true, left))
	}
	return errors.Join(errs...)
}

// flush has the kernel delete what comes from an IPv4 address, and what it answers. A kernel that doesn't know the filter takes the
// message for one about a single entry, which it refuses as incomplete.
func (c *filterConn) flush(ctx context.Context, a netip.Addr) error {
	var msgs []filterMessage
	for _, by := range []struct{ tuple, filter uint16 }{{ctTupleOrig, ctFilterOrig}, {ctTupleReply, ctFilterReply}} {
		ae := newAttrs()
		ae.Nested(by.tuple, func(ae *netlink.AttributeEncoder) error {
			ae.Nested(ctTupleIP, func(ae *netlink.AttributeEncoder) error {
				ae.Bytes(ctIPv4Src, a.AsSlice())
				return nil
			})
			return nil
		})
		ae.Nested(ctFilter, func(ae *netlink.AttributeEncoder) error {
			ae.Bytes(by.filter, binary.NativeEndian.AppendUint32(nil, ctFilterIPSrc))
			return nil
		})
		attrs, err := ae.Encode()
		if err != nil {
			return err
		}
		msgs = append(msgs, filterMessage{kind: ctMessageDelete, family: unix.AF_INET, flags: netlink.Acknowledge, attrs: attrs, what: "delete entries"})
	}
	results, err := c.ask(ctx, msgs, func(int, []byte) error { return nil })
	return errors.Join(append(results, err)...)
}

// searchOwner looks for the entries of addresses of a family among all, and deletes them.
func (c *filterConn) searchOwner(ctx context.Context, v6 bool, addrs []netip.Addr) error {
	family := flowGroup{ipv6: v6}.family()
	wanted := map[netip.Addr]bool{}
	for _, a := range addrs {
		if a.Is6() == v6 {
			wanted[a] = true
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	m := filterMessage{kind: ctMessageGet, family: family, flags: netlink.Dump, what: "list connection tracking entries"}
	entries, err := c.list(ctx, m, func(e trackedFlow) bool { return wanted[e.src] || wanted[e.answers] })
	if err == nil {
		err = c.forgetTracked(ctx, family, entries)
	}
	if err != nil {
		return fmt.Errorf("forget connections: %w", err)
	}
	return nil
}

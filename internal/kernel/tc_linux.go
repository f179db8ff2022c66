package kernel

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"

	"golang.org/x/sys/unix"

	"github.com/cleat-cni/cleat/netstate"
)

// Numbers of linux/pkt_sched.h, pkt_cls.h and tc_act/tc_mirred.h.
const (
	tcRoot          = 0xffffffff // TC_H_ROOT
	tcIngress       = 0xfffffff1 // TC_H_INGRESS
	tcIngressHandle = 0xffff0000

	sizeofTcMsg    = 20
	sizeofTbfQopt  = 36
	sizeofU32Sel   = 16
	sizeofU32Key   = 16
	sizeofMirred   = 28
	tbfParms       = 1
	tbfRate64      = 4
	tbfBurst       = 6
	linkEthernet   = 1  // TC_LINKLAYER_ETHERNET
	psTick         = 64 // nanoseconds of a scheduler tick
	u32Sel         = 5
	u32Act         = 7
	u32Terminal    = 1
	actKind        = 1
	actOptions     = 2
	mirredParms    = 2
	actStolen      = 4
	egressRedirect = 1
	filterPriority = 1
)

// addTraffic adds qdiscs and filters of one place.
func (c *change) addTraffic(ctx context.Context, b *batch, p netstate.Place) error {
	for i := range c.state.Qdiscs {
		q := &c.state.Qdiscs[i]
		if q.Place != p {
			continue
		}
		d, err := c.device(ctx, netstate.Ref{Place: p, Name: q.Dev})
		if err != nil {
			return about(q, err)
		}
		m, err := qdiscMessage(q, d.index)
		if err != nil {
			return about(q, err)
		}
		r := &request{kind: unix.RTM_NEWQDISC, flags: unix.NLM_F_CREATE | unix.NLM_F_EXCL, body: m, object: q}
		if !d.made {
			r.undo = c.s.reverse(p, deleteQdisc(q, d.index))
		}
		*b = append(*b, r)
	}
	for i := range c.state.Filters {
		f := &c.state.Filters[i]
		if f.Place != p {
			continue
		}
		d, to, err := c.filterEnds(ctx, f)
		if err != nil {
			return err
		}
		r := &request{kind: unix.RTM_NEWTFILTER, flags: unix.NLM_F_CREATE | unix.NLM_F_EXCL,
			body: redirectMessage(d.index, to.index), object: f}
		if !d.made {
			r.undo = c.s.reverse(p, deleteFilter(f, d.index))
		}
		*b = append(*b, r)
	}
	return nil
}

func (w *work) filterEnds(ctx context.Context, f *netstate.Filter) (dev, to *device, err error) {
	if dev, err = w.device(ctx, netstate.Ref{Place: f.Place, Name: f.Dev}); err == nil {
		to, err = w.device(ctx, netstate.Ref{Place: f.Place, Name: f.To})
	}
	if err != nil {
		return nil, nil, about(f, err)
	}
	return dev, to, nil
}

// qdiscPlace is where a qdisc hangs and its handle, with the defaults of its kind.
func qdiscPlace(q *netstate.Qdisc) (parent, handle uint32) {
	parent, handle = q.Parent, q.Handle
	if q.Kind == kindIngress {
		return tcIngress, tcIngressHandle
	}
	if parent == 0 {
		parent = tcRoot
	}
	return parent, handle
}

func tcMessage(index int32, handle, parent, info uint32) message {
	m := newMessage(sizeofTcMsg)
	h := m.family()
	native.PutUint32(h[4:], uint32(index))
	native.PutUint32(h[8:], handle)
	native.PutUint32(h[12:], parent)
	native.PutUint32(h[16:], info)
	return m
}

func qdiscMessage(q *netstate.Qdisc, index int32) (message, error) {
	parent, handle := qdiscPlace(q)
	m := tcMessage(index, handle, parent, 0)
	m.text(unix.TCA_KIND, q.Kind)
	switch q.Kind {
	case kindIngress:
	case kindTBF:
		m.nest(unix.TCA_OPTIONS, func() {
			// struct tc_tbf_qopt: rate, peak rate, limit, buffer, mtu. Rate and burst count by the attributes beside it.
			parms := make([]byte, sizeofTbfQopt)
			parms[1] = linkEthernet
			native.PutUint32(parms[8:], uint32(min(q.Rate, 1<<32-1)))
			native.PutUint32(parms[24:], q.Limit)
			m.bytes(tbfParms, parms)
			m.u32(tbfBurst, q.Burst)
			if q.Rate >= 1<<32-1 {
				m.u64(tbfRate64, q.Rate)
			}
		})
	default:
		return nil, fmt.Errorf("kind %s: %w", q.Kind, netstate.ErrUnsupported)
	}
	return m, nil
}

// deleteQdisc removes a qdisc of this kind and place; another one that hangs there is not ours, and then the kernel
// says EINVAL.
func deleteQdisc(q *netstate.Qdisc, index int32) *request {
	parent, handle := qdiscPlace(q)
	m := tcMessage(index, handle, parent, 0)
	m.text(unix.TCA_KIND, q.Kind)
	return &request{kind: unix.RTM_DELQDISC, body: m, object: q, step: "remove",
		accept: acceptOnly(unix.ENODEV, unix.ENOENT, unix.EINVAL)}
}

// filterInfo is the priority and the protocol, ETH_P_ALL in network byte order, of our filter.
func filterInfo() uint32 {
	return filterPriority<<16 | uint32(native.Uint16(binary.BigEndian.AppendUint16(nil, unix.ETH_P_ALL)))
}

// redirectMessage is a u32 filter that matches everything and redirects it.
func redirectMessage(index, to int32) message {
	m := tcMessage(index, 0, tcIngressHandle, filterInfo())
	m.text(unix.TCA_KIND, "u32")
	m.nest(unix.TCA_OPTIONS, func() {
		// struct tc_u32_sel with one key, whose mask is zero.
		sel := make([]byte, sizeofU32Sel+sizeofU32Key)
		sel[0], sel[2] = u32Terminal, 1
		m.bytes(u32Sel, sel)
		m.nest(u32Act, func() {
			m.nest(1, func() {
				m.text(actKind, "mirred")
				m.nest(actOptions, func() {
					// struct tc_mirred: index, capab, action, refcnt, bindcnt, eaction, ifindex.
					p := make([]byte, sizeofMirred)
					native.PutUint32(p[8:], actStolen)
					native.PutUint32(p[20:], egressRedirect)
					native.PutUint32(p[24:], uint32(to))
					m.bytes(mirredParms, p)
				})
			})
		})
	})
	return m
}

func deleteFilter(f *netstate.Filter, index int32) *request {
	m := tcMessage(index, 0, tcIngressHandle, filterInfo())
	m.text(unix.TCA_KIND, "u32")
	return &request{kind: unix.RTM_DELTFILTER, body: m, object: f, step: "remove",
		accept: acceptOnly(unix.ENODEV, unix.ENOENT, unix.EINVAL)}
}

// qdiscs lists the qdiscs of a link.
func (c *conn) qdiscs(ctx context.Context, d *device) ([]seenQdisc, error) {
	var list []seenQdisc
	err := c.dump(ctx, unix.RTM_GETQDISC, tcMessage(d.index, 0, 0, 0), func(_ uint16, b []byte) {
		if len(b) >= sizeofTcMsg && int32(native.Uint32(b[4:])) == d.index {
			list = append(list, parseQdisc(d, b))
		}
	})
	if err != nil && !errors.Is(err, unix.ENODEV) {
		return nil, about(d.key(), fmt.Errorf("list qdiscs: %w", err))
	}
	return list, nil
}

// seenQdisc is a qdisc as the kernel tells of it.
type seenQdisc struct {
	netstate.Qdisc
	// ticks is a tbf's burst as the time that it takes at the rate; the kernel tells the low 32 bits of it.
	ticks uint32
}

func parseQdisc(d *device, b []byte) seenQdisc {
	q := seenQdisc{Qdisc: netstate.Qdisc{Place: d.place, Dev: d.name, Handle: native.Uint32(b[8:]), Parent: native.Uint32(b[12:])}}
	for kind, v := range attributes(b[sizeofTcMsg:]) {
		switch kind {
		case unix.TCA_KIND:
			q.Kind = str(v)
		case unix.TCA_OPTIONS:
			if q.Kind == kindTBF {
				q.parseTBF(v)
			}
		}
	}
	return q
}

func (q *seenQdisc) parseTBF(b []byte) {
	for kind, v := range attributes(b) {
		switch {
		case kind == tbfParms && len(v) >= sizeofTbfQopt:
			if q.Rate == 0 {
				q.Rate = uint64(native.Uint32(v[8:]))
			}
			q.Limit = native.Uint32(v[24:])
			q.ticks = native.Uint32(v[28:])
		case kind == tbfRate64:
			q.Rate = number64(v)
		}
	}
	q.Burst = uint32(float64(q.ticks) * psTick / 1e9 * float64(q.Rate))
}

// sameBurst compares bursts as the kernel keeps them, at the same rate: as a number of ticks. Its arithmetic is good to
// some 30 bits.
func sameBurst(want netstate.Qdisc, have seenQdisc) bool {
	hi, lo := bits.Mul64(uint64(want.Burst), 1e9/psTick)
	if hi >= want.Rate {
		return false // tbf needs a rate
	}
	ticks, _ := bits.Div64(hi, lo, want.Rate)
	diff := int64(int32(uint32(ticks) - have.ticks))
	off := int64(2 + ticks>>28)
	return -off <= diff && diff <= off
}

// redirects lists the indexes of the links that filters below the ingress qdisc of d redirect to.
func (c *conn) redirects(ctx context.Context, d *device) ([]int32, error) {
	var list []int32
	err := c.dump(ctx, unix.RTM_GETTFILTER, tcMessage(d.index, 0, tcIngressHandle, 0), func(_ uint16, b []byte) {
		if to, ok := parseRedirect(after(b, sizeofTcMsg)); ok {
			list = append(list, to)
		}
	})
	// Without an ingress qdisc there are none.
	if err != nil && !errors.Is(err, unix.ENODEV) && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return nil, about(d.key(), fmt.Errorf("list filters: %w", err))
	}
	return list, nil
}

// parseRedirect finds the target of a mirred action in a u32 filter's attributes.
func parseRedirect(b []byte) (int32, bool) {
	for kind, v := range attributes(b) {
		if kind != unix.TCA_OPTIONS {
			continue
		}
		for kind, v := range attributes(v) {
			if kind != u32Act {
				continue
			}
			for _, action := range attributes(v) {
				if to, ok := parseMirred(action); ok {
					return to, true
				}
			}
		}
	}
	return 0, false
}

func parseMirred(b []byte) (int32, bool) {
	for kind, v := range attributes(b) {
		if kind != actOptions {
			continue
		}
		for kind, v := range attributes(v) {
			if kind == mirredParms && len(v) >= sizeofMirred {
				return int32(native.Uint32(v[24:])), true
			}
		}
	}
	return 0, false
}

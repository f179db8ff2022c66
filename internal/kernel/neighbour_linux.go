package kernel

import (
	"context"
	"errors"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/cleat-cni/cleat/netstate"
)

// addNeighbours adds the permanent neighbours of one place.
func (c *change) addNeighbours(ctx context.Context, b *batch, p netstate.Place) error {
	for i := range c.state.Neighbours {
		n := &c.state.Neighbours[i]
		if n.Place != p {
			continue
		}
		d, err := c.device(ctx, netstate.Ref{Place: p, Name: n.Dev})
		if err != nil {
			return about(n, err)
		}
		m, err := permanentNeighbour(n, d.index)
		if err != nil {
			return about(n, err)
		}
		flags := uint16(unix.NLM_F_CREATE | unix.NLM_F_EXCL)
		if !d.made {
			// What the kernel learned by itself is replaced; what somebody set is not.
			seen, err := c.neighbour(ctx, n, d.index)
			if err != nil {
				return err
			}
			if seen != nil && !seen.permanent {
				flags = unix.NLM_F_CREATE | unix.NLM_F_REPLACE
			}
		}
		r := &request{kind: unix.RTM_NEWNEIGH, flags: flags, body: m, object: n}
		if !d.made {
			r.undo = c.s.reverse(p, deleteNeighbour(n, d.index))
		}
		*b = append(*b, r)
	}
	return nil
}

func deleteNeighbour(n *netstate.Neighbour, index int32) *request {
	return &request{kind: unix.RTM_DELNEIGH, body: neighbourMessage(index, n.Addr.Unmap(), 0), object: n, step: "remove", accept: isMissing}
}

// ndmFlags is the offset of ndm_flags in struct ndmsg.
const ndmFlags = 10

// neighbourMessage starts a message about a neighbour: struct ndmsg and its address.
func neighbourMessage(index int32, addr netip.Addr, state uint16) message {
	m := newMessage(unix.SizeofNdMsg)
	h := m.family()
	h[0] = family(addr)
	native.PutUint32(h[4:], uint32(index))
	native.PutUint16(h[8:], state)
	m.bytes(unix.NDA_DST, addr.AsSlice())
	return m
}

// permanentNeighbour is the message that sets n.
func permanentNeighbour(n *netstate.Neighbour, index int32) (message, error) {
	hw, err := hardwareAddr(n.MAC)
	if err != nil {
		return nil, err
	}
	m := neighbourMessage(index, n.Addr.Unmap(), unix.NUD_PERMANENT)
	m.bytes(unix.NDA_LLADDR, hw)
	return m, nil
}

// seenNeighbour is a neighbour entry of the kernel.
type seenNeighbour struct {
	mac       string
	permanent bool
}

func (w *work) neighbour(ctx context.Context, n *netstate.Neighbour, index int32) (*seenNeighbour, error) {
	c, err := w.conn(n.Place)
	if err != nil {
		return nil, err
	}
	return c.neighbour(ctx, n, index)
}

// neighbour asks for one entry (Linux 5.0); nil if there is none.
func (c *conn) neighbour(ctx context.Context, n *netstate.Neighbour, index int32) (*seenNeighbour, error) {
	r, seen := askNeighbour(n, index)
	err := c.run1(ctx, r)
	if errors.Is(err, unix.ENOENT) {
		return nil, nil
	}
	return seen, err
}

// askNeighbour asks for one entry (Linux 5.0); the reply is written to seen.
func askNeighbour(n *netstate.Neighbour, index int32) (r *request, seen *seenNeighbour) {
	seen = &seenNeighbour{}
	r = &request{kind: unix.RTM_GETNEIGH, body: neighbourMessage(index, n.Addr.Unmap(), 0), object: n, step: "look up",
		reply: func(_ uint16, b []byte) {
			if len(b) < unix.SizeofNdMsg {
				return
			}
			seen.permanent = native.Uint16(b[8:])&unix.NUD_PERMANENT != 0
			for kind, v := range attributes(b[unix.SizeofNdMsg:]) {
				if kind == unix.NDA_LLADDR {
					seen.mac = net.HardwareAddr(v).String()
				}
			}
		}}
	return r, seen
}

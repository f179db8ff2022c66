package kernel

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/cleat-cni/cleat/netstate"
)

// makeVeth makes both ends of a veth at once, each in its place and under its final name, or finds a
// shared pair.
func (c *change) makeVeth(ctx context.Context, a, b *netstate.Link) error {
	// The message goes to the host where one end is there, and only its own end can be a port at once.
	if a.Place == netstate.Pod && b.Place == netstate.Host || a.Place == b.Place && a.Master == "" && b.Master != "" {
		a, b = b, a
	}
	if a.Shared {
		if found, err := c.findSharedPair(ctx, a, b); err != nil || found {
			return err
		}
	}
	err := c.createVeth(ctx, a, b)
	if !errors.Is(err, unix.EEXIST) {
		return err
	}
	if a.Shared {
		if found, err := c.findSharedPair(ctx, a, b); err != nil || found {
			return err
		}
		return makeError(a, err)
	}
	again, err := c.explainExist(ctx, a, b)
	if err != nil || !again {
		return err
	}
	if err = c.createVeth(ctx, a, b); errors.Is(err, unix.EEXIST) {
		return makeError(a, err)
	}
	return err
}

// findPeer returns the link of the state that is the other end of the veth l: the one that l names, or that
// names l.
func findPeer(links []netstate.Link, l *netstate.Link) *netstate.Link {
	for i := range links {
		o := &links[i]
		if o.Kind != kindVeth || o.Ref() == l.Ref() {
			continue
		}
		if l.Peer != "" && l.PeerRef() == o.Ref() || o.Peer != "" && o.PeerRef() == l.Ref() {
			return o
		}
	}
	return nil
}

// createVeth makes the pair. An end that exists is the kernel's EEXIST.
func (c *change) createVeth(ctx context.Context, a, b *netstate.Link) error {
	m := linkMessage(0, 0, 0)
	if err := putEnd(&m, a, b); err != nil {
		return err
	}
	if err := c.putMaster(ctx, &m, a); err != nil {
		return err
	}
	c.putUnfinished(&m, a)
	var err error
	m.nest(unix.IFLA_LINKINFO, func() {
		m.text(unix.IFLA_INFO_KIND, kindVeth)
		m.nest(unix.IFLA_INFO_DATA, func() {
			m.nest(vethInfoPeer, func() { err = c.putPeer(&m, a, b) })
		})
	})
	if err != nil {
		return err
	}
	d, err := c.create(ctx, a, m)
	if errors.Is(err, unix.EEXIST) {
		return err
	}
	if err != nil {
		return makeError(a, err)
	}
	c.became(a, d)
	c.devices[b.Ref()] = &device{place: b.Place, name: b.Name, index: d.peer, kind: kindVeth, peer: d.index, txQLen: max(b.TxQLen, 0), made: true}
	if d.peer == 0 {
		return about(a, fmt.Errorf("the kernel does not say which link is its peer: %w", netstate.ErrUnsupported))
	}
	return nil
}

// putEnd adds name, MTU, queues and MAC of an end. The MAC is always chosen here: one that the kernel chose counts as random,
// and udev replaces it. Left to itself the kernel (Linux 5.14) makes a queue for each processor that there might be, with its files in
// /sys, and takes all but the first out of use again, which on a large machine takes longer than all the rest.
func putEnd(m *message, l, other *netstate.Link) error {
	m.text(unix.IFLA_IFNAME, l.Name)
	mtu := l.MTU
	if mtu == 0 {
		mtu = other.MTU
	}
	if mtu != 0 {
		m.u32(unix.IFLA_MTU, uint32(mtu))
	}
	m.u32(unix.IFLA_NUM_TX_QUEUES, 1)
	m.u32(unix.IFLA_NUM_RX_QUEUES, 1)
	if l.TxQLen != 0 {
		m.u32(unix.IFLA_TXQLEN, uint32(max(l.TxQLen, 0)))
	}
	if err := putMAC(m, l.MAC, true); err != nil {
		return about(l, err)
	}
	return nil
}

// putPeer adds the description of b, as struct ifinfomsg and attributes, for the message that makes a.
func (c *change) putPeer(m *message, a, b *netstate.Link) error {
	header := make([]byte, unix.SizeofIfInfomsg)
	m.raw(header)
	if err := putEnd(m, b, a); err != nil {
		return err
	}
	if a.Place == b.Place {
		return nil
	}
	sp, err := c.s.space(b.Place)
	if err != nil {
		return about(b, err)
	}
	m.u32(unix.IFLA_NET_NS_FD, uint32(sp.ns.FD()))
	return nil
}

// findSharedPair looks for both ends. One without the other, or of another kind, is netstate.ErrExist.
func (c *change) findSharedPair(ctx context.Context, a, b *netstate.Link) (bool, error) {
	foundA, err := c.findShared(ctx, a)
	if err != nil {
		return false, err
	}
	foundB, err := c.findShared(ctx, b)
	switch {
	case err != nil:
		return false, err
	case foundA != foundB:
		lone := a
		if foundB {
			lone = b
		}
		return false, about(lone, fmt.Errorf("%w without its peer", netstate.ErrExist))
	}
	return foundA, nil
}

// explainExist says which end exists. It reports true when that was the host's end of a dead attempt of this owner,
// which it has removed: one with the owner's mark whose other end is not in this pod.
func (c *change) explainExist(ctx context.Context, a, b *netstate.Link) (bool, error) {
	if _, err := c.lookup(ctx, b.Ref()); err == nil {
		return false, about(b, netstate.ErrExist)
	} else if !errors.Is(err, netstate.ErrNotExist) {
		return false, err
	}
	d, err := c.lookup(ctx, a.Ref())
	if errors.Is(err, netstate.ErrNotExist) {
		return true, nil // it went while we asked
	}
	if err != nil {
		return false, err
	}
	exists := about(a, netstate.ErrExist)
	if a.Place != netstate.Host || b.Place != netstate.Pod || d.kind != kindVeth || !ours(d, c.state.Owner) {
		return false, exists
	}
	if err := c.s.k.known(d); err != nil {
		return false, err
	}
	inPod, err := c.peerInPod(ctx, d)
	if err != nil {
		return false, err
	}
	if inPod {
		return false, exists
	}
	c.s.k.log.Info("replacing the link of a dead attempt", "link", d.name, "owner", c.state.Owner.String())
	delete(c.devices, a.Ref())
	return true, c.s.k.host.deleteLinks(ctx, d)
}

// isOtherEnd reports whether d, which has the name of a pod's veth, is the other end of the host's link that want names. A pod can put
// another interface of the name in its place.
func (c *comparison) isOtherEnd(ctx context.Context, want netstate.Link, d *device) (bool, error) {
	if want.Kind != kindVeth || want.Place != netstate.Pod || want.Peer == "" || want.PeerRef().Place != netstate.Host || c.s.pod == c.s.k.host {
		return true, nil
	}
	host, err := c.find(ctx, want.PeerRef())
	if err != nil || host == nil || host.peer != d.index || d.peer != host.index {
		return false, err
	}
	return c.peerInPod(ctx, host)
}

// peerInPod reports whether the other end of a host's link is in the session's pod.
func (w *work) peerInPod(ctx context.Context, d *device) (bool, error) {
	conn, err := w.conn(netstate.Host)
	if err != nil {
		return false, err
	}
	sp, err := w.s.space(netstate.Pod)
	if err != nil {
		return false, err
	}
	const (
		sizeofRtgenmsg = 4
		notAssigned    = -1
	)
	m := newMessage(sizeofRtgenmsg)
	m.u32(unix.NETNSA_FD, uint32(sp.ns.FD()))
	id := int32(notAssigned)
	err = conn.run1(ctx, &request{kind: unix.RTM_GETNSID, body: m, object: d.key(), step: "look for its peer",
		reply: func(_ uint16, b []byte) {
			for kind, v := range attributes(after(b, sizeofRtgenmsg)) {
				if kind == unix.NETNSA_NSID {
					id = int32(number(v))
				}
			}
		}})
	return id != notAssigned && id == d.peerNS, err
}

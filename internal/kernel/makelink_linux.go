package kernel

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/cleat-cni/cleat/netstate"
)

// makeLinks makes the links of the state, all down, and finds those that are there. Devices that
// Observe saw may have gone since: if the kernel refuses, all is taken back and done once more without trust.
func (c *change) makeLinks(ctx context.Context) error {
	err := c.tryLinks(ctx)
	if err == nil || !c.trusted || errors.Is(err, netstate.ErrExist) || ctx.Err() != nil {
		return err
	}
	if again := c.undo.rollback(ctx, nil); again != nil {
		return errors.Join(err, again)
	}
	clear(c.s.seen)
	clear(c.devices)
	c.trusted = false
	return c.tryLinks(ctx)
}

func (c *change) tryLinks(ctx context.Context) error {
	done := map[netstate.Ref]bool{}
	for i := range c.state.Links {
		l := &c.state.Links[i]
		if done[l.Ref()] {
			continue
		}
		done[l.Ref()] = true
		var err error
		switch l.Kind {
		case "":
			_, err = c.device(ctx, l.Ref())
		case kindVeth:
			other := c.otherEnd(l)
			done[other.Ref()] = true
			err = c.makeVeth(ctx, l, other)
		case kindBridge, kindIFB, kindDummy:
			err = c.makeSimple(ctx, l)
		default:
			err = about(l, fmt.Errorf("kind %s: %w", l.Kind, netstate.ErrUnsupported))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// otherEnd is like findPeer, but makes up an end that l names and the state does not describe.
func (c *change) otherEnd(l *netstate.Link) *netstate.Link {
	if o := findPeer(c.state.Links, l); o != nil {
		return o
	}
	ref := l.PeerRef()
	return &netstate.Link{Place: ref.Place, Name: ref.Name, Kind: kindVeth, MTU: l.MTU, Shared: l.Shared}
}

// makeSimple makes a link whose kind needs no more than a name, or finds a shared one.
func (c *change) makeSimple(ctx context.Context, l *netstate.Link) error {
	if l.Shared {
		if found, err := c.findShared(ctx, l); err != nil || found {
			return err
		}
	}
	m := linkMessage(0, 0, 0)
	m.text(unix.IFLA_IFNAME, l.Name)
	switch {
	case l.MTU != 0 && l.Kind == kindBridge:
		m.u32(unix.IFLA_MTU, uint32(unsettledMTU(l.MTU)))
	case l.MTU != 0:
		m.u32(unix.IFLA_MTU, uint32(l.MTU))
	}
	// A bridge with an address of its own choice takes that of its lowest port, and changes it as ports
	// come and go.
	if err := putMAC(&m, l.MAC, l.Kind == kindBridge); err != nil {
		return about(l, err)
	}
	if err := c.putMaster(ctx, &m, l); err != nil {
		return err
	}
	c.putUnfinished(&m, l)
	m.nest(unix.IFLA_LINKINFO, func() {
		m.text(unix.IFLA_INFO_KIND, l.Kind)
		if l.Bridge.VLANFiltering {
			m.nest(unix.IFLA_INFO_DATA, func() { m.u8(unix.IFLA_BR_VLAN_FILTERING, 1) })
		}
	})
	d, err := c.create(ctx, l, m)
	if l.Shared && errors.Is(err, unix.EEXIST) {
		// Somebody else made it since we looked.
		_, err = c.findShared(ctx, l)
		return err
	}
	if err != nil {
		return makeError(l, err)
	}
	c.became(l, d)
	return c.pinMTU(ctx, l, d)
}

// unsettledMTU is what a bridge is made with that is to have mtu: another, so that the change to mtu counts. One byte
// less, which nobody wants, tells others that it is in the making, whoever brings it up meanwhile.
func unsettledMTU(mtu int) int {
	const least = 68 // ETH_MIN_MTU
	if mtu <= least {
		return mtu + 1
	}
	return mtu - 1
}

// pinMTU gives a bridge that was made its MTU. One that was never set follows the smallest of the
// ports' (Linux 4.17), and neither the one that it is made with nor setting one that it has already counts.
func (c *change) pinMTU(ctx context.Context, l *netstate.Link, d *device) error {
	if l.Kind != kindBridge || l.MTU == 0 {
		return nil
	}
	conn, err := c.conn(l.Place)
	if err != nil {
		return err
	}
	m := linkMessage(d.index, 0, 0)
	m.u32(unix.IFLA_MTU, uint32(l.MTU))
	r := &request{kind: unix.RTM_NEWLINK, body: m, object: l, step: fmt.Sprintf("set mtu %d", l.MTU)}
	if err := conn.run1(ctx, r); err != nil {
		return err
	}
	d.mtu = l.MTU
	return nil
}

// became notes a link that was made. The kernel tells of it before it makes it a port.
func (c *change) became(l *netstate.Link, d *device) {
	if m := c.devices[netstate.Ref{Place: l.Place, Name: l.Master}]; m != nil {
		d.master = m.index
	}
	c.devices[l.Ref()] = d
}

// findShared looks for a shared link. One of another kind is netstate.ErrExist.
func (c *change) findShared(ctx context.Context, l *netstate.Link) (bool, error) {
	d, err := c.device(ctx, l.Ref())
	switch {
	case errors.Is(err, netstate.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	case d.kind != l.Kind:
		return false, about(l, fmt.Errorf("%w as a %s", netstate.ErrExist, kindName(d.kind)))
	}
	return true, nil
}

func kindName(kind string) string {
	if kind == "" {
		return "physical device"
	}
	return kind
}

// create sends the message that makes the link and returns it as the kernel echoes it (Linux 6.2), or as it
// answers when asked. The error is the kernel's own.
func (c *change) create(ctx context.Context, l *netstate.Link, m message) (*device, error) {
	conn, err := c.conn(l.Place)
	if err != nil {
		return nil, err
	}
	var d *device
	r := &request{kind: unix.RTM_NEWLINK, flags: unix.NLM_F_CREATE | unix.NLM_F_EXCL | unix.NLM_F_ECHO, body: m,
		reply: func(_ uint16, b []byte) { d = parseDevice(l.Place, b) }}
	err = conn.run(ctx, r)
	if err == nil {
		err = r.err
	}
	if err == nil && d == nil {
		d, err = conn.link(ctx, l.Ref())
	}
	if r.changed() && !l.Shared {
		made := d
		if made == nil {
			made = &device{place: l.Place, name: l.Name}
		}
		c.undo.add(c.s.deletion(made))
	}
	if err != nil {
		return nil, err
	}
	d.made = true
	return d, nil
}

// makeError says in words why a link could not be made.
func makeError(l *netstate.Link, err error) error {
	switch {
	case errors.Is(err, unix.EEXIST):
		return about(l, netstate.ErrExist)
	case errors.Is(err, unix.EOPNOTSUPP):
		return about(l, fmt.Errorf("make %s: %w: %w", l.Kind, netstate.ErrUnsupported, err))
	case l.Master != "":
		return about(l, fmt.Errorf("make %s with master %s: %w", l.Kind, l.Master, err))
	}
	return about(l, fmt.Errorf("make %s: %w", l.Kind, err))
}

func (c *change) putMaster(ctx context.Context, m *message, l *netstate.Link) error {
	if l.Master == "" {
		return nil
	}
	d, err := c.master(ctx, l)
	if err != nil {
		return err
	}
	m.u32(unix.IFLA_MASTER, uint32(d.index))
	return nil
}

func (c *change) master(ctx context.Context, l *netstate.Link) (*device, error) {
	d, err := c.device(ctx, netstate.Ref{Place: l.Place, Name: l.Master})
	if err != nil {
		return nil, about(l, fmt.Errorf("set master %s: %w", l.Master, err))
	}
	return d, nil
}

// putMAC adds a link's address, a random one if none is given and it must have one.
func putMAC(m *message, mac string, always bool) error {
	hw, err := hardwareAddr(mac)
	if err != nil {
		return err
	}
	if hw == nil && always {
		hw = randomMAC()
	}
	if hw != nil {
		m.bytes(unix.IFLA_ADDRESS, hw)
	}
	return nil
}

// hardwareAddr parses an address of six bytes; "" is nil.
func hardwareAddr(s string) (net.HardwareAddr, error) {
	if s == "" {
		return nil, nil
	}
	hw, err := net.ParseMAC(s)
	if err != nil || len(hw) != 6 {
		return nil, fmt.Errorf("mac %q is not six bytes in hex", s)
	}
	return hw, nil
}

// randomMAC returns a locally administered unicast address.
func randomMAC() net.HardwareAddr {
	hw := make(net.HardwareAddr, 6)
	rand.Read(hw) // never fails
	hw[0] = hw[0]&^1 | 2
	return hw
}

// putUnfinished puts a link on the host into the group of its network's unfinished ones until it gets its alias, which the
// message that makes it can't hold. An attempt that is killed in between leaves a link that GC knows by that.
func (c *change) putUnfinished(m *message, l *netstate.Link) {
	if l.Place == netstate.Host && !l.Shared && !c.state.Owner.IsZero() {
		m.u32(unix.IFLA_GROUP, unfinished(c.state.Owner.Network))
	}
}

// unfinished is the number of the group of a network's links in the making: its mark, far from the numbers that people choose.
func unfinished(network string) uint32 {
	n, _ := strconv.ParseUint(netstate.NetworkMark(network), 16, 32) // it is 8 hex digits
	return uint32(n) | 1<<31
}

// ours reports whether a link on the host belongs to the owner: by its alias, or, without one, because its name is the
// hash of the owner: then the attempt that made it was killed before it set the alias.
func ours(d *device, o netstate.Owner) bool {
	if o.IsZero() {
		return false
	}
	if d.alias == "" {
		return strings.HasSuffix(d.name, o.HostName(""))
	}
	mark, _, ok := netstate.ParseMark(d.alias)
	return ok && mark == o.Mark()
}

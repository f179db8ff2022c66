package kernel

import (
	"context"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/cleat-cni/cleat/netstate"
)

// change is one Apply under way.
type change struct {
	*work
	state netstate.State
	undo  journal
	// strange are addresses that the host knows as another's.
	strange []netip.Addr
}

// Apply makes s: links with both ends down, sysctls, addresses, the pod's ends up, its routes, all of nft in one
// transaction, what iptables and firewalld hold, and the host's ends up last, so that no packet passes before its rules. Shared objects
// may be there. Another object that is there is netstate.ErrExist, an nft element of a living owner
// netstate.ErrInUse, and it is left alone. On an error all that this call made is undone, and the error says what
// could not be.
//
// What is wrong with the state itself is told before anything is made.
//
// A link of kind "" is looked up and adjusted. The default for an address is that it is usable at once; with DAD
// Apply waits for the kernel's verdict, at most 5 s.
func (s *Session) Apply(ctx context.Context, st netstate.State) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if err := s.check(st); err != nil {
		return err
	}
	c := &change{work: s.begin(), state: st}
	defer c.end()
	if err := c.apply(ctx); err != nil {
		clear(s.seen)
		return c.undo.rollback(ctx, err)
	}
	return nil
}

func (c *change) apply(ctx context.Context) error {
	for _, step := range []func(context.Context) error{
		c.makeLinks,
		c.disableIPv6,
		func(ctx context.Context) error { return c.setSysctls(ctx, false) },
		func(ctx context.Context) error { return c.run(ctx, netstate.Host, c.prepareHost) },
		func(ctx context.Context) error { return c.run(ctx, netstate.Pod, c.preparePod) },
		c.applyRules,
		c.applyIptables,
		c.applySources,
		c.forgetOwner,
		func(ctx context.Context) error { return c.run(ctx, netstate.Host, c.openHost) },
		func(ctx context.Context) error { return c.run(ctx, netstate.Pod, c.announce) },
		func(ctx context.Context) error { return c.setSysctls(ctx, true) },
		c.waitDAD,
		c.forgetFlows,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// batch collects requests for one place.
type batch []*request

// run sends the requests that fill collects as one batch, and notes their undos. The error is the first request's
// that failed: those behind it mostly fail because of it.
func (c *change) run(ctx context.Context, p netstate.Place, fill func(context.Context, *batch) error) error {
	var b batch
	if err := fill(ctx, &b); err != nil || len(b) == 0 {
		return err
	}
	conn, err := c.conn(p)
	if err != nil {
		return err
	}
	err = conn.run(ctx, b...)
	for _, r := range b {
		if r.changed() {
			c.undo.add(r.undo)
		}
	}
	if err != nil {
		return err
	}
	for _, r := range b {
		if err := r.failure(); err != nil {
			return err
		}
	}
	return nil
}

// prepareHost: everything on the host but what opens the way to the pod.
func (c *change) prepareHost(ctx context.Context, b *batch) error {
	if err := c.askNeighbours(ctx, b); err != nil {
		return err
	}
	if err := c.addSettings(ctx, b, netstate.Host); err != nil {
		return err
	}
	if err := c.addAddrs(ctx, b, netstate.Host); err != nil {
		return err
	}
	for i := range c.state.Links {
		if l := &c.state.Links[i]; l.Place == netstate.Host && (l.Shared || l.Kind == "") {
			if err := c.addUp(ctx, b, l); err != nil {
				return err
			}
		}
	}
	return c.addTraffic(ctx, b, netstate.Host)
}

// preparePod: everything in the pod.
func (c *change) preparePod(ctx context.Context, b *batch) error {
	if err := c.addSettings(ctx, b, netstate.Pod); err != nil {
		return err
	}
	if err := c.addAddrs(ctx, b, netstate.Pod); err != nil {
		return err
	}
	for i := range c.state.Links {
		if l := &c.state.Links[i]; l.Place == netstate.Pod {
			if err := c.addUp(ctx, b, l); err != nil {
				return err
			}
		}
	}
	if err := c.addRoutes(ctx, b, netstate.Pod); err != nil {
		return err
	}
	return c.addTraffic(ctx, b, netstate.Pod)
}

// openHost brings up the host's ends, with their owner's name and their behaviour as ports, and adds the routes that need them.
func (c *change) openHost(ctx context.Context, b *batch) error {
	for i := range c.state.Links {
		if l := &c.state.Links[i]; l.Place == netstate.Host && !l.Shared && l.Kind != "" {
			if err := c.addOpen(ctx, b, l); err != nil {
				return err
			}
		}
	}
	if err := c.awaitCarrier(ctx, b); err != nil {
		return err
	}
	return c.addRoutes(ctx, b, netstate.Host)
}

// applyRules hands nft tables and elements to the other half, which opens its socket only now.
func (c *change) applyRules(ctx context.Context) error {
	if len(c.state.Tables)+len(c.state.Elements) == 0 {
		return nil
	}
	r, err := c.s.k.ruleset()
	if err != nil {
		return err
	}
	undo, err := r.apply(ctx, c.state, c.s.k.alive)
	c.undo.add(undo)
	return c.s.k.nftFailure(ctx, err)
}

// forgetFlows makes packets of known connections take the new way. It comes when the way is open.
func (c *change) forgetFlows(ctx context.Context) error {
	_, flows := byOwner(c.state.Flows)
	c.s.k.forgetFlows(ctx, flows)
	return nil
}

// forgetOwner makes the connections of whoever had the addresses before unknown, before the way is open.
func (c *change) forgetOwner(ctx context.Context) error {
	addrs, _ := byOwner(c.state.Flows)
	c.s.k.forgetOwner(ctx, addrs, false)
	return nil
}

// addSettings adds what is set before a link comes up.
func (c *change) addSettings(ctx context.Context, b *batch, p netstate.Place) error {
	for i := range c.state.Links {
		l := &c.state.Links[i]
		if l.Place != p {
			continue
		}
		d, err := c.device(ctx, l.Ref())
		if err != nil {
			return err
		}
		if l.Kind == "" || l.Shared && !d.made {
			if err := c.adjust(b, l, d); err != nil {
				return err
			}
		}
		if err := c.addMaster(ctx, b, l, d); err != nil {
			return err
		}
		c.addFamilies(b, l, d)
		if l.Promisc && !d.promisc {
			c.addSet(b, l, setting{step: "set promisc", body: linkMessage(d.index, unix.IFF_PROMISC, unix.IFF_PROMISC),
				back: linkMessage(d.index, 0, unix.IFF_PROMISC), foreign: !d.made && !l.Shared})
		}
		c.addModes(b, l, d)
		if l.Bridge.VLANFiltering && !d.made && !d.vlanFiltering {
			m := linkMessage(d.index, 0, 0)
			m.nest(unix.IFLA_LINKINFO, func() {
				m.text(unix.IFLA_INFO_KIND, kindBridge)
				m.nest(unix.IFLA_INFO_DATA, func() { m.u8(unix.IFLA_BR_VLAN_FILTERING, 1) })
			})
			*b = append(*b, &request{kind: unix.RTM_NEWLINK, body: m, object: l, step: "set vlan_filtering"})
		}
		addVLANs(b, l, d)
	}
	return nil
}

// setting is one change of a link by RTM_NEWLINK.
type setting struct {
	step       string
	body, back message
	foreign    bool // the link was there before and belongs to somebody: back undoes the change
}

func (c *change) addSet(b *batch, l *netstate.Link, s setting) {
	r := &request{kind: unix.RTM_NEWLINK, body: s.body, object: l, step: s.step}
	if s.foreign && s.back != nil {
		r.undo = c.s.reverse(l.Place, &request{kind: unix.RTM_NEWLINK, body: s.back, object: l, step: "set back: " + s.step})
	}
	*b = append(*b, r)
}

// addModes sets what a link takes and how much waits in it.
func (c *change) addModes(b *batch, l *netstate.Link, d *device) {
	foreign := !d.made && !l.Shared
	flag := func(step string, flag uint32, on bool) {
		s := setting{step: step, body: linkMessage(d.index, flag, flag), back: linkMessage(d.index, 0, flag), foreign: foreign}
		if !on {
			s.body, s.back = s.back, s.body
		}
		c.addSet(b, l, s)
	}
	if l.NoPromisc && d.promisc {
		flag("set promisc off", unix.IFF_PROMISC, false)
	}
	if l.AllMulti != "" && l.AllMulti != netstate.SwitchOf(d.allMulti) {
		flag("set allmulti "+string(l.AllMulti), unix.IFF_ALLMULTI, l.AllMulti == netstate.On)
	}
	if n := max(l.TxQLen, 0); l.TxQLen != 0 && n != d.txQLen {
		m, back := linkMessage(d.index, 0, 0), linkMessage(d.index, 0, 0)
		m.u32(unix.IFLA_TXQLEN, uint32(n))
		back.u32(unix.IFLA_TXQLEN, uint32(d.txQLen))
		c.addSet(b, l, setting{step: fmt.Sprintf("set txqlen %d", n), body: m, back: back, foreign: foreign})
	}
}

// adjust sets MTU and MAC of a link that was there.
func (c *change) adjust(b *batch, l *netstate.Link, d *device) error {
	if l.MTU != 0 && l.MTU != d.mtu {
		m, back := linkMessage(d.index, 0, 0), linkMessage(d.index, 0, 0)
		m.u32(unix.IFLA_MTU, uint32(l.MTU))
		back.u32(unix.IFLA_MTU, uint32(d.mtu))
		c.addSet(b, l, setting{step: fmt.Sprintf("set mtu %d", l.MTU), body: m, back: back, foreign: !l.Shared})
	}
	if l.MAC == "" || l.MAC == d.mac {
		return nil
	}
	m, back := linkMessage(d.index, 0, 0), linkMessage(d.index, 0, 0)
	if err := putMAC(&m, l.MAC, false); err != nil {
		return about(l, err)
	}
	if err := putMAC(&back, d.mac, false); err != nil {
		// Its hardware addresses are of another length: the kernel will refuse the new one.
		back = nil
	}
	c.addSet(b, l, setting{step: "set mac " + l.MAC, body: m, back: back, foreign: !l.Shared})
	return nil
}

// addMaster makes a link a port of its master, if making it did not.
func (c *change) addMaster(ctx context.Context, b *batch, l *netstate.Link, d *device) error {
	if l.Master == "" {
		return nil
	}
	master, err := c.master(ctx, l)
	if err != nil {
		return err
	}
	if d.master != master.index {
		m, back := linkMessage(d.index, 0, 0), linkMessage(d.index, 0, 0)
		m.u32(unix.IFLA_MASTER, uint32(master.index))
		back.u32(unix.IFLA_MASTER, uint32(d.master))
		c.addSet(b, l, setting{step: "set master " + l.Master, body: m, back: back, foreign: !d.made && !l.Shared})
	}
	// A link that is made on the host for an owner gets it when it comes up, in one message.
	late := l.Place == netstate.Host && l.Kind != "" && !l.Shared
	if !late && l.Port != d.port {
		m, back := linkMessage(d.index, 0, 0), linkMessage(d.index, 0, 0)
		putPort(&m, l.Port)
		putPort(&back, d.port)
		c.addSet(b, l, setting{step: "set its behaviour as a port", body: m, back: back, foreign: !d.made && !l.Shared})
	}
	return nil
}

// addFamilies sets what IPv4 and IPv6 keep for a link. The kernel applies these after the flags of one
// message, so what has to hold when a link comes up can't go with "up".
func (c *change) addFamilies(b *batch, l *netstate.Link, d *device) {
	if l.NoIPv6 && !d.noIPv6 { // where /proc can't be written to
		m := linkMessage(d.index, 0, 0)
		m.nest(unix.IFLA_AF_SPEC, func() {
			m.nest(unix.AF_INET6, func() { m.u8(unix.IFLA_INET6_ADDR_GEN_MODE, addrGenModeNone) })
		})
		// A kernel without IPv6, or with an MTU too small for it, gives no address either.
		*b = append(*b, &request{kind: unix.RTM_SETLINK, body: m, object: l, step: "turn off its IPv6 link-local address",
			accept: acceptOnly(unix.EAFNOSUPPORT, unix.EOPNOTSUPP)})
	}
	if l.ARPNotify && !d.arpNotify && d.up() == !l.Down {
		m := linkMessage(d.index, 0, 0)
		putARPNotify(&m)
		*b = append(*b, &request{kind: unix.RTM_SETLINK, body: m, object: l, step: "set arp_notify"})
	}
}

func putARPNotify(m *message) {
	m.nest(unix.IFLA_AF_SPEC, func() {
		m.nest(unix.AF_INET, func() {
			m.nest(unix.IFLA_INET_CONF, func() { m.u32(ipv4DevconfARPNotify, 1) })
		})
	})
}

// addUp brings a link up, or down if the state says so, unless it is so.
func (c *change) addUp(ctx context.Context, b *batch, l *netstate.Link) error {
	d, err := c.device(ctx, l.Ref())
	if err != nil || d.up() == !l.Down {
		return err
	}
	up, down := linkMessage(d.index, unix.IFF_UP, unix.IFF_UP), linkMessage(d.index, 0, unix.IFF_UP)
	if l.ARPNotify && !d.arpNotify {
		// It may go with "up": what speaks is [change.announce], since the way out is not open yet.
		putARPNotify(&up)
		putARPNotify(&down)
	}
	s := setting{step: "set up", body: up, back: down, foreign: !d.made && !l.Shared}
	if l.Down {
		s.step, s.body, s.back = "set down", down, up
	}
	c.addSet(b, l, s)
	return nil
}

// addOpen brings an end up that this call made, together with its owner's name and its behaviour as a port.
func (c *change) addOpen(ctx context.Context, b *batch, l *netstate.Link) error {
	d, err := c.device(ctx, l.Ref())
	if err != nil {
		return err
	}
	step, flags := "set up", uint32(unix.IFF_UP)
	if l.Down {
		step, flags = "set alias", 0
	}
	m := linkMessage(d.index, flags, flags)
	if !c.state.Owner.IsZero() {
		m.text(unix.IFLA_IFALIAS, c.state.Owner.CommentOf(c.s.k.schema, aliasSize))
		m.u32(unix.IFLA_GROUP, 0)
	}
	if l.Port != (netstate.Port{}) {
		putPort(&m, l.Port)
	}
	if l.ARPNotify && !l.Down {
		putARPNotify(&m)
	}
	*b = append(*b, &request{kind: unix.RTM_NEWLINK, body: m, object: l, step: step})
	return nil
}

// aliasSize is the longest alias, IFALIASZ without the zero byte.
const aliasSize = 255

func putPort(m *message, p netstate.Port) {
	m.nest(unix.IFLA_LINKINFO, func() {
		m.text(unix.IFLA_INFO_SLAVE_KIND, kindBridge)
		m.nest(unix.IFLA_INFO_SLAVE_DATA, func() {
			m.u8(unix.IFLA_BRPORT_MODE, flag(p.Hairpin))
			m.u8(unix.IFLA_BRPORT_ISOLATED, flag(p.Isolated))
		})
	})
}

func flag(on bool) uint8 {
	if on {
		return 1
	}
	return 0
}

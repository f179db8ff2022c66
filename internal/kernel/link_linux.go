package kernel

import (
	"context"
	"errors"
	"fmt"
	"net"

	"golang.org/x/sys/unix"

	"github.com/cleat-cni/cleat/netstate"
)

// Numbers of linux/if_link.h, if_bridge.h and rtnetlink.h that x/sys/unix lacks.
const (
	vethInfoPeer         = 1
	vrfTable             = 1 // IFLA_VRF_TABLE
	skipStats            = 8 // RTEXT_FILTER_SKIP_STATS
	vlanCompressed       = 4 // RTEXT_FILTER_BRVLAN_COMPRESSED
	addrGenModeNone      = 1
	ipv4DevconfARPNotify = 22
	inet6Conf            = 2  // IFLA_INET6_CONF
	ipv6ConfDisable      = 26 // DEVCONF_DISABLE_IPV6
	ipv6ConfAddrGenMode  = 47 // DEVCONF_ADDR_GEN_MODE
)

// The kinds of links and qdiscs that are made here.
const (
	kindVeth   = "veth"
	kindBridge = "bridge"
	kindIFB    = "ifb"
	kindDummy  = "dummy"
	kindVRF    = "vrf"

	kindTBF     = "tbf"
	kindIngress = "ingress"
)

// device is a link as the kernel describes it.
type device struct {
	place         netstate.Place
	index         int32
	name          string
	kind          string // "" for one without a driver's kind, as physical ones and lo
	mac           string
	mtu           int
	flags         uint32
	alias         string
	group         uint32
	master        int32
	peer          int32 // IFLA_LINK: index of the other end, or of the parent
	peerNS        int32 // the namespace's id that peer is in; -1 is this one
	port          netstate.Port
	promisc       bool
	allMulti      bool
	txQLen        int
	vlanFiltering bool
	table         int  // of a VRF
	hasIPv6       bool // IPv6 keeps something for it
	noIPv6        bool
	arpNotify     bool
	vlans         []netstate.VLAN

	addrs []netstate.Addr // if Observe asked for them
	// made is set if this call made the link.
	made bool
}

func (d *device) up() bool { return d.flags&unix.IFF_UP != 0 }

func (d *device) ref() netstate.Ref { return netstate.Ref{Place: d.place, Name: d.name} }

// key is the link as an object for errors.
func (d *device) key() netstate.Link { return netstate.Link{Place: d.place, Name: d.name} }

// link describes the device as netstate does, without the name of its master.
func (d *device) link() netstate.Link {
	return netstate.Link{
		Place: d.place, Name: d.name, Kind: d.kind, MAC: d.mac, MTU: d.mtu, Port: d.port, VLANs: d.vlans,
		Bridge: netstate.Bridge{VLANFiltering: d.vlanFiltering},
		NoIPv6: d.noIPv6, ARPNotify: d.arpNotify, Down: !d.up(), Promisc: d.promisc,
	}
}

// parseDevice reads the body of RTM_NEWLINK; nil if it is cut short or not of a link itself (a bridge tells of its
// ports in messages of its own family).
func parseDevice(place netstate.Place, b []byte) *device {
	if len(b) < unix.SizeofIfInfomsg || b[0] != unix.AF_UNSPEC {
		return nil
	}
	d := &device{place: place, index: int32(native.Uint32(b[4:])), flags: native.Uint32(b[8:]), peerNS: -1}
	for kind, v := range attributes(b[unix.SizeofIfInfomsg:]) {
		switch kind {
		case unix.IFLA_IFNAME:
			d.name = str(v)
		case unix.IFLA_ADDRESS:
			d.mac = net.HardwareAddr(v).String()
		case unix.IFLA_MTU:
			d.mtu = int(number(v))
		case unix.IFLA_IFALIAS:
			d.alias = str(v)
		case unix.IFLA_GROUP:
			d.group = number(v)
		case unix.IFLA_TXQLEN:
			d.txQLen = int(number(v))
		case unix.IFLA_MASTER:
			d.master = int32(number(v))
		case unix.IFLA_LINK:
			d.peer = int32(number(v))
		case unix.IFLA_LINK_NETNSID:
			d.peerNS = int32(number(v))
		case unix.IFLA_LINKINFO:
			d.parseInfo(v)
		case unix.IFLA_AF_SPEC:
			d.parseFamilies(v)
		}
	}
	d.promisc, d.allMulti = d.flags&unix.IFF_PROMISC != 0, d.flags&unix.IFF_ALLMULTI != 0
	return d
}

func (d *device) parseInfo(b []byte) {
	for kind, v := range attributes(b) {
		switch kind {
		case unix.IFLA_INFO_KIND:
			d.kind = str(v)
		case unix.IFLA_INFO_DATA:
			for kind, v := range attributes(v) {
				switch {
				case kind == unix.IFLA_BR_VLAN_FILTERING && d.kind == kindBridge:
					d.vlanFiltering = number(v) != 0
				case kind == vrfTable && d.kind == kindVRF:
					d.table = int(number(v))
				}
			}
		case unix.IFLA_INFO_SLAVE_DATA:
			for kind, v := range attributes(v) {
				switch kind {
				case unix.IFLA_BRPORT_MODE:
					d.port.Hairpin = number(v) != 0
				case unix.IFLA_BRPORT_ISOLATED:
					d.port.Isolated = number(v) != 0
				}
			}
		}
	}
}

// parseFamilies reads what IPv4 and IPv6 keep for a link.
func (d *device) parseFamilies(b []byte) {
	for family, v := range attributes(b) {
		d.hasIPv6 = d.hasIPv6 || family == unix.AF_INET6
		for kind, v := range attributes(v) {
			switch {
			case family == unix.AF_INET6 && kind == inet6Conf:
				// The attribute of the mode itself is left out together with the statistics.
				if at := ipv6ConfAddrGenMode * 4; len(v) >= at+4 {
					d.noIPv6 = native.Uint32(v[ipv6ConfDisable*4:]) != 0 || native.Uint32(v[at:]) == addrGenModeNone
				}
			case family == unix.AF_INET && kind == unix.IFLA_INET_CONF:
				// An array of 32-bit values; number n is the element n-1.
				if at := (ipv4DevconfARPNotify - 1) * 4; len(v) >= at+4 {
					d.arpNotify = native.Uint32(v[at:]) != 0
				}
			}
		}
	}
}

// link asks for a link by name. The error is netstate.ErrNotExist if there is none.
func (c *conn) link(ctx context.Context, ref netstate.Ref) (*device, error) {
	m := linkMessage(0, 0, 0)
	m.text(unix.IFLA_IFNAME, ref.Name)
	return c.getLink(ctx, ref, m)
}

// linkByIndex asks for a link by its index.
func (c *conn) linkByIndex(ctx context.Context, place netstate.Place, index int32) (*device, error) {
	ref := netstate.Ref{Place: place, Name: fmt.Sprintf("with index %d", index)}
	return c.getLink(ctx, ref, linkMessage(index, 0, 0))
}

func (c *conn) getLink(ctx context.Context, ref netstate.Ref, m message) (*device, error) {
	m.u32(unix.IFLA_EXT_MASK, skipStats)
	var d *device
	r := &request{kind: unix.RTM_GETLINK, body: m, object: netstate.Link{Place: ref.Place, Name: ref.Name},
		step:  "look up",
		reply: func(_ uint16, b []byte) { d = parseDevice(ref.Place, b) }}
	err := c.run1(ctx, r)
	if errors.Is(err, unix.ENODEV) || err == nil && d == nil {
		return nil, about(r.object, netstate.ErrNotExist)
	}
	return d, err
}

// links lists all links.
func (c *conn) links(ctx context.Context, place netstate.Place) ([]*device, error) {
	m := linkMessage(0, 0, 0)
	m.u32(unix.IFLA_EXT_MASK, skipStats)
	var list []*device
	err := c.dump(ctx, unix.RTM_GETLINK, m, func(_ uint16, b []byte) {
		if d := parseDevice(place, b); d != nil {
			list = append(list, d)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("list links of the %s: %w", place, err)
	}
	return list, nil
}

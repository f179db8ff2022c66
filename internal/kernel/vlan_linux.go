package kernel

import (
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/cleat-cni/cleat/netstate"
)

// Numbers of linux/if_bridge.h.
const (
	bridgeFlags     = 0 // IFLA_BRIDGE_FLAGS
	bridgeVLANInfo  = 2 // IFLA_BRIDGE_VLAN_INFO
	bridgeSelf      = 2 // BRIDGE_FLAGS_SELF
	vlanPVID        = 2
	vlanUntagged    = 4
	vlanRangeBegin  = 8
	vlanRangeEnd    = 16
	defaultPortVLAN = 1
)

// addVLANs puts a port, or the bridge itself, into its VLANs. A port that this call made leaves the one that every
// new port is in, unless the state names it.
func addVLANs(b *batch, l *netstate.Link, d *device) {
	if len(l.VLANs) == 0 {
		return
	}
	for _, v := range l.VLANs {
		*b = append(*b, &request{kind: unix.RTM_SETLINK, body: vlanMessage(l, d.index, v), object: l,
			step: fmt.Sprintf("add vlan %s", v)})
	}
	if d.made && l.Master != "" && !inVLAN(l.VLANs, defaultPortVLAN) {
		v := netstate.VLAN{From: defaultPortVLAN, To: defaultPortVLAN}
		*b = append(*b, &request{kind: unix.RTM_DELLINK, body: vlanMessage(l, d.index, v), object: l,
			step: fmt.Sprintf("leave vlan %s", v), accept: isMissing})
	}
}

func inVLAN(list []netstate.VLAN, id int) bool {
	return slices.ContainsFunc(list, func(v netstate.VLAN) bool { return v.From <= id && id <= v.To })
}

// vlanMessage names VLANs of a port to the bridge's own message family.
func vlanMessage(l *netstate.Link, index int32, v netstate.VLAN) message {
	m := linkMessage(index, 0, 0)
	m.family()[0] = unix.AF_BRIDGE
	m.nest(unix.IFLA_AF_SPEC, func() {
		if l.Kind == kindBridge {
			m.bytes(bridgeFlags, native.AppendUint16(nil, bridgeSelf))
		}
		var flags uint16
		if v.PVID {
			flags |= vlanPVID
		}
		if v.Untagged {
			flags |= vlanUntagged
		}
		if v.To <= v.From {
			m.bytes(bridgeVLANInfo, vlanInfo(flags, v.From))
			return
		}
		m.bytes(bridgeVLANInfo, vlanInfo(flags|vlanRangeBegin, v.From))
		m.bytes(bridgeVLANInfo, vlanInfo(flags|vlanRangeEnd, v.To))
	})
	return m
}

// vlanInfo is struct bridge_vlan_info.
func vlanInfo(flags uint16, id int) []byte {
	return native.AppendUint16(native.AppendUint16(nil, flags), uint16(id))
}

// parseVLANs reads the VLANs of a port from the body of an RTM_NEWLINK of family AF_BRIDGE.
func parseVLANs(b []byte) []netstate.VLAN {
	var list []netstate.VLAN
	for kind, v := range attributes(after(b, unix.SizeofIfInfomsg)) {
		if kind != unix.IFLA_AF_SPEC {
			continue
		}
		for kind, v := range attributes(v) {
			if kind != bridgeVLANInfo || len(v) < 4 {
				continue
			}
			flags, id := native.Uint16(v), int(native.Uint16(v[2:]))
			if flags&vlanRangeEnd != 0 && len(list) > 0 {
				list[len(list)-1].To = id
				continue
			}
			list = append(list, netstate.VLAN{From: id, To: id,
				PVID: flags&vlanPVID != 0, Untagged: flags&vlanUntagged != 0})
		}
	}
	return list
}

package netstate

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
)

// ParseMAC reads an Ethernet address in any of the usual forms and returns it in the canonical
// one: lower case, colons. Addresses that no interface can have, a group's and all zeros, are errors.
func ParseMAC(s string) (string, error) {
	hw, err := net.ParseMAC(s)
	switch {
	case err != nil:
		return "", fmt.Errorf("%q is no MAC address", s)
	case len(hw) != 6:
		return "", fmt.Errorf("%s has %d bytes, an Ethernet address has 6", s, len(hw))
	case hw[0]&1 != 0:
		return "", fmt.Errorf("%s is the address of a group, not of one interface", hw)
	case [6]byte(hw) == [6]byte{}:
		return "", errors.New("00:00:00:00:00:00 is the address of no interface")
	}
	return hw.String(), nil
}

// MACFor derives an address from names: the same names give the same one. It is of one interface and marked
// as locally administered.
func MACFor(names ...string) string {
	b, _ := hex.DecodeString(digest(12, names...)) // digest is hexadecimal
	b[0] = b[0]&^1 | 2
	return net.HardwareAddr(b).String()
}

// MACFromIPv4 is the address of a pod's interface that has this IPv4 address: 0a:58 and its four
// bytes, so that one who sees a frame knows whose it is.
func MACFromIPv4(a netip.Addr) string {
	ip := a.As4()
	return net.HardwareAddr{0x0a, 0x58, ip[0], ip[1], ip[2], ip[3]}.String()
}

// MAC is the address that the owner's interface has on a side of it: a function of the owner, so
// that it needs no memory.
func (o Owner) MAC(side string) string {
	return MACFor(o.Network, o.ContainerID, o.IfName, side)
}

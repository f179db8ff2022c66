package netstate

import "net/netip"

// TableName is the name of Cleat's own nft tables: one a family.
const TableName = "cleat"

// Netmask returns the mask of a prefix in the form of an address, as nft writes it after an &.
func Netmask(p netip.Prefix) netip.Addr {
	ones := make([]byte, p.Addr().BitLen()/8)
	for i := range p.Bits() {
		ones[i/8] |= 0x80 >> (i % 8)
	}
	mask, _ := netip.AddrFromSlice(ones) // the length is an address's
	return mask
}

// Family is how nft's syntax names an address family.
type Family struct {
	V6    bool
	Digit string // 4, 6: for names
	Word  string // ip, ip6: before saddr
	Type  string // ipv4_addr, ipv6_addr: of a set's key
}

// FamilyOf returns the family of an address.
func FamilyOf(a netip.Addr) Family {
	if a.Is4() {
		return Family{Digit: "4", Word: "ip", Type: "ipv4_addr"}
	}
	return Family{V6: true, Digit: "6", Word: "ip6", Type: "ipv6_addr"}
}

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

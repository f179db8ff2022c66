// Package netstate describes network state as data: what should exist for an
// attachment, and what was seen in the kernel. Links, addresses, routes, rules,
// neighbours, sysctls, qdiscs and their filters, nft tables with their chains, sets, maps and elements,
// chains and rules of iptables, connections to be forgotten and address leases are all objects of a [State].
//
// A State has one canonical text, one object a line, and that text is what `cleat plan`
// prints, what golden files hold and what the debug log shows:
//
//	host link cni0 kind bridge mtu 1500 shared
//	pod  addr 10.88.0.5/16 dev eth0
//
// The package only describes. Package internal/kernel makes states real,
// compares and removes them; package planned lets plugins say them.
package netstate

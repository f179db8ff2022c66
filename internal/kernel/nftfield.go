package kernel

import (
	"encoding/binary"
	"fmt"
	"strconv"
)

// How a rule gets at a field, and the numbers of linux/netfilter/nf_tables.h for it.
const (
	loadMeta    = iota // key
	loadCT             // key
	loadPayload        // base and offset
	loadFIB            // type of the destination address

	metaProtocol  = 1
	metaMark      = 3
	metaIIFName   = 6
	metaOIFName   = 7
	metaIIFType   = 8
	metaNFProto   = 15
	metaL4Proto   = 16
	ctState       = 0
	ctStatus      = 2
	ctMark        = 3
	baseLink      = 0
	baseNetwork   = 1
	baseTransport = 2
)

// fieldSpec says what a field of a rule is.
type fieldSpec struct {
	typ    *valueType
	load   int
	key    uint32 // meta or ct key, or base of the payload
	offset uint32
	needs  string // what a packet must be, to have the field: ip, ip6, ether, icmp, icmpv6
	bits   bool   // a value is a set of bits, and a packet that has one of them matches
}

// fieldSpecOf says what the field of that name is; its type is nil if a rule may not name it.
func fieldSpecOf(name string) fieldSpec {
	switch name {
	case "ip saddr":
		return fieldSpec{typ: mustType("ipv4_addr"), load: loadPayload, key: baseNetwork, offset: 12, needs: "ip"}
	case "ip daddr":
		return fieldSpec{typ: mustType("ipv4_addr"), load: loadPayload, key: baseNetwork, offset: 16, needs: "ip"}
	case "ip protocol":
		return fieldSpec{typ: mustType("inet_proto"), load: loadPayload, key: baseNetwork, offset: 9, needs: "ip"}
	case "ip6 saddr":
		return fieldSpec{typ: mustType("ipv6_addr"), load: loadPayload, key: baseNetwork, offset: 8, needs: "ip6"}
	case "ip6 daddr":
		return fieldSpec{typ: mustType("ipv6_addr"), load: loadPayload, key: baseNetwork, offset: 24, needs: "ip6"}
	case "th sport":
		return fieldSpec{typ: mustType("inet_service"), load: loadPayload, key: baseTransport, offset: 0}
	case "th dport":
		return fieldSpec{typ: mustType("inet_service"), load: loadPayload, key: baseTransport, offset: 2}
	case "ether daddr":
		return fieldSpec{typ: mustType("ether_addr"), load: loadPayload, key: baseLink, offset: 0, needs: "ether"}
	case "ether saddr":
		return fieldSpec{typ: mustType("ether_addr"), load: loadPayload, key: baseLink, offset: 6, needs: "ether"}
	case "icmp type":
		return fieldSpec{typ: icmpType(), load: loadPayload, key: baseTransport, needs: "icmp"}
	case "icmpv6 type":
		return fieldSpec{typ: icmpv6Type(), load: loadPayload, key: baseTransport, needs: "icmpv6"}
	case "meta mark":
		return fieldSpec{typ: mustType("mark"), load: loadMeta, key: metaMark}
	case "meta protocol":
		return fieldSpec{typ: etherType(), load: loadMeta, key: metaProtocol}
	case "meta iifname":
		return fieldSpec{typ: mustType("ifname"), load: loadMeta, key: metaIIFName}
	case "meta oifname":
		return fieldSpec{typ: mustType("ifname"), load: loadMeta, key: metaOIFName}
	case "meta l4proto":
		return fieldSpec{typ: mustType("inet_proto"), load: loadMeta, key: metaL4Proto}
	case "meta nfproto":
		return fieldSpec{typ: nfProtoType(), load: loadMeta, key: metaNFProto}
	case "ct mark":
		return fieldSpec{typ: mustType("mark"), load: loadCT, key: ctMark}
	case "ct state":
		return fieldSpec{typ: ctStateType(), load: loadCT, key: ctState, bits: true}
	case "ct status":
		return fieldSpec{typ: ctStatusType(), load: loadCT, key: ctStatus, bits: true}
	case fibDestination:
		return fieldSpec{typ: fibType(), load: loadFIB}
	}
	return fieldSpec{}
}

// fibDestination is the field whose name has three words.
const fibDestination = "fib daddr type"

// The types that only rules use: their values have names.

func nfProtoType() *valueType {
	return symbolType("nf_proto", 2, 1, map[string]uint32{"ipv4": 2, "ipv6": 10})
}

// etherType is in the network's byte order, as it is in a frame.
func etherType() *valueType {
	return &valueType{name: "ether_type", number: 10, size: 2, encode: func(text string) ([]byte, error) {
		switch text {
		case "ip":
			return []byte{0x08, 0x00}, nil
		case "arp":
			return []byte{0x08, 0x06}, nil
		case "ip6":
			return []byte{0x86, 0xdd}, nil
		}
		return nil, fmt.Errorf("%q is no ether_type: it is ip, ip6 or arp", text)
	}}
}

func icmpType() *valueType {
	return symbolType("icmp_type", 14, 1, map[string]uint32{
		"echo-reply": 0, "destination-unreachable": 3, "redirect": 5, "echo-request": 8,
		"router-advertisement": 9, "router-solicitation": 10, "time-exceeded": 11, "parameter-problem": 12,
	})
}

func icmpv6Type() *valueType {
	return symbolType("icmpv6_type", 29, 1, map[string]uint32{
		"destination-unreachable": 1, "packet-too-big": 2, "time-exceeded": 3, "parameter-problem": 4,
		"echo-request": 128, "echo-reply": 129, "mld-listener-query": 130, "mld-listener-report": 131,
		"mld-listener-done": 132, "nd-router-solicit": 133, "nd-router-advert": 134,
		"nd-neighbor-solicit": 135, "nd-neighbor-advert": 136, "nd-redirect": 137,
	})
}

func ctStateType() *valueType {
	return symbolType("ct_state", 26, 4, map[string]uint32{
		"invalid": 1, "established": 2, "related": 4, "new": 8, "untracked": 64,
	})
}

func ctStatusType() *valueType {
	return symbolType("ct_status", 28, 4, map[string]uint32{
		"expected": 1, "seen-reply": 2, "assured": 4, "confirmed": 8, "snat": 16, "dnat": 32, "dying": 512,
	})
}

func fibType() *valueType {
	return symbolType("fib_addrtype", 38, 4, map[string]uint32{
		"unicast": 1, "local": 2, "broadcast": 3, "anycast": 4, "multicast": 5, "blackhole": 6,
		"unreachable": 7, "prohibit": 8,
	})
}

// symbolType makes a type whose values are names, or numbers, of size 1 or 4 bytes in the
// machine's order.
func symbolType(name string, number uint32, size int, symbols map[string]uint32) *valueType {
	return &valueType{name: name, number: number, size: size, machineOrder: size > 1, encode: func(text string) ([]byte, error) {
		n, ok := symbols[text]
		if !ok {
			parsed, err := strconv.ParseUint(text, 0, 8*size)
			if err != nil {
				return nil, fmt.Errorf("%q is no %s", text, name)
			}
			n = uint32(parsed)
		}
		if size == 1 {
			return []byte{byte(n)}, nil
		}
		return binary.NativeEndian.AppendUint32(nil, n), nil
	}}
}

// mustType returns a type that is known to be there.
func mustType(name string) *valueType {
	t, err := typeOf(name)
	if err != nil {
		panic(err)
	}
	return t
}

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

// fieldSpecs are the fields that a rule may name.
var fieldSpecs = map[string]fieldSpec{
	"ip saddr":     {typ: mustType("ipv4_addr"), load: loadPayload, key: baseNetwork, offset: 12, needs: "ip"},
	"ip daddr":     {typ: mustType("ipv4_addr"), load: loadPayload, key: baseNetwork, offset: 16, needs: "ip"},
	"ip protocol":  {typ: mustType("inet_proto"), load: loadPayload, key: baseNetwork, offset: 9, needs: "ip"},
	"ip6 saddr":    {typ: mustType("ipv6_addr"), load: loadPayload, key: baseNetwork, offset: 8, needs: "ip6"},
	"ip6 daddr":    {typ: mustType("ipv6_addr"), load: loadPayload, key: baseNetwork, offset: 24, needs: "ip6"},
	"th sport":     {typ: mustType("inet_service"), load: loadPayload, key: baseTransport, offset: 0},
	"th dport":     {typ: mustType("inet_service"), load: loadPayload, key: baseTransport, offset: 2},
	"ether daddr":  {typ: mustType("ether_addr"), load: loadPayload, key: baseLink, offset: 0, needs: "ether"},
	"ether saddr":  {typ: mustType("ether_addr"), load: loadPayload, key: baseLink, offset: 6, needs: "ether"},
	"icmp type":    {typ: icmpType, load: loadPayload, key: baseTransport, needs: "icmp"},
	"icmpv6 type":  {typ: icmpv6Type, load: loadPayload, key: baseTransport, needs: "icmpv6"},
	"meta mark":    {typ: mustType("mark"), load: loadMeta, key: metaMark},
	"meta iifname": {typ: mustType("ifname"), load: loadMeta, key: metaIIFName},
	"meta oifname": {typ: mustType("ifname"), load: loadMeta, key: metaOIFName},
	"meta l4proto": {typ: mustType("inet_proto"), load: loadMeta, key: metaL4Proto},
	"meta nfproto": {typ: nfProtoType, load: loadMeta, key: metaNFProto},
	"ct mark":      {typ: mustType("mark"), load: loadCT, key: ctMark},
	"ct state":     {typ: ctStateType, load: loadCT, key: ctState, bits: true},
	"ct status":    {typ: ctStatusType, load: loadCT, key: ctStatus, bits: true},
	fibDestination: {typ: fibType, load: loadFIB},
}

// fibDestination is the field whose name has three words.
const fibDestination = "fib daddr type"

// Types that only rules use: their values have names.
var (
	nfProtoType = symbolType("nf_proto", 2, 1, map[string]uint32{"ipv4": 2, "ipv6": 10})
	icmpType    = symbolType("icmp_type", 14, 1, map[string]uint32{
		"echo-reply": 0, "destination-unreachable": 3, "redirect": 5, "echo-request": 8,
		"router-advertisement": 9, "router-solicitation": 10, "time-exceeded": 11, "parameter-problem": 12,
	})
	icmpv6Type = symbolType("icmpv6_type", 29, 1, map[string]uint32{
		"destination-unreachable": 1, "packet-too-big": 2, "time-exceeded": 3, "parameter-problem": 4,
		"echo-request": 128, "echo-reply": 129, "mld-listener-query": 130, "mld-listener-report": 131,
		"mld-listener-done": 132, "nd-router-solicit": 133, "nd-router-advert": 134,
		"nd-neighbor-solicit": 135, "nd-neighbor-advert": 136, "nd-redirect": 137,
	})
	ctStateType = symbolType("ct_state", 26, 4, map[string]uint32{
		"invalid": 1, "established": 2, "related": 4, "new": 8, "untracked": 64,
	})
	ctStatusType = symbolType("ct_status", 28, 4, map[string]uint32{
		"expected": 1, "seen-reply": 2, "assured": 4, "confirmed": 8, "snat": 16, "dnat": 32, "dying": 512,
	})
	fibType = symbolType("fib_addrtype", 38, 4, map[string]uint32{
		"unicast": 1, "local": 2, "broadcast": 3, "anycast": 4, "multicast": 5, "blackhole": 6,
		"unreachable": 7, "prohibit": 8,
	})
)

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

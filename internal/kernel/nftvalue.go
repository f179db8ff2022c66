package kernel

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// valueType is a type of values in nft sets, maps and rules. Its number is the one that
// nft's own program gives the type; the kernel only keeps it for whoever lists the set.
type valueType struct {
	name   string
	number uint32
	size   int // bytes of a value outside a concatenation
	encode func(text string) ([]byte, error)
	decode func(value []byte) string
	// machineOrder: a value is in the machine's byte order for nft's program, which counts
	// names among those; else it is in the network's.
	machineOrder bool
}

// ifNameSize is IFNAMSIZ: a name with the NUL that ends it.
const ifNameSize = 16

// typeBits is how far nft's program shifts the number of one part of a concatenated type to
// make room for the next.
const typeBits = 6

// valueTypes are the types that a netstate.Set may name.
var valueTypes = []*valueType{
	{name: "ipv4_addr", number: 7, size: 4, encode: encodeAddr4, decode: decodeAddr},
	{name: "ipv6_addr", number: 8, size: 16, encode: encodeAddr6, decode: decodeAddr},
	{name: "ether_addr", number: 9, size: 6, encode: encodeMAC, decode: decodeMAC},
	{name: "inet_proto", number: 12, size: 1, encode: encodeProtocol, decode: decodeProtocol},
	{name: "inet_service", number: 13, size: 2, encode: encodePort, decode: decodePort},
	{name: "mark", number: 19, size: 4, encode: encodeMark, decode: decodeMark, machineOrder: true},
	{name: "ifname", number: 41, size: ifNameSize, encode: encodeIfName, decode: decodeIfName, machineOrder: true},
}

// typeOf returns the type of that name.
func typeOf(name string) (*valueType, error) {
	for _, t := range valueTypes {
		if t.name == name {
			return t, nil
		}
	}
	return nil, fmt.Errorf("unknown type %q of a set", name)
}

// valueTypeList is the type of a set's key or of a map's data: one part, or several
// concatenated.
type valueTypeList []*valueType

// typesOf returns the types of those names.
func typesOf(names []string) (valueTypeList, error) {
	list := make(valueTypeList, 0, len(names))
	for _, name := range names {
		t, err := typeOf(name)
		if err != nil {
			return nil, err
		}
		list = append(list, t)
	}
	return list, nil
}

// typesOfNumber takes the number of a type, concatenated or not, apart. ok is false if a part is no type
// of ours.
func typesOfNumber(number uint32) (list valueTypeList, ok bool) {
	for ; number != 0; number >>= typeBits {
		i := 0
		for i < len(valueTypes) && valueTypes[i].number != number&(1<<typeBits-1) {
			i++
		}
		if i == len(valueTypes) {
			return nil, false
		}
		list = append(valueTypeList{valueTypes[i]}, list...)
	}
	return list, len(list) > 0
}

// number is the type as nft's program numbers it.
func (l valueTypeList) number() uint32 {
	var n uint32
	for _, t := range l {
		n = n<<typeBits | t.number
	}
	return n
}

// size is the length of a value in bytes.
func (l valueTypeList) size() int {
	if len(l) == 1 {
		return l[0].size
	}
	n := 0
	for _, t := range l {
		n += padded(t.size)
	}
	return n
}

// padded rounds up to whole registers of four bytes, in which the kernel concatenates.
func padded(size int) int { return (size + 3) &^ 3 }

func (l valueTypeList) names() []string {
	names := make([]string, 0, len(l))
	for _, t := range l {
		names = append(names, t.name)
	}
	return names
}

// encode gives the kernel's form of a value, each part as text.
func (l valueTypeList) encode(parts []string) ([]byte, error) {
	if len(parts) != len(l) {
		return nil, fmt.Errorf("value %q has %d parts, want %d (%s)",
			strings.Join(parts, " . "), len(parts), len(l), strings.Join(l.names(), " . "))
	}
	out := make([]byte, 0, l.size())
	for i, t := range l {
		v, err := t.encode(parts[i])
		if err != nil {
			return nil, err
		}
		out = append(out, v...)
		if len(l) > 1 {
			out = append(out, make([]byte, padded(t.size)-t.size)...)
		}
	}
	return out, nil
}

// decode is the opposite of encode. A value of another length gives nil.
func (l valueTypeList) decode(value []byte) []string {
	if len(value) < l.size() {
		return nil
	}
	parts := make([]string, 0, len(l))
	for _, t := range l {
		parts = append(parts, t.decode(value[:t.size]))
		value = value[min(padded(t.size), len(value)):]
	}
	return parts
}

func encodeAddr4(text string) ([]byte, error) {
	a, err := netip.ParseAddr(text)
	if err != nil || !a.Is4() {
		return nil, fmt.Errorf("%q is no IPv4 address", text)
	}
	return a.AsSlice(), nil
}

func encodeAddr6(text string) ([]byte, error) {
	a, err := netip.ParseAddr(text)
	if err != nil || !a.Is6() || a.Zone() != "" {
		return nil, fmt.Errorf("%q is no IPv6 address", text)
	}
	return a.AsSlice(), nil
}

func decodeAddr(value []byte) string {
	a, _ := netip.AddrFromSlice(value)
	return a.String()
}

func encodeMAC(text string) ([]byte, error) {
	mac, err := net.ParseMAC(text)
	if err != nil || len(mac) != 6 {
		return nil, fmt.Errorf("%q is no Ethernet address", text)
	}
	return mac, nil
}

func decodeMAC(value []byte) string { return net.HardwareAddr(value).String() }

// protocols are the transport protocols by the names that nft's program knows without
// /etc/protocols.
var protocols = []struct {
	name   string
	number byte
}{
	{"tcp", 6}, {"udp", 17}, {"sctp", 132}, {"icmp", 1}, {"icmpv6", 58}, {"ipv6-icmp", 58},
	{"udplite", 136}, {"dccp", 33}, {"esp", 50}, {"ah", 51},
}

func encodeProtocol(text string) ([]byte, error) {
	for _, p := range protocols {
		if p.name == text {
			return []byte{p.number}, nil
		}
	}
	n, err := strconv.ParseUint(text, 10, 8)
	if err != nil {
		return nil, fmt.Errorf("%q is no transport protocol", text)
	}
	return []byte{byte(n)}, nil
}

func decodeProtocol(value []byte) string {
	for _, p := range protocols {
		if p.number == value[0] {
			return p.name
		}
	}
	return strconv.Itoa(int(value[0]))
}

func encodePort(text string) ([]byte, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("%q is no port", text)
	}
	return binary.BigEndian.AppendUint16(nil, uint16(n)), nil
}

func decodePort(value []byte) string {
	return strconv.Itoa(int(binary.BigEndian.Uint16(value)))
}

// encodeMark takes a decimal number, or hexadecimal after 0x.
func encodeMark(text string) ([]byte, error) {
	n, err := strconv.ParseUint(text, 0, 32)
	if err != nil {
		return nil, fmt.Errorf("%q is no mark", text)
	}
	return binary.NativeEndian.AppendUint32(nil, uint32(n)), nil
}

func decodeMark(value []byte) string {
	return fmt.Sprintf("%#x", binary.NativeEndian.Uint32(value))
}

func encodeIfName(text string) ([]byte, error) {
	if text == "" || len(text) >= ifNameSize || strings.ContainsAny(text, "/ \t\n\x00") {
		return nil, fmt.Errorf("%q is no interface name", text)
	}
	return append([]byte(text), make([]byte, ifNameSize-len(text))...), nil
}

func decodeIfName(value []byte) string {
	name, _, _ := bytes.Cut(value, []byte{0})
	return string(name)
}

package kernel

import (
	"bytes"
	"encoding/binary"

	"github.com/cleat-cni/cleat/netstate"
)

// What an element's or a rule's userdata holds: records of a type byte, a length byte and a
// value. The comment is the one that nft's program lists; other types it passes over.
const (
	userdataComment = 0
	userdataLives   = 0x43

	// Of a set: the byte order of its key and of its map's data, as four bytes.
	userdataKeyOrder  = 0
	userdataDataOrder = 1
	machineOrder      = 1

	maxUserdata = 256 // NFT_USERDATA_MAXLEN
	maxComment  = 127 // nft's program takes 128 with the NUL at the end
	// minComment is a mark alone.
	minComment = 21
)

// appendUserdata appends a record with a text, ended by NUL.
func appendUserdata(b []byte, kind byte, text string) []byte {
	b = append(b, kind, byte(len(text)+1))
	b = append(b, text...)
	return append(b, 0)
}

// parseUserdata returns the text of the record of that kind, "" if there is none.
func parseUserdata(b []byte, kind byte) string {
	for len(b) >= 2 {
		k, n := b[0], int(b[1])
		if n > len(b)-2 {
			return ""
		}
		if k == kind {
			return string(bytes.TrimRight(b[2:2+n], "\x00"))
		}
		b = b[2+n:]
	}
	return ""
}

// setUserdata tells nft's program which values of a set are in the machine's byte order. The parts of a
// concatenation need no word.
func setUserdata(key, data valueTypeList) []byte {
	var b []byte
	if len(key) == 1 && key[0].machineOrder {
		b = binary.NativeEndian.AppendUint32(append(b, userdataKeyOrder, 4), machineOrder)
	}
	if len(data) == 1 && data[0].machineOrder {
		b = binary.NativeEndian.AppendUint32(append(b, userdataDataOrder, 4), machineOrder)
	}
	return b
}

// elementUserdata is the userdata of an element of ours. What proves that its owner is alive is left out where it
// doesn't fit (a path of more than 230 bytes): then the owner counts as alive, and its
// element is never replaced.
func elementUserdata(e netstate.Element) []byte {
	const records = 2 * (2 + 1) // type, length and NUL of each
	room := maxUserdata - records - len(e.Lives)
	if room < minComment {
		return appendUserdata(nil, userdataComment, e.Owner.Comment(maxComment))
	}
	b := appendUserdata(nil, userdataComment, e.Owner.Comment(min(room, maxComment)))
	if e.Lives == "" {
		return b
	}
	return appendUserdata(b, userdataLives, e.Lives)
}

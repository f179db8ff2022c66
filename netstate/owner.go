package netstate

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Owner is the attachment that an object belongs to.
type Owner struct {
	Network     string `json:"network,omitzero"`
	ContainerID string `json:"containerID,omitzero"`
	IfName      string `json:"ifname,omitzero"`
}

// NetworkMark is the part of a mark that all attachments of a network share: 8 hex
// digits.
func NetworkMark(network string) string { return digest(8, network) }

// Mark identifies the owner in kernel objects that can carry a comment: 8 hex digits of the network, a dash, 12 of
// container and interface.
func (o Owner) Mark() string {
	return NetworkMark(o.Network) + "-" + digest(12, o.ContainerID, o.IfName)
}

// Comment is the mark with the readable names after it, as long as all fit into
// max bytes; else the mark alone. It is what an nft element's comment and a link's
// alias hold; [ParseMark] reads it.
func (o Owner) Comment(max int) string {
	full := o.Mark() + " " + o.Network + " " + o.ContainerID + " " + o.IfName
	if len(full) > max {
		return o.Mark()
	}
	return full
}

// HostName is the name of the owner's interface on the host: prefix and 11 hex
// digits, 15 bytes with "veth".
func (o Owner) HostName(prefix string) string {
	return prefix + digest(11, o.Network, o.ContainerID, o.IfName)
}

// IsZero reports whether nobody is named.
func (o Owner) IsZero() bool { return o == Owner{} }

// Beside reports whether two attachments are of one container, so that what both want and only one can have, such as a port of the host, is no
// conflict: a runtime asks for it with each of a container's networks, and the first has it.
func (o Owner) Beside(other Owner) bool {
	return o != other && o.ContainerID != "" && o.ContainerID == other.ContainerID
}

// String gives network/container/interface.
func (o Owner) String() string {
	return o.Network + "/" + o.ContainerID + "/" + o.IfName
}

// ParseMark reads a comment that [Owner.Comment] wrote, or [Owner.CommentOf] in whatever schema: the mark, and the names if they are there.
func ParseMark(comment string) (mark string, o Owner, ok bool) {
	_, comment = SchemaOf(comment)
	fields := strings.Fields(comment)
	if len(fields) == 0 || !isMark(fields[0]) {
		return "", Owner{}, false
	}
	if len(fields) == 4 {
		o = Owner{Network: fields[1], ContainerID: fields[2], IfName: fields[3]}
	}
	return fields[0], o, true
}

func isMark(s string) bool {
	net, own, ok := strings.Cut(s, "-")
	if !ok || len(net) != 8 || len(own) != 12 {
		return false
	}
	for _, r := range net + own {
		if !strings.ContainsRune("0123456789abcdef", r) {
			return false
		}
	}
	return true
}

// digest hashes parts, each ended by a byte that names can't hold, so that ("a","bc") and
// ("ab","c") differ.
func digest(n int, parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write([]byte(p))
		h.Write([]byte{0})
	}
	return hex.EncodeToString(h.Sum(nil))[:n]
}

package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/cleat-cni/cleat/netstate"
)

var native = binary.NativeEndian

const (
	headerLen = unix.SizeofNlMsghdr
	// attrMask takes the nested and byte order flags off an attribute's type.
	attrMask = 0x3fff
)

// message builds one netlink message, the space of its header first.
type message []byte

// newMessage starts a message with the family's own header of size bytes, which the caller
// fills by put.
func newMessage(size int) message { return make(message, headerLen+size, 256) }

// family is the header of the protocol family, behind the netlink header.
func (m message) family() []byte { return m[headerLen:] }

func (m *message) pad() {
	for len(*m)%unix.NLMSG_ALIGNTO != 0 {
		*m = append(*m, 0)
	}
}

func (m *message) bytes(kind uint16, value []byte) {
	m.pad()
	*m = native.AppendUint16(*m, uint16(unix.SizeofNlAttr+len(value)))
	*m = native.AppendUint16(*m, kind)
	*m = append(*m, value...)
	m.pad()
}

func (m *message) u8(kind uint16, v uint8) { m.bytes(kind, []byte{v}) }

func (m *message) u32(kind uint16, v uint32) { m.bytes(kind, native.AppendUint32(nil, v)) }

func (m *message) u64(kind uint16, v uint64) { m.bytes(kind, native.AppendUint64(nil, v)) }

// text adds a string with the zero byte that the kernel wants at its end.
func (m *message) text(kind uint16, s string) { m.bytes(kind, append([]byte(s), 0)) }

// nest adds an attribute that holds what fill adds.
func (m *message) nest(kind uint16, fill func()) {
	m.pad()
	start := len(*m)
	*m = native.AppendUint16(*m, 0)
	*m = native.AppendUint16(*m, kind)
	fill()
	m.pad()
	native.PutUint16((*m)[start:], uint16(len(*m)-start))
}

// raw adds bytes that are no attribute, such as a header inside a nest.
func (m *message) raw(b []byte) {
	m.pad()
	*m = append(*m, b...)
	m.pad()
}

// linkMessage starts a message about a link: struct ifinfomsg.
func linkMessage(index int32, flags, change uint32) message {
	m := newMessage(unix.SizeofIfInfomsg)
	putLinkHeader(m.family(), index, flags, change)
	return m
}

func putLinkHeader(b []byte, index int32, flags, change uint32) {
	native.PutUint32(b[4:], uint32(index))
	native.PutUint32(b[8:], flags)
	native.PutUint32(b[12:], change)
}

// attributes iterates over the attributes in b: type without flags, and value. Whatever is cut
// short ends it.
func attributes(b []byte) iter.Seq2[uint16, []byte] {
	return func(yield func(uint16, []byte) bool) {
		for len(b) >= unix.SizeofNlAttr {
			size := int(native.Uint16(b))
			if size < unix.SizeofNlAttr || size > len(b) {
				return
			}
			if !yield(native.Uint16(b[2:])&attrMask, b[unix.SizeofNlAttr:size]) {
				return
			}
			b = b[min(align(size), len(b)):]
		}
	}
}

func align(n int) int { return (n + unix.NLMSG_ALIGNTO - 1) &^ (unix.NLMSG_ALIGNTO - 1) }

// after is b behind the first size bytes; nil if there are none.
func after(b []byte, size int) []byte {
	if len(b) < size {
		return nil
	}
	return b[size:]
}

func number(b []byte) uint32 {
	switch {
	case len(b) >= 4:
		return native.Uint32(b)
	case len(b) >= 2:
		return uint32(native.Uint16(b))
	case len(b) == 1:
		return uint32(b[0])
	}
	return 0
}

func number64(b []byte) uint64 {
	if len(b) < 8 {
		return uint64(number(b))
	}
	return native.Uint64(b)
}

func str(b []byte) string { return strings.TrimRight(string(b), "\x00") }

// request is one message to the kernel with what it is about and, after run, what came of it.
type request struct {
	kind, flags uint16
	body        message
	object      netstate.Object // what it is about, for the error
	step        string          // what it does: "set master cni0"; "" for making the object
	// reply is called with the body of every message that answers, behind the netlink header.
	reply func(kind uint16, body []byte)
	// undo takes back what the request did; nil if there is nothing to take back.
	undo undoFunc
	// accept says that an error is success, because what is wanted is so.
	accept func(errno unix.Errno) bool

	sequence uint32
	done     bool  // the kernel answered
	made     bool  // without an error
	err      error // the kernel's answer, nil if it is accepted
}

// changed reports whether the request took effect, or may have: it was sent and its answer was lost.
func (r *request) changed() bool { return r.made || r.sequence != 0 && !r.done }

// failure is the error of the request in words, nil if it succeeded: object, step, cause. What is there
// already is netstate.ErrExist.
func (r *request) failure() error {
	switch {
	case r.err == nil:
		return nil
	case r.object == nil:
		return r.err
	case errors.Is(r.err, unix.EEXIST) && r.step == "":
		return about(r.object, netstate.ErrExist)
	case r.step == "" && isIPv6(r.object) && lacksIPv6(r.err):
		return about(r.object, fmt.Errorf("%w: %w", errNoIPv6, r.err))
	case r.step == "":
		return about(r.object, r.err)
	}
	return about(r.object, fmt.Errorf("%s: %w", r.step, r.err))
}

func isIPv6(o netstate.Object) bool {
	switch o := o.(type) {
	case *netstate.Addr:
		return o.Prefix.Addr().Is6()
	case *netstate.Route:
		return o.Dst.Addr().Is6()
	}
	return false
}

// lacksIPv6 reports whether an address or route of IPv6 was refused because there is none: in the
// kernel, or on the device (disable_ipv6).
func lacksIPv6(err error) bool {
	return errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EACCES)
}

// answer is an error of the kernel with the text that it gave to explain it (extended
// acknowledgement, Linux 4.12).
type answer struct {
	errno unix.Errno
	text  string
}

func (a *answer) Error() string {
	if a.text == "" {
		return a.errno.Error()
	}
	return a.errno.Error() + " (kernel: " + a.text + ")"
}

func (a *answer) Unwrap() error { return a.errno }

// parseAnswer reads struct nlmsgerr and the attributes behind it: nil for an acknowledgement.
func parseAnswer(flags uint16, b []byte) error {
	if len(b) < 4 {
		return fmt.Errorf("read answer of the kernel: %w", errShort)
	}
	code := int32(native.Uint32(b))
	if code == 0 {
		return nil
	}
	a := &answer{errno: unix.Errno(-code)}
	if flags&unix.NLM_F_ACK_TLVS == 0 || len(b) < 4+headerLen {
		return a
	}
	// The header of the request is echoed; without NLM_F_CAPPED its body too.
	rest := 4 + headerLen
	if flags&unix.NLM_F_CAPPED == 0 {
		rest = 4 + align(int(native.Uint32(b[4:])))
	}
	for kind, value := range attributes(after(b, rest)) {
		if kind == unix.NLMSGERR_ATTR_MSG {
			a.text = str(value)
		}
	}
	return a
}

var errShort = errors.New("message is cut short")

package kernel

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/cleat-cni/cleat/netstate"
)

// errRace says that the ruleset changed between what was read and the transaction that
// relies on it. The caller reads again.
var errRace = errors.New("ruleset changed meanwhile")

// errUnanswered says that the kernel got a transaction and its answer got lost, so that it is not known whether it was made.
var errUnanswered = errors.New("nft transaction without an answer")

// filterConn is a socket to the kernel's netfilter subsystems in one namespace.
//
// The kernel answers a netfilter request before sendmsg returns, so nothing is ever waited for. A
// transaction that fails sends as many errors as it likes, which is why replies are
// matched by their sequence number here and not by netlink.Conn, which takes them in order.
//
// It is not safe for concurrent use.
type filterConn struct {
	socket
	seq uint32
	buf []byte

	transactions uint64
	messages     uint64 // sent, without the two that frame a transaction
}

// filterMessage is a request to a netfilter subsystem.
type filterMessage struct {
	kind  uint16 // subsystem << 8 | message
	flags netlink.HeaderFlags
	// family is that of the table or of the flow: NFPROTO_INET, AF_INET, …
	family uint8
	attrs  []byte
	what   string // for errors: add element tcp . 8080
}

const (
	batchBegin = unix.NFNL_MSG_BATCH_BEGIN
	batchEnd   = unix.NFNL_MSG_BATCH_END
	// batchGeneration is NFNL_BATCH_GENID: the ruleset that the transaction relies on.
	batchGeneration = 1

	// dumpInterrupted is NLM_F_DUMP_INTR.
	dumpInterrupted = 0x10
	// errorCapped and errorHasAttrs are NLM_F_CAPPED and NLM_F_ACK_TLVS.
	errorCapped   = 0x100
	errorHasAttrs = 0x200
	errorAttrText = 1 // NLMSGERR_ATTR_MSG

	messageHeader = 16 // struct nlmsghdr
	familyHeader  = 4  // struct nfgenmsg
	// receiveSize holds the largest datagram that the kernel makes of a dump, 32 KiB.
	receiveSize = 64 << 10
)

// dialFilter opens a socket in a space.
func dialFilter(sp *space) (*filterConn, error) {
	// A cap keeps the kernel from sending a failed transaction back to us; extended
	// acknowledgements say in words what was wrong.
	var sock socket
	err := sp.visit(func() (err error) {
		sock, err = openSocket(unix.NETLINK_NETFILTER, unix.NETLINK_CAP_ACK, unix.NETLINK_EXT_ACK)
		return err
	})
	if errors.Is(err, unix.EPROTONOSUPPORT) {
		return nil, fmt.Errorf("open netfilter socket: %w: %w", netstate.ErrUnsupported, err)
	}
	if err != nil {
		return nil, fmt.Errorf("open netfilter socket: %w", err)
	}
	return &filterConn{socket: sock, buf: make([]byte, receiveSize)}, nil
}

func (c *filterConn) close() error {
	if err := c.socket.close(); err != nil {
		return fmt.Errorf("close netfilter socket: %w", err)
	}
	return nil
}

// frame adds a message to a datagram and gives it the next sequence number.
func (c *filterConn) frame(b []byte, m filterMessage, resource uint16) []byte {
	c.seq++
	size := messageHeader + familyHeader + len(m.attrs)
	b = binary.NativeEndian.AppendUint32(b, uint32(size))
	b = binary.NativeEndian.AppendUint16(b, m.kind)
	b = binary.NativeEndian.AppendUint16(b, uint16(m.flags|netlink.Request))
	b = binary.NativeEndian.AppendUint32(b, c.seq)
	b = append(b, 0, 0, 0, 0) // the kernel fills in the port
	b = append(b, m.family, unix.NFNETLINK_V0)
	b = binary.BigEndian.AppendUint16(b, resource)
	b = append(b, m.attrs...)
	return append(b, make([]byte, -len(b)&3)...)
}

func (c *filterConn) send(b []byte) error {
	if err := c.socket.send(b); err != nil {
		return &socketError{"send to netfilter", err}
	}
	return nil
}

// receive hands the replies to the messages from first to last over, until got says that it
// has all. Replies to earlier messages are passed over.
func (c *filterConn) receive(first, last uint32, got func(netlink.Message) (all bool, err error)) error {
	for {
		n, err := c.socket.receive(c.buf)
		if err != nil {
			// EAGAIN would be a kernel that owes an answer; ENOBUFS one that dropped it.
			return &socketError{"receive from netfilter", err}
		}
		for b := c.buf[:n]; len(b) >= messageHeader; {
			size := int(binary.NativeEndian.Uint32(b))
			if size < messageHeader || size > len(b) {
				return fmt.Errorf("receive from netfilter: message of %d bytes in %d", size, len(b))
			}
			m := netlink.Message{Header: netlink.Header{
				Length: uint32(size), Type: netlink.HeaderType(binary.NativeEndian.Uint16(b[4:])),
				Flags:    netlink.HeaderFlags(binary.NativeEndian.Uint16(b[6:])),
				Sequence: binary.NativeEndian.Uint32(b[8:]),
			}, Data: b[messageHeader:size]}
			b = b[min(len(b), (size+3)&^3):]
			if m.Header.Sequence-first > last-first {
				continue
			}
			all, err := got(m)
			if all || err != nil {
				return err
			}
		}
	}
}

// ask sends messages that are no transaction in one datagram, and hands each reply's attributes to got, with the number
// of the message that it answers. It returns an error for each message, and one for what
// went wrong on the way. At most one of the messages may be a dump, the last.
// A dump that the ruleset changed under gives errRace, after it was handed over.
func (c *filterConn) ask(ctx context.Context, msgs []filterMessage, got func(i int, attrs []byte) error) ([]error, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	first := c.seq + 1
	var datagram []byte
	for _, m := range msgs {
		datagram = c.frame(datagram, m, 0)
	}
	if err := c.send(datagram); err != nil {
		return nil, err
	}
	c.messages += uint64(len(msgs))
	results, open := make([]error, len(msgs)), len(msgs)
	err := c.receive(first, c.seq, func(m netlink.Message) (bool, error) {
		i := int(m.Header.Sequence - first)
		end, err := c.answer(m, msgs[i], &results[i], func(attrs []byte) error { return got(i, attrs) })
		if end {
			open--
		}
		return open == 0, err
	})
	return results, err
}

// answer takes a reply to a message, and tells whether it is the last one.
func (c *filterConn) answer(m netlink.Message, to filterMessage, result *error, got func([]byte) error) (end bool, err error) {
	if m.Header.Flags&dumpInterrupted != 0 && to.flags&netlink.Dump == netlink.Dump {
		*result = fmt.Errorf("%s: %w", to.what, errRace)
	}
	switch m.Header.Type {
	case netlink.Error, netlink.Done:
		if err := replyError(m); err != nil {
			*result = fmt.Errorf("%s: %w", to.what, err)
		}
		return true, nil
	}
	if len(m.Data) < familyHeader {
		return false, fmt.Errorf("%s: reply of %d bytes", to.what, len(m.Data))
	}
	end = to.flags&(netlink.Acknowledge|netlink.Root|netlink.Match) == 0
	return end, got(m.Data[familyHeader:])
}

// commit makes one transaction of msgs. If generation is not 0 and the ruleset is another
// than that one, it is errRace; without one any conflict is the error of the message that
// failed first. Errors: errRace, errUnanswered.
func (c *filterConn) commit(ctx context.Context, msgs []filterMessage, generation uint32) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	first := c.seq + 1
	begin := filterMessage{kind: batchBegin, family: unix.AF_UNSPEC}
	if generation != 0 {
		ae := newAttrs()
		ae.Uint32(batchGeneration, generation)
		attrs, err := ae.Encode()
		if err != nil {
			return err
		}
		begin.attrs = attrs
	}
	datagram := c.frame(nil, begin, unix.NFNL_SUBSYS_NFTABLES)
	for i, m := range msgs {
		if i == len(msgs)-1 {
			m.flags |= netlink.Acknowledge
		}
		datagram = c.frame(datagram, m, 0)
	}
	lastMessage := c.seq
	datagram = c.frame(datagram, filterMessage{kind: batchEnd, family: unix.AF_UNSPEC}, unix.NFNL_SUBSYS_NFTABLES)
	if err := c.send(datagram); err != nil {
		return err
	}
	c.transactions++
	c.messages += uint64(len(msgs))

	var failed error
	err := c.receive(first, c.seq, func(m netlink.Message) (bool, error) {
		if m.Header.Type != netlink.Error {
			return false, nil
		}
		i := int(m.Header.Sequence-first) - 1
		err := replyError(m)
		switch {
		case i < 0:
			// The whole transaction was refused, and nothing more is said of its messages.
			if err != nil {
				failed = fmt.Errorf("commit nft transaction: %w", err)
			}
			return err != nil, nil
		case i < len(msgs) && err != nil && failed == nil:
			failed = fmt.Errorf("%s: %w", msgs[i].what, err)
		}
		return m.Header.Sequence == lastMessage, nil
	})
	if err != nil && failed == nil {
		return fmt.Errorf("%w: %w", errUnanswered, err)
	}
	return errors.Join(failed, err)
}

// replyError is the error that an acknowledgement or the end of a dump carries, nil if it is
// success.
func replyError(m netlink.Message) error {
	if len(m.Data) < 4 {
		return nil // NLMSG_DONE of old kernels
	}
	code := int32(binary.NativeEndian.Uint32(m.Data[:4]))
	if code >= 0 {
		return nil
	}
	errno := unix.Errno(-code)
	var err error = errno
	switch errno {
	case unix.ERESTART:
		return errRace
	case unix.EOPNOTSUPP, unix.EAFNOSUPPORT, unix.EPROTONOSUPPORT:
		err = fmt.Errorf("%w: %w", netstate.ErrUnsupported, errno)
	}
	if text := extendedText(m); text != "" {
		err = fmt.Errorf("%w (%s)", err, text)
	}
	return err
}

// extendedText is what the kernel says in words beside an error.
func extendedText(m netlink.Message) string {
	if m.Header.Flags&errorHasAttrs == 0 || m.Header.Type != netlink.Error {
		return ""
	}
	skip := 4 + messageHeader
	if m.Header.Flags&errorCapped == 0 && len(m.Data) >= skip {
		skip = 4 + int(binary.NativeEndian.Uint32(m.Data[4:8])+3)&^3
	}
	if skip > len(m.Data) {
		return ""
	}
	ad, err := netlink.NewAttributeDecoder(m.Data[skip:])
	if err != nil {
		return ""
	}
	for ad.Next() {
		if ad.Type() == errorAttrText {
			return ad.String()
		}
	}
	return ""
}

// newAttrs returns an encoder of netfilter attributes, which are in network byte order.
func newAttrs() *netlink.AttributeEncoder {
	ae := netlink.NewAttributeEncoder()
	ae.ByteOrder = binary.BigEndian
	return ae
}

// newAttrsOf returns a decoder of netfilter attributes.
func newAttrsOf(b []byte) (*netlink.AttributeDecoder, error) {
	ad, err := netlink.NewAttributeDecoder(b)
	if err != nil {
		return nil, fmt.Errorf("read netfilter reply: %w", err)
	}
	ad.ByteOrder = binary.BigEndian
	return ad, nil
}

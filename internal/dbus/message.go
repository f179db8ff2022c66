package dbus

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Kind is what a message is.
type Kind byte

// The kinds of messages.
const (
	MethodCall   Kind = 1
	MethodReturn Kind = 2
	ErrorReply   Kind = 3
	Signal       Kind = 4
)

// NoAutoStart is the flag of a call that starts no service that is not there.
const NoAutoStart byte = 2

// Message is a message. Of what it carries, Body, only strings, uint32 and bool are known: a message that is read has those up to the
// first value of another type.
type Message struct {
	Kind        Kind
	Flags       byte
	Path        string
	Interface   string
	Member      string
	ErrorName   string
	Destination string
	Sender      string // set by the bus
	ReplyTo     uint32 // the serial number of the call that this answers
	Body        []any

	serial uint32
}

// Serial is the number that the sender gave the message, for ReplyTo of the answer.
func (m Message) Serial() uint32 { return m.serial }

// The codes of header fields.
const (
	fieldPath = iota + 1
	fieldInterface
	fieldMember
	fieldErrorName
	fieldReplyTo
	fieldDestination
	fieldSender
	fieldSignature
)

// maxMessage bounds a message that is read, in bytes: what is asked for here is short.
const maxMessage = 1 << 20

var errMalformed = errors.New("malformed message")

// writer writes values with D-Bus's padding.
type writer struct{ data []byte }

func (w *writer) align(n int) {
	for len(w.data)%n != 0 {
		w.data = append(w.data, 0)
	}
}

func (w *writer) u32(v uint32) {
	w.align(4)
	w.data = binary.LittleEndian.AppendUint32(w.data, v)
}

func (w *writer) text(s string) {
	w.u32(uint32(len(s)))
	w.data = append(append(w.data, s...), 0)
}

func (w *writer) signature(s string) {
	w.data = append(append(append(w.data, byte(len(s))), s...), 0)
}

// field writes a header field, whose value is of type typ.
func (w *writer) field(code byte, typ string, value func()) {
	w.align(8)
	w.data = append(w.data, code)
	w.signature(typ)
	value()
}

func (w *writer) textField(code byte, typ, s string) {
	if s != "" {
		w.field(code, typ, func() { w.text(s) })
	}
}

// encode is the message as it is sent.
func (m Message) encode() ([]byte, error) {
	var body writer
	var signature strings.Builder
	for _, v := range m.Body {
		switch v := v.(type) {
		case string:
			if strings.ContainsRune(v, 0) {
				return nil, fmt.Errorf("send %q: a string of D-Bus holds no zero byte", v)
			}
			signature.WriteString("s")
			body.text(v)
		case uint32:
			signature.WriteString("u")
			body.u32(v)
		case bool:
			signature.WriteString("b")
			n := uint32(0)
			if v {
				n = 1
			}
			body.u32(n)
		default:
			return nil, fmt.Errorf("send a value of type %T: not supported", v)
		}
	}
	w := writer{data: []byte{'l', byte(m.Kind), m.Flags, 1}}
	w.u32(uint32(len(body.data)))
	w.u32(m.serial)
	w.u32(0) // the length of the fields, known below
	w.textField(fieldPath, "o", m.Path)
	w.textField(fieldInterface, "s", m.Interface)
	w.textField(fieldMember, "s", m.Member)
	w.textField(fieldErrorName, "s", m.ErrorName)
	if m.ReplyTo != 0 {
		w.field(fieldReplyTo, "u", func() { w.u32(m.ReplyTo) })
	}
	w.textField(fieldDestination, "s", m.Destination)
	if signature.String() != "" {
		w.field(fieldSignature, "g", func() { w.signature(signature.String()) })
	}
	binary.LittleEndian.PutUint32(w.data[fixedSize-4:], uint32(len(w.data)-fixedSize))
	w.align(8)
	return append(w.data, body.data...), nil
}

// fixedSize is that of what stands before the header's fields, their length included.
const fixedSize = 16

// readMessage reads the next message.
func readMessage(in *bufio.Reader) (Message, error) {
	fixed := make([]byte, fixedSize)
	if _, err := io.ReadFull(in, fixed); err != nil {
		return Message{}, fmt.Errorf("read message: %w", err)
	}
	var order binary.ByteOrder = binary.LittleEndian
	switch fixed[0] {
	case 'l':
	case 'B':
		order = binary.BigEndian
	default:
		return Message{}, fmt.Errorf("read message: %w: byte order %q", errMalformed, fixed[0])
	}
	bodySize, fieldsSize := uint64(order.Uint32(fixed[4:])), uint64(order.Uint32(fixed[12:]))
	padded := (fieldsSize + 7) &^ 7
	if padded+bodySize > maxMessage {
		return Message{}, fmt.Errorf("read message: %d bytes, at most %d", padded+bodySize, maxMessage)
	}
	rest := make([]byte, padded+bodySize)
	if _, err := io.ReadFull(in, rest); err != nil {
		return Message{}, fmt.Errorf("read message: %w", err)
	}
	m := Message{Kind: Kind(fixed[1]), Flags: fixed[2], serial: order.Uint32(fixed[8:])}
	fields := reader{data: rest[:fieldsSize], order: order}
	signature := ""
	for len(fields.data) > fields.at && fields.err == nil {
		m.readField(&fields, &signature)
	}
	if fields.err != nil {
		return Message{}, fmt.Errorf("read message: %w", fields.err)
	}
	body := reader{data: rest[padded:], order: order}
	m.Body = body.values(signature)
	if body.err != nil {
		return Message{}, fmt.Errorf("read message: %w", body.err)
	}
	return m, nil
}

// readField reads a field of the header. The last of those that D-Bus has, how many descriptors come along, is a number.
func (m *Message) readField(r *reader, signature *string) {
	r.align(8)
	code := r.byte()
	typ := r.signature()
	var text string
	var number uint32
	switch typ {
	case "s", "o":
		text = r.text()
	case "g":
		text = r.signature()
	case "u":
		number = r.u32()
	default:
		r.fail()
	}
	switch code {
	case fieldPath:
		m.Path = text
	case fieldInterface:
		m.Interface = text
	case fieldMember:
		m.Member = text
	case fieldErrorName:
		m.ErrorName = text
	case fieldReplyTo:
		m.ReplyTo = number
	case fieldDestination:
		m.Destination = text
	case fieldSender:
		m.Sender = text
	case fieldSignature:
		*signature = text
	}
}

// reader reads values. After its first error it reads zeros.
type reader struct {
	data  []byte
	at    int
	order binary.ByteOrder
	err   error
}

func (r *reader) fail() {
	if r.err == nil {
		r.err = errMalformed
	}
}

// take is the next n bytes, nil if there are not that many.
func (r *reader) take(n int) []byte {
	if r.err != nil || n < 0 || n > len(r.data)-r.at {
		r.fail()
		return nil
	}
	r.at += n
	return r.data[r.at-n : r.at]
}

func (r *reader) align(n int) { r.take((n - r.at%n) % n) }

func (r *reader) byte() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) u32() uint32 {
	r.align(4)
	if b := r.take(4); b != nil {
		return r.order.Uint32(b)
	}
	return 0
}

func (r *reader) text() string { return r.terminated(int(min(r.u32(), maxMessage))) }

func (r *reader) signature() string { return r.terminated(int(r.byte())) }

// terminated is a string of n bytes, which a zero byte follows.
func (r *reader) terminated(n int) string {
	s := string(r.take(n))
	if r.byte() != 0 {
		r.fail()
	}
	return s
}

// values are those of a body, up to the first of a type that is none of ours.
func (r *reader) values(signature string) []any {
	var list []any
	for _, typ := range signature {
		switch typ {
		case 's', 'o':
			list = append(list, r.text())
		case 'u':
			list = append(list, r.u32())
		case 'b':
			list = append(list, r.u32() != 0)
		default:
			return list
		}
	}
	return list
}

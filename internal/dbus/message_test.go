package dbus

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// samples are messages of each kind.
func samples() []Message {
	return []Message{
		BusCall("Hello"),
		BusCall("RequestName", "org.example", uint32(4)),
		{Kind: MethodCall, Flags: NoAutoStart, Destination: "a.b", Path: "/a/b", Interface: "a.b.c", Member: "addSource", Body: []any{"trusted", "10.88.0.5/32"}},
		{Kind: MethodReturn, Destination: ":1.7", ReplyTo: 9, Body: []any{true}},
		{Kind: ErrorReply, ErrorName: "a.b.Exception", ReplyTo: 7, Body: []any{"INVALID_ZONE: x"}},
		{Kind: Signal, Path: "/", Interface: "a.b", Member: "Changed", Body: []any{"", false, "\u00e9"}},
	}
}

func TestMessageRoundTrip(t *testing.T) {
	for _, want := range samples() {
		data, err := want.encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := readMessage(bufio.NewReader(bytes.NewReader(data)))
		if err != nil {
			t.Fatalf("%+v: %v", want, err)
		}
		if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Message{}), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	}
}

// TestBytes holds the form to the specification, and not only to itself: the answer `true` in both byte orders, with an array in its
// body that ends what is read of it, and a field for descriptors.
func TestBytes(t *testing.T) {
	for _, tc := range []struct {
		name  string
		mark  byte
		order binary.AppendByteOrder
	}{{"little", 'l', binary.LittleEndian}, {"big", 'B', binary.BigEndian}} {
		t.Run(tc.name, func(t *testing.T) {
			n := func(data []byte, v uint32) []byte { return tc.order.AppendUint32(data, v) }
			data := n(n(n([]byte{tc.mark, 2, 1, 1}, 8), 77), 0)
			data = n(append(data, 5, 1, 'u', 0), 3)                  // ReplyTo, 16 to 24
			data = n(append(data, 9, 1, 'u', 0), 0)                  // descriptors, to 32
			data = append(data, 8, 1, 'g', 0, 3, 'b', 'a', 's', 0)   // signature
			tc.order.AppendUint32(data[12:12], uint32(len(data)-16)) // the fields' length
			data = append(data, make([]byte, (8-len(data)%8)%8)...)  // padding
			data = n(n(data, 1), 0)                                  // true, and an empty array
			got, err := readMessage(bufio.NewReader(bytes.NewReader(data)))
			if err != nil {
				t.Fatal(err)
			}
			want := Message{Kind: MethodReturn, Flags: 1, ReplyTo: 3, Body: []any{true}, serial: 77}
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(Message{})); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// TestTooLarge: a message that says it is large is not waited for.
func TestTooLarge(t *testing.T) {
	for _, at := range []int{4, 12} { // body, fields
		data := []byte{'l', 2, 1, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0}
		binary.LittleEndian.PutUint32(data[at:], maxMessage+1)
		if _, err := readMessage(bufio.NewReader(bytes.NewReader(data))); err == nil || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
			t.Errorf("length at %d: error %v", at, err)
		}
	}
}

func TestEncodeRefuses(t *testing.T) {
	for _, body := range [][]any{{"a\x00b"}, {1.5}} {
		if _, err := (Message{Kind: MethodCall, Body: body}).encode(); err == nil {
			t.Errorf("%q is encoded", body)
		}
	}
}

// FuzzReadMessage: whatever comes is read or refused, and what is read can be sent.
func FuzzReadMessage(f *testing.F) {
	for _, m := range samples() {
		data, err := m.encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		f.Add(data[:len(data)-1])
	}
	f.Add([]byte("B\x02\x01\x01\xff\xff\xff\xff\x00\x00\x00\x01\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := readMessage(bufio.NewReader(bytes.NewReader(data)))
		if err != nil || slices.ContainsFunc(m.Body, func(v any) bool { s, _ := v.(string); return strings.ContainsRune(s, 0) }) {
			return
		}
		again, err := m.encode()
		if err != nil {
			t.Fatalf("%+v: %v", m, err)
		}
		got, err := readMessage(bufio.NewReader(bytes.NewReader(again)))
		m.Sender = "" // the bus sets it
		if err == nil && len(data) < 1000 {
			if diff := cmp.Diff(m, got, cmp.AllowUnexported(Message{}), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-read +again)\n%s", diff)
			}
		}
	})
}

func FuzzSocketsOf(f *testing.F) {
	for _, a := range []string{"unix:path=/run/dbus/system_bus_socket", "unix:abstract=/tmp/x,guid=0f;unix:path=/a%20b", "tcp:host=a;unixexec:path=sh", "unix:path=%zz"} {
		f.Add(a)
	}
	f.Fuzz(func(t *testing.T, address string) {
		paths, err := socketsOf(address)
		if (err == nil) != (len(paths) > 0) || slices.Contains(paths, "") {
			t.Errorf("%q: %q, %v", address, paths, err)
		}
	})
}

func TestSocketsOf(t *testing.T) {
	for _, tc := range []struct {
		address string
		want    []string
	}{
		{"unix:path=/run/dbus/system_bus_socket", []string{"/run/dbus/system_bus_socket"}},
		{"tcp:host=a,port=1;unix:abstract=/tmp/x,guid=0f;unix:path=/a%20b", []string{"@/tmp/x", "/a b"}},
		{"unixexec:path=/bin/sh", nil},
		{"unix:path=%zz", nil},
		{"unix:path=/a%2", nil},
		{"", nil},
	} {
		got, err := socketsOf(tc.address)
		if !slices.Equal(got, tc.want) || (err == nil) != (tc.want != nil) {
			t.Errorf("%q: %q, %v, want %q", tc.address, got, err, tc.want)
		}
	}
}

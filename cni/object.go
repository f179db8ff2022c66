package cni

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// Member is one key of a JSON object with its value as it was read.
type Member struct {
	Key   string
	Value json.RawMessage
}

// Object is a JSON object that keeps the order of its members and the bytes
// of their values, so that what is not understood passes through unchanged:
// integers above 2^53, number formats, key order, characters such as < and &.
// The zero value is an empty object. An Object is not safe for concurrent
// writes; Clone it first.
type Object struct {
	members []Member

	// Where it was read, for the place in errors. offs are the offsets of the members' values in
	// text, -1 for those that were set later.
	text []byte
	offs []int
	off  int
	path string
}

// ParseObject reads one JSON object. Anything else, text after it, or a key
// that stands twice in it is a [*SyntaxError] with line and column. A text may have 8 MiB, and
// 1000 objects and lists inside each other.
func ParseObject(data []byte) (*Object, error) {
	text := bytes.Clone(data)
	start, end, err := (&scanner{text: text}).whole()
	if err != nil {
		return nil, err
	}
	return node{raw: text[start:end:end], text: text, off: start}.object()
}

// Get returns the value of key and whether the object has it.
func (o *Object) Get(key string) (json.RawMessage, bool) {
	if i := o.index(key); i >= 0 {
		return o.members[i].Value, true
	}
	return nil, false
}

func (o *Object) index(key string) int {
	return slices.IndexFunc(o.members, func(m Member) bool { return m.Key == key })
}

// Set puts value under key: in its old place if the key is there, else last. The value
// is not checked and not copied; nil stands for null.
func (o *Object) Set(key string, value json.RawMessage) {
	if i := o.index(key); i >= 0 {
		o.members[i].Value, o.offs[i] = value, -1
		return
	}
	o.members = append(o.members, Member{Key: key, Value: value})
	o.offs = append(o.offs, -1)
}

// SetValue is Set with a value that is first encoded, without HTML escapes.
func (o *Object) SetValue(key string, value any) error {
	raw, err := encode(value)
	if err != nil {
		return err
	}
	o.Set(key, raw)
	return nil
}

// Delete removes key.
func (o *Object) Delete(key string) {
	if i := o.index(key); i >= 0 {
		o.members = slices.Delete(o.members, i, i+1)
		o.offs = slices.Delete(o.offs, i, i+1)
	}
}

// Members returns the members in order. The slice is the object's own.
func (o *Object) Members() []Member { return o.members }

// Clone returns a copy whose member list can be changed on its own.
func (o *Object) Clone() *Object {
	c := *o
	c.members = slices.Clone(o.members)
	c.offs = slices.Clone(o.offs)
	return &c
}

// Decode stores the value of key in into and reports whether the key was
// there (and not null). A value of another type than into wants, or a list with a null in it, is a
// [*SyntaxError] that names the key's path.
func (o *Object) Decode(key string, into any) (bool, error) {
	n, ok := o.get(key)
	if !ok {
		return false, nil
	}
	return true, n.decode(into)
}

// Bytes returns the object as JSON: members in order, values as they were.
func (o *Object) Bytes() []byte {
	size := 2
	for _, m := range o.members {
		size += len(m.Key) + len(m.Value) + 4
	}
	b := append(make([]byte, 0, size), '{')
	for i, m := range o.members {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendQuoted(b, m.Key), ':')
		if m.Value == nil {
			b = append(b, "null"...)
		}
		b = append(b, m.Value...)
	}
	return append(b, '}')
}

// get returns the value of key, if the key is there and not null.
func (o *Object) get(key string) (node, bool) {
	i := o.index(key)
	if i < 0 {
		return node{}, false
	}
	n := o.node(i)
	return n, !n.isNull()
}

// object returns the value of key as an object, and whether the key is there and not null.
func (o *Object) object(key string) (*Object, bool, error) {
	n, ok := o.get(key)
	if !ok {
		return nil, false, nil
	}
	own, err := n.object()
	return own, err == nil, err
}

func (o *Object) node(i int) node {
	n := node{raw: o.members[i].Value, path: joinPath(o.path, o.members[i].Key)}
	if o.offs[i] >= 0 {
		n.text, n.off = o.text, o.offs[i]
	} else {
		n.raw = bytes.TrimSpace(n.raw)
	}
	return n
}

// fault makes the error for a key that is missing from the object or wrong in it.
func (o *Object) fault(key, format string, args ...any) error {
	if n, ok := o.get(key); ok {
		return n.fault(format, args...)
	}
	n := node{text: o.text, off: o.off, path: joinPath(o.path, key)}
	if other := o.alike(key); other != "" {
		format += "; %q is there: write %q"
		args = append(slices.Clip(args), other, key)
	}
	return n.fault(format, args...)
}

// alike returns a key that differs from key only in case.
func (o *Object) alike(key string) string {
	for _, m := range o.members {
		if m.Key != key && strings.EqualFold(m.Key, key) {
			return m.Key
		}
	}
	return ""
}

// encode is json.Marshal without HTML escapes.
func encode(value any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// quote returns s as a JSON string.
func quote(s string) json.RawMessage { return appendQuoted(nil, s) }

func appendQuoted(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			raw, _ := encode(s) // a string can always be encoded
			return append(b, raw...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

// unquote reads a valid JSON string.
func unquote(raw []byte) string {
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1])
	}
	var s string
	_ = json.Unmarshal(raw, &s) // the scanner has checked it
	return s
}

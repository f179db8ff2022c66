package cni

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
)

// node is a valid JSON value with its place: the text it was read from and where it
// begins in it. text is nil for a value that was not read from a text.
type node struct {
	raw  json.RawMessage
	text []byte
	off  int
	path string
}

func (n node) isNull() bool { return len(n.raw) == 0 || string(n.raw) == "null" }

// kind names the JSON type of the value; what follows it in raw does not matter.
func (n node) kind() string {
	if n.isNull() {
		return "null"
	}
	switch n.raw[0] {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "a string"
	case 't', 'f', 'n':
		return string(n.raw[:wordLen(n.raw)])
	}
	return "a number"
}

// fault makes the error for a wrong value. A %w in format keeps the cause.
func (n node) fault(format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	e := &SyntaxError{Path: n.path, Msg: err.Error(), Err: errors.Unwrap(err)}
	if n.text != nil {
		e.Line, e.Column = position(n.text, n.off)
	}
	return e
}

// object reads the value as an object.
func (n node) object() (*Object, error) {
	if n.isNull() || n.raw[0] != '{' {
		if n.path == "" {
			return nil, (&scanner{text: n.text, pos: n.off}).fault(n.off, "want an object, which begins with {, found %s", n.kind())
		}
		return nil, n.fault("want an object, found %s", n.kind())
	}
	o := &Object{text: n.text, off: n.off, path: n.path}
	s := &scanner{text: n.raw}
	var seen map[string]bool // only for an object with many members
	err := s.object(func(key string, keyAt, start, end int) error {
		if seen == nil && len(o.members) > 16 {
			seen = make(map[string]bool)
			for _, m := range o.members {
				seen[m.Key] = true
			}
		}
		if seen[key] || seen == nil && o.index(key) >= 0 {
			return n.twice(key, keyAt)
		}
		if seen != nil {
			seen[key] = true
		}
		off := -1
		if n.text != nil {
			off = n.off + start
		}
		o.members = append(o.members, Member{Key: key, Value: n.raw[start:end:end]})
		o.offs = append(o.offs, off)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return o, nil
}

// twice is the fault of a key that stands a second time in n, at an offset of n.
func (n node) twice(key string, at int) error {
	text, base := n.text, n.off
	if text == nil {
		text, base = n.raw, 0
	}
	where := "in this object"
	if n.path != "" {
		where = "in " + n.path
	}
	return (&scanner{text: text}).fault(base+at, "the key %q stands twice %s: remove one", key, where)
}

// list reads the value as a list. An element that is null is an error.
func (n node) list() ([]node, error) {
	if n.isNull() || n.raw[0] != '[' {
		return nil, n.fault("want a list, found %s", n.kind())
	}
	var nodes []node
	s := &scanner{text: n.raw}
	err := s.list(func(i, start, end int) error {
		item := node{raw: n.raw[start:end:end], text: n.text, off: n.off + start, path: joinPath(n.path, "["+strconv.Itoa(i)+"]")}
		if item.isNull() {
			return item.fault("null is not allowed in a list: remove it")
		}
		nodes = append(nodes, item)
		return nil
	})
	return nodes, err
}

// decode stores the value in into.
func (n node) decode(into any) error {
	if err := json.Unmarshal(n.raw, into); err != nil {
		return n.explain(err)
	}
	switch into.(type) {
	case *json.RawMessage, *any:
		return nil // passed on as it is
	}
	if n.raw[0] == '[' {
		_, err := n.list() // encoding/json makes a zero element of null
		return err
	}
	return nil
}

// explain turns an error of json.Unmarshal for the value into a fault with path and
// place.
func (n node) explain(err error) error {
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok {
		if fault, ok := errors.AsType[*SyntaxError](err); ok {
			return fault
		}
		return n.fault("%w", err)
	}
	path, at := locate(n.raw, 0, int(wrong.Offset))
	n.path, n.off = joinPath(n.path, path), n.off+at
	// The value found is what stands at the place, but for a number encoding/json says
	// which one.
	found := node{raw: n.raw[at:]}.kind()
	if number, ok := strings.CutPrefix(wrong.Value, "number "); ok {
		found = number
	}
	return n.fault("want %s, found %s", wanted(wrong.Type), found)
}

// wanted names the JSON that a Go type is read from.
func wanted(t reflect.Type) string {
	if reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		return "a string"
	}
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return "a whole number"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "a whole number from 0 on"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Pointer:
		return wanted(t.Elem())
	}
	return "an object"
}

// Explain turns an error of encoding/json into a [*SyntaxError] with place and
// hint: a trailing comma, a comment, a byte order mark, single quotes, an
// empty file, a value of the wrong type. Other errors are returned as they are.
func Explain(data []byte, err error) error {
	if fault, ok := errors.AsType[*SyntaxError](err); ok {
		return fault
	}
	start, end, fault := (&scanner{text: data}).whole()
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && fault == nil {
		n := node{raw: data[start:end], text: data, off: start}
		shifted := *wrong
		shifted.Offset -= int64(start)
		return n.explain(&shifted)
	}
	syntax, ok := errors.AsType[*json.SyntaxError](err)
	switch {
	case !ok && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
		return err
	case fault != nil:
		return fault
	case ok:
		return (&scanner{text: data}).fault(max(int(syntax.Offset)-1, 0), "%s", syntax.Error())
	}
	return err
}

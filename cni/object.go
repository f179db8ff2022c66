package cni

import "encoding/json"

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
}

// ParseObject reads one JSON object. Anything else, text after it, or a key
// that stands twice in it is a [*SyntaxError] with line and column.
func ParseObject(data []byte) (*Object, error) { panic("stub") }

// Get returns the value of key and whether the object has it.
func (o *Object) Get(key string) (json.RawMessage, bool) { panic("stub") }

// Set puts value under key: in its old place if the key is there, else last.
func (o *Object) Set(key string, value json.RawMessage) { panic("stub") }

// SetValue is Set with a value that is first encoded, without HTML escapes.
func (o *Object) SetValue(key string, value any) error { panic("stub") }

// Delete removes key.
func (o *Object) Delete(key string) { panic("stub") }

// Members returns the members in order. The slice is the object's own.
func (o *Object) Members() []Member { return o.members }

// Clone returns a copy whose member list can be changed on its own.
func (o *Object) Clone() *Object { panic("stub") }

// Decode stores the value of key in into and reports whether the key was
// there (and not null). A value of another type than into wants is an error
// that names the key's path.
func (o *Object) Decode(key string, into any) (bool, error) { panic("stub") }

// Bytes returns the object as JSON: members in order, values as they were.
func (o *Object) Bytes() []byte { panic("stub") }

// SyntaxError is a fault in JSON text, with its place. Line and Column count
// from 1; Column counts bytes. File is empty where the text came from no file.
type SyntaxError struct {
	File         string
	Line, Column int
	Msg          string // what is wrong, and where it is known what to write instead
}

// Error gives file:line:column and the fault.
func (e *SyntaxError) Error() string { panic("stub") }

// Explain turns an error of encoding/json into a [*SyntaxError] with place and
// hint: a trailing comma, a comment, a byte order mark, single quotes, an
// empty file, a value of the wrong type. Other errors are returned as they are.
func Explain(data []byte, err error) error { panic("stub") }

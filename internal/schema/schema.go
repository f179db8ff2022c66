// Package schema says what a configuration may hold, as data: which keys an object has, of which type their values are
// and within which bounds. [Of] makes it from the struct that a plugin decodes its configuration into, so the two can't
// differ; [Value.JSON] prints it as JSON Schema (draft 2020-12).
//
// Three tags of a field say it: json has the key's name, doc what it means, and schema what else holds for its value, as a list with commas:
//
//	required           the key must be there
//	nonempty           a list or string with something in it
//	min=N, max=N       bounds of a number
//	enum=A|B           the strings that are allowed
//	default=TEXT       what is taken without the key
//	format=NAME        what a string has to be: ipv4, ipv6, ip, cidr, mac, ifname
//	type=NAME          instead of the field's own type: object, list, string, integer, boolean
//	deprecated=TEXT    what to write instead
package schema

import "github.com/cleat-cni/cleat/cni"

// Type is the type of a JSON value.
type Type string

// The types of values. A value of type Any may be anything.
const (
	Any     Type = ""
	Object  Type = "object"
	List    Type = "array"
	String  Type = "string"
	Integer Type = "integer"
	Number  Type = "number"
	Boolean Type = "boolean"
)

// Said names the type in a message.
func (t Type) Said() string {
	switch t {
	case Object:
		return "an object"
	case List:
		return "a list"
	case String:
		return "a string"
	case Integer:
		return "a whole number"
	case Number:
		return "a number"
	case Boolean:
		return "true or false"
	}
	return "any value"
}

// Value says what a value may be.
type Value struct {
	Type       Type
	Doc        string
	Default    string // "" for none
	Required   bool   // the key must be there
	NonEmpty   bool
	Deprecated string // what to write instead; "" if it is not
	Enum       []string
	Min, Max   cni.Opt[int64]
	Format     string
	Keys       []Key  // of an object, in the order of the struct
	Others     *Value // of an object: what keys hold that are not among Keys; nil if there are none
	Items      *Value // of a list; nil for any
}

// Key is a key of an object.
type Key struct {
	Name string
	Value
}

// Key returns what is known of a key of an object.
func (v *Value) Key(name string) (*Value, bool) {
	for i := range v.Keys {
		if v.Keys[i].Name == name {
			return &v.Keys[i].Value, true
		}
	}
	return nil, false
}

// Names are the names of an object's keys.
func (v *Value) Names() []string {
	names := make([]string, len(v.Keys))
	for i, k := range v.Keys {
		names[i] = k.Name
	}
	return names
}

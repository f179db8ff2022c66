package schema

import (
	"encoding"
	"encoding/json"
	"fmt"
	"net/netip"
	"reflect"
	"strconv"
	"strings"

	"github.com/cleat-cni/cleat/cni"
)

// Of returns the schema of what encoding/json reads into a value of the type of v. An error is a tag that says nothing, or
// a type that no configuration has.
func Of(v any) (*Value, error) {
	if v == nil {
		return &Value{Type: Object}, nil
	}
	return ofType(reflect.TypeOf(v))
}

func ofType(t reflect.Type) (*Value, error) {
	switch t {
	case reflect.TypeFor[json.RawMessage]():
		return &Value{}, nil
	case reflect.TypeFor[netip.Prefix]():
		return &Value{Type: String, Format: "cidr"}, nil
	case reflect.TypeFor[netip.Addr]():
		return &Value{Type: String, Format: "ip"}, nil
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		return &Value{Type: String}, nil
	}
	switch t.Kind() {
	case reflect.Interface:
		return &Value{}, nil
	case reflect.Pointer:
		return ofType(t.Elem())
	case reflect.String:
		return &Value{Type: String}, nil
	case reflect.Bool:
		return &Value{Type: Boolean}, nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return &Value{Type: Integer}, nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return &Value{Type: Integer, Min: cni.Some[int64](0)}, nil
	case reflect.Float32, reflect.Float64:
		return &Value{Type: Number}, nil
	case reflect.Slice, reflect.Array:
		items, err := ofType(t.Elem())
		return &Value{Type: List, Items: items}, err
	case reflect.Map:
		others, err := ofType(t.Elem())
		return &Value{Type: Object, Others: others}, err
	case reflect.Struct:
		return ofStruct(t)
	}
	return nil, fmt.Errorf("make schema of %s: it is not read from JSON", t)
}

func ofStruct(t reflect.Type) (*Value, error) {
	v := &Value{Type: Object}
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" || !f.IsExported() && !f.Anonymous {
			continue // encoding/json doesn't see it
		}
		inner, err := ofType(f.Type)
		if err != nil {
			return nil, err
		}
		if f.Anonymous && name == "" {
			// What is said of the whole is said of each of its keys.
			for _, k := range inner.Keys {
				if err := k.tag(f.Tag); err != nil {
					return nil, fmt.Errorf("make schema of %s.%s: %w", t, f.Name, err)
				}
				v.Keys = append(v.Keys, k)
			}
			continue
		}
		if name == "" {
			return nil, fmt.Errorf("make schema of %s.%s: no tag json names a key", t, f.Name)
		}
		if err := inner.tag(f.Tag); err != nil {
			return nil, fmt.Errorf("make schema of %s.%s: %w", t, f.Name, err)
		}
		v.Keys = append(v.Keys, Key{Name: name, Value: *inner})
	}
	return v, nil
}

// tag adds what the tags of a field say.
func (v *Value) tag(tag reflect.StructTag) error {
	if doc := tag.Get("doc"); doc != "" {
		v.Doc = doc
	}
	said := tag.Get("schema")
	if said == "" {
		return nil
	}
	for item := range strings.SplitSeq(said, ",") {
		word, value, has := strings.Cut(item, "=")
		if err := v.set(word, value); err != nil || has == (word == "required" || word == "nonempty") {
			return fmt.Errorf("tag schema: %q: unknown, or its value is", item)
		}
	}
	return nil
}

func (v *Value) set(word, value string) error {
	var err error
	switch word {
	case "required":
		v.Required = true
	case "nonempty":
		v.NonEmpty = true
	case "min":
		v.Min.Value, err = strconv.ParseInt(value, 10, 64)
		v.Min.Set = true
	case "max":
		v.Max.Value, err = strconv.ParseInt(value, 10, 64)
		v.Max.Set = true
	case "enum":
		v.Enum = strings.Split(value, "|")
	case "default":
		v.Default = value
	case "format":
		v.Format = value
		if _, known := formats()[value]; !known {
			err = strconv.ErrSyntax
		}
	case "type":
		return v.setType(value)
	case "deprecated":
		v.Deprecated = value
	default:
		err = strconv.ErrSyntax
	}
	return err
}

func (v *Value) setType(name string) error {
	t := map[string]Type{"object": Object, "list": List, "string": String, "integer": Integer, "boolean": Boolean}[name]
	if t == Any {
		return strconv.ErrSyntax
	}
	v.Type = t
	if t == Object {
		v.Others = &Value{}
	}
	return nil
}

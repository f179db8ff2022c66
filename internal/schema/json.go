package schema

import (
	"encoding/json"
	"strconv"

	"github.com/cleat-cni/cleat/cni"
)

// formats are the formats of strings, as members of a JSON Schema.
func formats() map[string][2]string {
	return map[string][2]string{
		"ipv4":   {"format", "ipv4"},
		"ipv6":   {"format", "ipv6"},
		"ip":     {"pattern", `^[0-9A-Fa-f:.]+$`},
		"cidr":   {"pattern", `^[0-9A-Fa-f:.]+/[0-9]{1,3}$`},
		"mac":    {"pattern", `^([0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}$`},
		"ifname": {"pattern", `^[^/:%\s]{1,15}$`},
	}
}

// JSON returns the value as JSON Schema, its members in a fixed order.
func (v *Value) JSON() json.RawMessage { return v.object().Bytes() }

func (v *Value) object() *cni.Object {
	o := new(cni.Object)
	if v.Type != Any {
		o.Set("type", quote(string(v.Type)))
	}
	if v.Doc != "" {
		o.Set("description", quote(v.Doc))
	}
	if v.Deprecated != "" {
		o.Set("deprecated", json.RawMessage("true"))
		o.Set("$comment", quote("deprecated: "+v.Deprecated))
	}
	if v.Default != "" {
		o.Set("default", v.defaultJSON())
	}
	if len(v.Enum) > 0 {
		o.Set("enum", list(v.Enum))
	}
	if f, ok := formats()[v.Format]; ok {
		o.Set(f[0], quote(f[1]))
	}
	v.bounds(o)
	v.inner(o)
	return o
}

// bounds sets how large the value may be.
func (v *Value) bounds(o *cni.Object) {
	if v.Min.Set {
		o.Set("minimum", number(v.Min.Value))
	}
	if v.Max.Set {
		o.Set("maximum", number(v.Max.Value))
	}
	if v.NonEmpty {
		key := map[Type]string{List: "minItems", Object: "minProperties"}[v.Type]
		if key == "" {
			key = "minLength"
		}
		o.Set(key, number(1))
	}
}

// inner sets what an object or a list holds.
func (v *Value) inner(o *cni.Object) {
	if v.Type == List && v.Items != nil {
		o.Set("items", v.Items.JSON())
	}
	if v.Type != Object {
		return
	}
	var required []string
	properties := new(cni.Object)
	for i := range v.Keys {
		properties.Set(v.Keys[i].Name, v.Keys[i].JSON())
		if v.Keys[i].Required {
			required = append(required, v.Keys[i].Name)
		}
	}
	if len(v.Keys) > 0 {
		o.Set("properties", properties.Bytes())
	}
	if len(required) > 0 {
		o.Set("required", list(required))
	}
	switch {
	case v.Others == nil:
		o.Set("additionalProperties", json.RawMessage("false"))
	case v.Others.Type != Any || v.Others.Keys != nil:
		o.Set("additionalProperties", v.Others.JSON())
	}
}

// defaultJSON is the default as a value of the type.
func (v *Value) defaultJSON() json.RawMessage {
	if v.Type == String {
		return quote(v.Default)
	}
	return json.RawMessage(v.Default)
}

func number(n int64) json.RawMessage { return strconv.AppendInt(nil, n, 10) }

func list(words []string) json.RawMessage {
	raw, _ := json.Marshal(words) // strings can always be encoded
	return raw
}

func quote(s string) json.RawMessage {
	var o cni.Object
	_ = o.SetValue("s", s) // a string can always be encoded
	raw, _ := o.Get("s")
	return raw
}

package schema

import (
	"encoding/json"
	"fmt"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/planned"
)

// Dialect names the JSON Schema that is printed.
const Dialect = "https://json-schema.org/draft/2020-12/schema"

// Book has the schemas of plugins, made of what each brings along in its profile. It is safe for concurrent use.
type Book struct {
	list, foreign *Value // a network; the object of any plugin
	entries       []entry
}

// entry is what is known of one plugin.
type entry struct {
	planned.Definition
	conf *Value // its object, or the ipam section of an IPAM plugin
}

// NewBook returns the schemas of plugins. One that does not tell what it reads is left out.
func NewBook(defs []planned.Definition) (*Book, error) {
	list, err := Of(listConf{})
	if err != nil {
		return nil, err
	}
	b := &Book{list: list}
	items, _ := list.Key("plugins")
	items.Items = &Value{Type: Object, Others: &Value{}}
	if b.foreign, err = objectOf(nil, pluginConf{}, addressConf{}); err != nil {
		return nil, err
	}
	b.foreign.Others = &Value{}
	for _, section := range []string{"args", "ipam", "dns"} {
		v, _ := b.foreign.Key(section)
		v.Others = &Value{}
	}
	for _, d := range defs {
		if d.Profile.Conf == nil {
			continue
		}
		conf, err := confOf(d)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", d.Info.Type, err)
		}
		b.entries = append(b.entries, entry{d, conf})
	}
	return b, nil
}

// confOf is the schema of a plugin: what the specification says of any, and what it reads itself.
func confOf(d planned.Definition) (*Value, error) {
	var parts []any
	switch {
	case d.IsIPAM():
		parts = []any{ipamConf{}}
	case d.TakesIPAM():
		parts = []any{pluginConf{}, addressConf{}}
	default:
		parts = []any{pluginConf{}}
	}
	v, err := objectOf(d.Profile.Conf, parts...)
	if err != nil {
		return nil, err
	}
	v.Doc = d.Info.About
	if ipam, ok := v.Key("ipam"); ok {
		ipam.Others = &Value{} // what the IPAM plugin reads
	}
	if d.IsIPAM() {
		return v, nil
	}
	capabilities, _ := v.Key("capabilities")
	if !d.TakesIPAM() { // else the IPAM plugin may have some too
		capabilities.Others = nil
	}
	for _, name := range d.Profile.Capabilities {
		capabilities.Keys = append(capabilities.Keys, Key{name, Value{Type: Boolean}})
	}
	args, _ := v.Key("args")
	args.Others = &Value{} // other programs' arguments
	if d.Profile.Args == nil {
		return v, nil
	}
	own, err := Of(d.Profile.Args)
	if err != nil {
		return nil, err
	}
	known, _ := args.Key("cni")
	known.Keys = own.Keys
	return v, nil
}

// objectOf puts the keys of several structs into one object.
func objectOf(last any, first ...any) (*Value, error) {
	all := &Value{Type: Object}
	for _, part := range append(first, last) {
		v, err := Of(part)
		if err != nil {
			return nil, err
		}
		all.Keys = append(all.Keys, v.Keys...)
	}
	return all, nil
}

// Types are the types of the plugins that the book has.
func (b *Book) Types() []string {
	types := make([]string, len(b.entries))
	for i, e := range b.entries {
		types[i] = e.Info.Type
	}
	return types
}

// List is the schema of a network. What an element of plugins may be depends on its type: see [Book.Plugin].
func (b *Book) List() *Value { return b.list }

// Foreign is the schema of the object of a plugin that the book has not: what the specification says.
func (b *Book) Foreign() *Value { return b.foreign }

// Plugin returns the schema of a plugin's object.
func (b *Book) Plugin(typ string) (*Value, bool) { return b.find(typ, false) }

// IPAM returns the schema of the ipam section for an IPAM plugin.
func (b *Book) IPAM(typ string) (*Value, bool) { return b.find(typ, true) }

func (b *Book) find(typ string, ipam bool) (*Value, bool) {
	for _, e := range b.entries {
		if e.Info.Type == typ && e.IsIPAM() == ipam {
			return e.conf, true
		}
	}
	return nil, false
}

// Print returns the JSON Schema of a plugin's object, of an IPAM plugin's ipam section, or, for the type "", of a whole
// network, and whether there is one.
func (b *Book) Print(typ string) (json.RawMessage, bool) {
	doc := new(cni.Object)
	doc.Set("$schema", quote(Dialect))
	if typ == "" {
		doc.Set("title", quote("network"))
		merge(doc, b.list.object())
		properties := member(doc, "properties")
		plugins := member(properties, "plugins")
		plugins.Set("items", b.anyPlugin())
		properties.Set("plugins", plugins.Bytes())
		doc.Set("properties", properties.Bytes())
		doc.Set("$defs", b.defs(false))
		return doc.Bytes(), true
	}
	for _, e := range b.entries {
		if e.Info.Type != typ {
			continue
		}
		doc.Set("title", quote(typ))
		merge(doc, b.definition(e))
		if e.TakesIPAM() {
			doc.Set("$defs", b.defs(true))
		}
		return doc.Bytes(), true
	}
	return nil, false
}

// anyPlugin is the schema of an element of plugins: of a type that the book has not, only what the specification says.
func (b *Book) anyPlugin() json.RawMessage {
	item := b.foreign.object()
	item.Set("allOf", b.choose(false))
	return item.Bytes()
}

// choose says for each type which definition holds.
func (b *Book) choose(ipam bool) json.RawMessage {
	var cases []json.RawMessage
	for _, e := range b.entries {
		if e.IsIPAM() != ipam {
			continue
		}
		is := new(cni.Object)
		is.Set("properties", nested("type", nested("const", quote(e.Info.Type))))
		is.Set("required", list([]string{"type"}))
		c := new(cni.Object)
		c.Set("if", is.Bytes())
		c.Set("then", nested("$ref", quote("#/$defs/"+e.Info.Type)))
		cases = append(cases, c.Bytes())
	}
	raw, _ := json.Marshal(cases) // they are JSON
	return raw
}

// defs are the definitions of all plugins, or of the IPAM plugins alone.
func (b *Book) defs(ipamOnly bool) json.RawMessage {
	all := new(cni.Object)
	for _, e := range b.entries {
		if e.IsIPAM() || !ipamOnly {
			all.Set(e.Info.Type, b.definition(e).Bytes())
		}
	}
	return all.Bytes()
}

// definition is the schema of a plugin, whose type is the plugin's, and whose ipam section that of the plugin it names.
func (b *Book) definition(e entry) *cni.Object {
	o := e.conf.object()
	properties := member(o, "properties")
	typ := member(properties, "type")
	typ.Set("const", quote(e.Info.Type))
	properties.Set("type", typ.Bytes())
	if e.TakesIPAM() {
		ipam := member(properties, "ipam")
		ipam.Set("allOf", b.choose(true))
		properties.Set("ipam", ipam.Bytes())
	}
	o.Set("properties", properties.Bytes())
	return o
}

// member is the object under a key of o, which has one there.
func member(o *cni.Object, key string) *cni.Object {
	raw, _ := o.Get(key)
	inner, err := cni.ParseObject(raw)
	if err != nil {
		return new(cni.Object)
	}
	return inner
}

func nested(key string, value json.RawMessage) json.RawMessage {
	o := new(cni.Object)
	o.Set(key, value)
	return o.Bytes()
}

func merge(into, from *cni.Object) {
	for _, m := range from.Members() {
		into.Set(m.Key, m.Value)
	}
}

package manifest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cleat-cni/cleat/internal/nearmiss"
)

// maxAliased is how many values a pod may repeat by aliases of YAML: they can double at each line.
const maxAliased = 10_000

// listHead is a PodList or a List whose items are still to read.
type listHead struct {
	Kind       string          `json:"kind"`
	APIVersion string          `json:"apiVersion"`
	Metadata   metav1.ListMeta `json:"metadata"`
	Items      []rawItem       `json:"items"`
}

// rawItem is a value that is kept as it stands.
type rawItem struct{ node *yaml.Node }

// decoder puts trees into Go values, by the names in their json tags. It is strict: an unknown field, one given twice and a value of
// another type are faults, each with its line. YAML means what it means to the kubelet: yes, no, on and off are booleans.
type decoder struct {
	members map[reflect.Type]map[string][]int
	open    map[*yaml.Node]bool // anchors that are being read
	within  int                 // aliases that are being read
	aliased int                 // values read within aliases
	faults  []*Fault
}

func newDecoder() *decoder { return &decoder{members: map[reflect.Type]map[string][]int{}} }

// decode puts a tree into what a pointer points to, and returns what was wrong. The rest has been read nevertheless.
func (d *decoder) decode(n *yaml.Node, into any) []*Fault {
	d.open, d.aliased, d.faults = map[*yaml.Node]bool{}, 0, nil
	d.value(n, "", reflect.ValueOf(into).Elem())
	return d.faults
}

func (d *decoder) fault(n *yaml.Node, path, format string, args ...any) {
	d.faults = append(d.faults, &Fault{Line: n.Line, Field: path, Reason: fmt.Sprintf(format, args...)})
}

// value puts one value of the tree, which is at path, into v.
func (d *decoder) value(n *yaml.Node, path string, v reflect.Value) {
	if n.Kind == yaml.AliasNode {
		if d.open[n.Alias] {
			d.fault(n, path, "anchor %s contains itself", n.Value)
			return
		}
		d.within++
		d.value(n.Alias, path, v)
		d.within--
		return
	}
	if n.Anchor != "" {
		d.open[n] = true
		defer delete(d.open, n)
	}
	if d.within > 0 && !d.repeat(n, path) {
		return
	}
	if raw, ok := v.Addr().Interface().(*rawItem); ok {
		raw.node = n
		return
	}
	if n.Kind == yaml.ScalarNode && n.ShortTag() == nullTag {
		return
	}
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		d.value(n, path, v.Elem())
		return
	}
	if u, ok := v.Addr().Interface().(json.Unmarshaler); ok {
		d.unmarshaler(n, path, u)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		d.structure(n, path, v)
	case reflect.Map:
		d.mapping(n, path, v)
	case reflect.Slice:
		d.sequence(n, path, v)
	default:
		d.scalar(n, path, v)
	}
}

// repeat counts a value that an alias or a merge repeats, and reports whether it may.
func (d *decoder) repeat(n *yaml.Node, path string) bool {
	d.aliased++
	if d.aliased == maxAliased+1 {
		d.fault(n, path, "aliases repeat more than %d values", maxAliased)
	}
	return d.aliased <= maxAliased
}

// wants reports whether a value is of the kind it has to be.
func (d *decoder) wants(n *yaml.Node, path string, kind yaml.Kind) bool {
	if n.Kind != kind {
		d.fault(n, path, "want %s, got %s", map[yaml.Kind]string{
			yaml.MappingNode: "a mapping", yaml.SequenceNode: "a list", yaml.ScalarNode: "a single value"}[kind], describe(n))
	}
	return n.Kind == kind
}

func (d *decoder) structure(n *yaml.Node, path string, v reflect.Value) {
	if !d.wants(n, path, yaml.MappingNode) {
		return
	}
	known, ok := d.members[v.Type()]
	if !ok {
		known = map[string][]int{}
		index(v.Type(), nil, known)
		d.members[v.Type()] = known
	}
	for _, p := range d.pairs(n, path) {
		at, ok := known[p.key.Value]
		if !ok {
			var names []string
			for name := range known {
				names = append(names, name)
			}
			hint := ""
			if near := nearmiss.Of(p.key.Value, names); len(near) > 0 {
				hint = ", did you mean " + strings.Join(near, " or ") + "?"
			}
			d.fault(p.key, under(path, p.key.Value), "unknown field%s", hint)
			continue
		}
		d.value(p.value, under(path, p.key.Value), v.FieldByIndex(at))
	}
}

// index notes where the fields of a type are, with those of the types inlined in it.
func index(t reflect.Type, at []int, known map[string][]int) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		here := append(at[:len(at):len(at)], i)
		switch {
		case f.Anonymous && (name == "" || strings.Contains(options, "inline")):
			index(f.Type, here, known)
		case f.IsExported() && name != "" && name != "-":
			known[name] = here
		}
	}
}

type pair struct{ key, value *yaml.Node }

// pairs returns the members of a mapping, with those that merge keys bring and that it doesn't have itself.
func (d *decoder) pairs(n *yaml.Node, path string) []pair {
	var own []pair
	seen := map[string]*yaml.Node{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := resolve(n.Content[i])
		switch {
		case key.Kind != yaml.ScalarNode:
			d.fault(key, path, "a key is %s", describe(key))
		case key.ShortTag() == mergeTag: // below, once all that it has itself is known
		case seen[key.Value] != nil:
			d.fault(key, under(path, key.Value), "stands twice, first at line %d", seen[key.Value].Line)
		default:
			seen[key.Value] = key
			own = append(own, pair{key, n.Content[i+1]})
		}
	}
	return append(own, d.merged(n, path, seen)...)
}

// merged returns what the merge keys of a mapping bring.
func (d *decoder) merged(n *yaml.Node, path string, seen map[string]*yaml.Node) []pair {
	var list []pair
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].ShortTag() != mergeTag {
			continue
		}
		from := resolve(n.Content[i+1])
		sources := []*yaml.Node{from}
		if from.Kind == yaml.SequenceNode {
			sources = from.Content
		}
		for _, s := range sources {
			s = resolve(s)
			switch {
			case s.Kind != yaml.MappingNode:
				d.fault(s, path, "merge wants a mapping, got %s", describe(s))
				continue
			case d.open[s]:
				d.fault(n.Content[i], path, "a merge contains itself")
				continue
			case !d.repeat(n.Content[i], path):
				return list
			}
			d.open[s] = true
			for _, p := range d.pairs(s, path) {
				if seen[p.key.Value] == nil {
					seen[p.key.Value] = p.key
					list = append(list, p)
				}
			}
			delete(d.open, s)
		}
	}
	return list
}

func (d *decoder) mapping(n *yaml.Node, path string, v reflect.Value) {
	if !d.wants(n, path, yaml.MappingNode) {
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	for _, p := range d.pairs(n, path) {
		elem := reflect.New(v.Type().Elem()).Elem()
		d.value(p.value, key(path, p.key.Value), elem)
		v.SetMapIndex(reflect.ValueOf(p.key.Value).Convert(v.Type().Key()), elem)
	}
}

func (d *decoder) sequence(n *yaml.Node, path string, v reflect.Value) {
	if !d.wants(n, path, yaml.SequenceNode) {
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
	for i, c := range n.Content {
		d.value(c, item(path, i), v.Index(i))
	}
}

// unmarshaler reads a value that has a text of its own, such as a quantity or a time.
func (d *decoder) unmarshaler(n *yaml.Node, path string, u json.Unmarshaler) {
	if !d.wants(n, path, yaml.ScalarNode) {
		return
	}
	value, err := plain(n)
	if err == nil {
		var raw []byte
		if raw, err = json.Marshal(value); err == nil {
			err = u.UnmarshalJSON(raw)
		}
	}
	if err != nil {
		d.fault(n, path, "%s: %v", describe(n), err)
	}
}

func (d *decoder) scalar(n *yaml.Node, path string, v reflect.Value) {
	if !d.wants(n, path, yaml.ScalarNode) {
		return
	}
	value, err := plain(n)
	if err != nil {
		d.fault(n, path, "%v", err)
		return
	}
	switch v.Kind() {
	case reflect.String:
		if s, ok := value.(string); ok {
			v.SetString(s)
			return
		}
		d.fault(n, path, "want a string, got %s: put it in quotes", describe(n))
	case reflect.Bool:
		if b, ok := value.(bool); ok {
			v.SetBool(b)
			return
		}
		d.fault(n, path, "want true or false, got %s", describe(n))
	case reflect.Int32, reflect.Int64:
		i, ok := value.(int64)
		switch {
		case !ok:
			d.fault(n, path, "want a whole number, got %s", describe(n))
		case v.OverflowInt(i):
			d.fault(n, path, "%d is out of range", i)
		default:
			v.SetInt(i)
		}
	default:
		d.fault(n, path, "can't be read from a manifest")
	}
}

// plain returns the Go value of a scalar: a string, bool, int64 or float64.
func plain(n *yaml.Node) (any, error) {
	switch tag := n.ShortTag(); tag {
	case "!!str", "!!timestamp":
		// YAML 1.1, which the kubelet reads, has these as booleans.
		if n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle|yaml.TaggedStyle) == 0 {
			switch n.Value {
			case "yes", "Yes", "YES", "on", "On", "ON", "y", "Y":
				return true, nil
			case "no", "No", "NO", "off", "Off", "OFF", "n", "N":
				return false, nil
			}
		}
		return n.Value, nil
	case "!!bool":
		return read[bool](n)
	case "!!int":
		return read[int64](n)
	case "!!float":
		return read[float64](n)
	default:
		return nil, fmt.Errorf("tag %s is not supported", tag)
	}
}

func read[T any](n *yaml.Node) (T, error) {
	var v T
	if err := n.Decode(&v); err != nil {
		return v, fmt.Errorf("read %s: out of range", strconv.Quote(n.Value))
	}
	return v, nil
}

// describe says what a value is, for an error.
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	}
	text := n.Value
	if len(text) > 40 {
		text = text[:40] + "…"
	}
	switch value, err := plain(n); value.(type) {
	case bool:
		return "the boolean " + text
	case int64, float64:
		return "the number " + text
	default:
		if err != nil {
			return "the value " + strconv.Quote(text)
		}
		return "the text " + strconv.Quote(text)
	}
}

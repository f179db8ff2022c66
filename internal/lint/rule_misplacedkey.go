package lint

import (
	"slices"
	"strings"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/schema"
)

// misplacedKey finds keys that belong somewhere else.
func misplacedKey() Rule {
	return Rule{
		ID: "L103", Name: "misplaced-key",
		Why: "A key in the wrong object does nothing: isGateway inside ipam is nobody's, and so is a key of the bridge in the " +
			"object of another plugin. Where this configuration has a place for it, that is an error.",
		check: func(r *run) {
			r.values(func(t typed) {
				for _, m := range t.unknown() {
					homes := r.homes(t, m)
					if len(homes) == 0 {
						continue
					}
					severity := Error
					if slices.ContainsFunc(homes, func(h home) bool { return h.foreign }) {
						severity = Warning
					}
					var names []string
					for _, h := range homes {
						names = append(names, h.name)
					}
					f := r.key(t.doc, m, severity, "the key %q does nothing%s", m.Key, t.in())
					if severity == Error {
						f.hint("move it into %s", strings.Join(names, " or "))
					} else {
						f.hint("it is a key of %s", strings.Join(names, " and "))
					}
				}
			})
		},
	}
}

// home is a place that a key belongs into.
type home struct {
	name    string
	foreign bool // it is in no object of this configuration
}

// homes are the places that know a key which t does not: those of its own network, or else the other plugins that have it.
func (r *run) homes(t typed, m *cni.Tree) []home {
	var own []home
	add := func(v *schema.Value, name string) {
		if v == nil || v == t.want {
			return
		}
		if k, ok := v.Key(m.Key); ok && k.Deprecated == "" && !slices.Contains([]string{"type", "name", "cniVersion", "args"}, m.Key) {
			own = append(own, home{name: name})
		}
	}
	if t.section != nil && !t.net.single {
		add(r.book.List(), "the network, beside plugins")
	}
	steps := t.net.steps
	if t.step != nil {
		steps = []*step{t.step}
	}
	for _, s := range steps {
		if s.usesOwn {
			add(s.keys, "the object of "+s.typ)
		}
		if s.ipam.usesOwn {
			add(s.ipam.keys, "ipam")
			if ranges, ok := s.ipam.keys.Key("ranges"); ok && t.section != &s.ipam {
				add(ranges.Items.Items, "a range of ipam.ranges")
			}
		}
		if t.want != s.ipam.keys && slices.Contains(append(s.def.Profile.Capabilities, s.ipam.def.Profile.Capabilities...), m.Key) {
			own = append(own, home{name: "capabilities"})
		}
	}
	if len(own) > 0 || t.section == nil || t.node != t.section.node {
		return compact(own)
	}
	return r.otherPlugins(t, m.Key)
}

// otherPlugins are the plugins of the same kind that have a key.
func (r *run) otherPlugins(t typed, key string) []home {
	var all []home
	for _, typ := range r.book.Types() {
		def := r.defs[typ]
		v, ok := r.book.Plugin(typ)
		if def.IsIPAM() {
			v, ok = r.book.IPAM(typ)
		}
		if !ok || typ == t.section.typ {
			continue
		}
		if _, has := v.Key(key); has && def.IsIPAM() == t.section.def.IsIPAM() {
			all = append(all, home{name: typ, foreign: true})
		}
	}
	return all
}

// compact is the list without names that stand in it already.
func compact(list []home) []home {
	var all []home
	for _, h := range list {
		if !slices.Contains(all, h) {
			all = append(all, h)
		}
	}
	return all
}

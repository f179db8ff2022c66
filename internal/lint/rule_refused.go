package lint

import (
	"maps"
	"slices"

	"github.com/cleat-cni/cleat/cni"
)

// refused has the plugins that are built in judge their own values.
func refused() Rule {
	return Rule{
		ID: "L109", Name: "refused",
		Why: "The plugin itself was asked to plan an attachment, as it would with the first pod, and refuses: a value is out " +
			"of bounds, two keys exclude each other, ranges overlap. What it refuses is left out and it is asked again, so " +
			"that all of it is found.",
		check: func(r *run) {
			for s := range r.steps() {
				if s.known && !s.def.IsIPAM() && s.typAt != nil && !s.doc.spoilt[s.typAt] {
					r.judge(s)
				}
			}
		},
	}
}

// maxRefusals bounds how many faults of a plugin's object are looked for.
const maxRefusals = 50

// judge rehearses a step until the plugin has nothing against it, without each time what it refused before.
func (r *run) judge(s *step) {
	skip := map[*cni.Tree]bool{}
	maps.Copy(skip, s.doc.spoilt)
	leave := func(t *cni.Tree) bool { return skip[t] }
	for range maxRefusals {
		got, err := s.rehearse(skip)
		if err == nil {
			s.rehearsed, s.idle, s.plan, s.pool = true, got.Idle, got.Plan, got.Allocation
			return
		}
		e := cni.AsError(err)
		if e.Code != cni.CodeInvalidConfig && e.Code != cni.CodeUnsupportedField {
			return // of the version, or of the host: L602, L603
		}
		at := placeOf(e.Msg, s.node, leave)
		if at == s.node && e.Step == "ipam" && s.ipam.node != nil {
			at = s.ipam.node
		}
		if at == s.ipam.node && s.isTold() {
			return // what is missing the runtime gives
		}
		if !holdsAny(at, skip) { // else it misses what was left out
			f := r.refusal(s, at, e)
			f.Hint = e.Hint
		}
		if at == s.node || at == s.ipam.node {
			return
		}
		skip[at] = true
	}
}

// isTold reports whether the runtime may tell the IPAM plugin what the configuration doesn't, as ranges or addresses.
func (s *step) isTold() bool {
	caps := member(s.node, "capabilities")
	return slices.ContainsFunc(s.ipam.def.Profile.Capabilities, func(name string) bool {
		c := member(caps, name)
		return c != nil && string(c.Raw) == "true"
	})
}

func (r *run) refusal(s *step, at *cni.Tree, e *cni.Error) *Finding {
	if at == s.node || at == s.ipam.node || at.IsObject() || at.IsList() {
		if at == s.node && s.typAt != nil {
			return r.value(s.doc, s.typAt, Error, "%s: %s", s.typ, e.Msg)
		}
		return r.key(s.doc, at, Error, "%s", e.Msg)
	}
	return r.value(s.doc, at, Error, "%s", e.Msg)
}

// holdsAny reports whether a value or something in it is in a set.
func holdsAny(t *cni.Tree, set map[*cni.Tree]bool) bool {
	if set[t] {
		return true
	}
	for _, c := range t.Children {
		if holdsAny(c, set) {
			return true
		}
	}
	return false
}

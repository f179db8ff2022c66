package lint

import (
	"errors"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/netstate"
)

// refusedHere finds what plugins would refuse on this machine alone.
func refusedHere() Rule {
	return Rule{
		ID: "L603", Name: "refused-here",
		Why: "The plugin was asked to plan an attachment with what the kernel says now: the interface that is the master is " +
			"not there, or has a smaller MTU; the bridge has another network's address.",
		check: func(r *run) {
			if !r.node.known {
				return
			}
			for s := range r.steps() {
				if !s.known || s.def.IsIPAM() || s.typAt == nil || s.doc.spoilt[s.typAt] || len(s.doc.spoilt) > 0 {
					continue
				}
				if e := r.refusalHere(s); e != nil {
					at := placeOf(e.Msg, s.node, func(*cni.Tree) bool { return false })
					if at == s.node {
						at = s.typAt
					}
					r.value(s.doc, at, Warning, "on this machine %s refuses: %s", s.typ, e.Msg).hint("%s", e.Hint)
				}
			}
		},
	}
}

// refusalHere is why a plugin would refuse a step on this machine; nil if it would not, or that can't be told.
func (r *run) refusalHere(s *step) *cni.Error {
	req, err := s.request(nil)
	if err != nil {
		return nil
	}
	var seeing error
	_, err = s.def.Rehearse(req, s.ipam.def, func(q netstate.Query) netstate.Facts {
		f, err := r.node.observe(q)
		seeing = errors.Join(seeing, err)
		return f
	})
	if err == nil || seeing != nil {
		return nil
	}
	if e := cni.AsError(err); e.Step == "plan" {
		return e
	}
	return nil
}

package lint

import (
	"slices"
	"strings"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/nearmiss"
)

// conventional are the capabilities of the CNI conventions, and those that runtimes have beside them.
func conventional() []string {
	return []string{"portMappings", "ipRanges", "bandwidth", "dns", "ips", "mac", "infinibandGUID", "deviceID", "aliases", "cgroupPath",
		"io.kubernetes.cri.pod-annotations"}
}

// unknownCapability finds capabilities that the plugin doesn't take.
func unknownCapability() Rule {
	return Rule{
		ID: "L307", Name: "unknown-capability",
		Why: "A capability that the plugin doesn't take is asked of nobody. Options such as snat are often written into " +
			"capabilities by mistake, and then don't count.",
		check: func(r *run) {
			for s := range r.steps() {
				caps := member(s.node, "capabilities")
				if caps == nil || !caps.IsObject() {
					continue
				}
				for _, c := range caps.Children {
					r.capability(s, c)
				}
			}
		},
	}
}

func (r *run) capability(s *step, c *cni.Tree) {
	taken := slices.Clone(s.def.Profile.Capabilities)
	knowsAll := s.usesOwn
	if s.ipam.typ != "" && !s.known || s.def.TakesIPAM() {
		taken = append(taken, s.ipam.def.Profile.Capabilities...)
		knowsAll = knowsAll && (s.ipam.typ == "" || s.ipam.usesOwn)
	}
	near := nearmiss.Of(c.Key, append(slices.Clone(taken), conventional()...))
	_, isOption := s.keys.Key(c.Key)
	switch {
	case slices.Contains(taken, c.Key):
	case !knowsAll && slices.Contains(conventional(), c.Key):
	case len(near) > 0 && !slices.Contains(conventional(), c.Key):
		r.key(s.doc, c, Error, "no plugin takes the capability %q", c.Key).hint("did you mean %s?", strings.Join(near, " or "))
	case !knowsAll: // a foreign plugin may have its own
	case isOption:
		r.key(s.doc, c, Warning, "%q is no capability but an option of %s: here it does nothing", c.Key, s.typ).
			hint("move it out of capabilities, beside type")
	case len(taken) == 0:
		r.key(s.doc, c, Warning, "%s takes no capabilities: %s is asked of nobody", s.typ, c.Key).hint("remove it")
	default:
		r.key(s.doc, c, Warning, "%s does not take the capability %q", s.typ, c.Key).hint("it takes %s", strings.Join(taken, ", "))
	}
}

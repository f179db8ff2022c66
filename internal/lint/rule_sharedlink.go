package lint

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/netstate"
)

// sharedLink finds networks that make the same interface of the host in different ways.
func sharedLink() Rule {
	return Rule{
		ID: "L406", Name: "shared-interface",
		Why: "A bridge is made by the first pod of a network. Another network that names the same bridge with another gateway " +
			"fails: an interface has one IPv4 gateway. With forceAddress the two take it from each other.",
		check: func(r *run) {
			users := map[string][]*step{}
			for s := range r.steps() {
				for _, l := range s.plan.State.Links {
					if l.Shared && l.Place == netstate.Host {
						r.clash(s, l.Name, users[l.Name])
						users[l.Name] = append(users[l.Name], s)
					}
				}
			}
		},
	}
}

// clash tells of the first network before that puts other addresses on an interface of the host.
func (r *run) clash(s *step, name string, before []*step) {
	mine := hostAddrs(s, name)
	for _, other := range before {
		if other.net.name == s.net.name {
			continue
		}
		theirs := hostAddrs(other, name)
		if len(mine) == 0 || len(theirs) == 0 || slices.Equal(mine, theirs) {
			continue
		}
		at := s.typAt
		if t := holder(s.node, name, func(*cni.Tree) bool { return false }); t != nil {
			at = t
		}
		r.value(s.doc, at, Warning, "%s has the address %s for this network, and %s for the network %s", name, strings.Join(mine, ", "),
			strings.Join(theirs, ", "), other.net.name).
			hint("name another interface here than %s does", filepath.Base(other.doc.Path))
		return
	}
}

// hostAddrs are the IPv4 addresses that a step puts on an interface of the host: there can be but one network's.
func hostAddrs(s *step, dev string) []string {
	var all []string
	for _, a := range s.plan.State.Addrs {
		if a.Place == netstate.Host && a.Dev == dev && a.Prefix.Addr().Is4() {
			all = append(all, a.Prefix.String())
		}
	}
	return all
}

package lint

import (
	"context"
	"slices"

	"github.com/cleat-cni/cleat/internal/hostnet"
	"github.com/cleat-cni/cleat/netstate"
)

// Node tells what depends on the machine.
type Node interface {
	// Plugin says what would run the plugins of a type here. An error is that nothing would.
	Plugin(ctx context.Context, typ string) (Installed, error)
	// Facts is what the kernel says of the host.
	Facts(ctx context.Context, q netstate.Query) (netstate.Facts, error)
	// Net is the host's network.
	Net() (hostnet.State, error)
}

// Installed is what runs the plugins of a type.
type Installed struct {
	Where    string   // a path, or that it is built in
	Versions []string // of the specification, that it speaks; nil if it did not say
}

// facts is what a node has told.
type facts struct {
	known   bool
	plugins map[string]answer
	host    hostnet.State
	observe func(netstate.Query) (netstate.Facts, error)
}

type answer struct {
	Installed
	err error
}

// ask has the machine tell what rules will want to know. What it can't tell is passed over.
func (r *run) ask(ctx context.Context, node Node) error {
	if node == nil {
		return ctx.Err()
	}
	r.node = facts{known: true, plugins: map[string]answer{}}
	for _, s := range r.sections() {
		if _, asked := r.node.plugins[s.typ]; s.typ == "" || asked {
			continue
		}
		in, err := node.Plugin(ctx, s.typ)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		r.node.plugins[s.typ] = answer{in, err}
	}
	if host, err := node.Net(); err == nil {
		r.node.host = host
	}
	r.node.observe = func(q netstate.Query) (netstate.Facts, error) { return node.Facts(ctx, q) }
	return ctx.Err()
}

// common are the versions, the lowest first, that all plugins of a network speak here, of those that said.
func (r *run) common(n *network, versions []string) []string {
	return slices.DeleteFunc(slices.Clone(versions), func(v string) bool {
		return slices.ContainsFunc(n.steps, func(s *step) bool {
			for _, part := range []section{s.section, s.ipam} {
				a, asked := r.node.plugins[part.typ]
				if asked && a.Versions != nil && !slices.Contains(a.Versions, v) {
					return true
				}
			}
			return false
		})
	})
}

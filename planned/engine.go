package planned

import (
	"context"
	"log/slog"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/netstate"
	"github.com/cleat-cni/cleat/plugin"
)

// Kernel makes states real. Package internal/kernel is the one for Linux; a memory one for tests
// behaves the same, held to it by one contract test.
type Kernel interface {
	// Open binds the host's namespace and the pod's, whose path is pod. With "" only the host's is
	// bound. Errors: netstate.ErrNotExist, ErrNotNamespace, ErrHostNamespace (the latter not if
	// allowHost).
	Open(ctx context.Context, pod string, allowHost bool) (Session, error)
	// Collect removes, unless dryRun, whatever carries the mark of network and of no owner in valid, and returns what that
	// was, also beside an error.
	Collect(ctx context.Context, network string, valid []netstate.Owner, dryRun bool) ([]netstate.Freed, error)
}

// Session acts in the namespaces of one attachment.
type Session interface {
	// Observe reads what q asks for. What does not exist is left out.
	Observe(ctx context.Context, q netstate.Query) (netstate.Facts, error)
	// Apply makes s. Shared objects may be there; another object that is there is ErrExist (ErrInUse for an
	// nft element, with its living owner in the text). On an error all that this call made is undone.
	Apply(ctx context.Context, s netstate.State) error
	// Diff compares s with what is there.
	Diff(ctx context.Context, s netstate.State) ([]netstate.Difference, error)
	// Remove removes what of s belongs to s.Owner; shared objects stay, missing ones are success,
	// independent steps go on after an error. With sweep also the elements of s.Tables that carry the owner's mark but are not named in s.
	Remove(ctx context.Context, s netstate.State, sweep bool) error
	Close() error
}

// Leases keeps which address is whose. Package internal/leases is the one on disk.
type Leases interface {
	// Reserve takes one address of each set for owner: all or none. dryRun only says which they would be.
	// Errors: netstate.ErrExist (owner has one already), ErrInUse (a wanted address is another's), netstate.ErrExhausted.
	Reserve(ctx context.Context, p netstate.Pool, owner netstate.Owner, dryRun bool) ([]netstate.Lease, error)
	// Held returns what owner holds.
	Held(ctx context.Context, p netstate.Pool, owner netstate.Owner) ([]netstate.Lease, error)
	// Release frees what owner holds; nothing is success.
	Release(ctx context.Context, p netstate.Pool, owner netstate.Owner) error
	// Collect frees, unless dryRun, what is held by none of valid, and returns it.
	Collect(ctx context.Context, p netstate.Pool, valid []netstate.Owner, dryRun bool) ([]netstate.Lease, error)
}

// Config configures an [Engine].
type Config struct {
	Kernel   Kernel        // required
	Leases   Leases        // required for IPAM plugins
	Delegate plugin.Finder // required for plugins that use ipam: finds the IPAM plugin
	Log      *slog.Logger  // default: nothing is logged
}

// Engine makes plugins of specs and runs their verbs. It is safe for concurrent use.
type Engine struct {
	cfg Config
}

// NewEngine returns an engine.
func NewEngine(cfg Config) *Engine { return &Engine{cfg: cfg} }

// Definition is a [Spec] or [IPAMSpec] whatever its configuration type.
type Definition struct {
	Info plugin.Info
	// unexported: the closures over C
}

// Define makes a definition of a spec.
func Define[C any](s Spec[C]) Definition { panic("stub") }

// DefineIPAM makes a definition of an IPAM spec.
func DefineIPAM[C any](s IPAMSpec[C]) Definition { panic("stub") }

// Plugin returns the plugin that d describes, acting through e.
func (e *Engine) Plugin(d Definition) plugin.Plugin { panic("stub") }

// Step is one plugin of a list with its call. For the ADD of a list, Req.Prev of all but the first step is
// filled in from the result before.
type Step struct {
	Def Definition
	Req *plugin.Request
}

// AddList plans the steps one after the other and applies them in one pass. It returns the result after each.
func (e *Engine) AddList(ctx context.Context, steps []Step) ([]*cni.Result, error) { panic("stub") }

// DelList removes the steps, which come in the order of the list, in one pass.
func (e *Engine) DelList(ctx context.Context, steps []Step) error { panic("stub") }

// PlanList says what AddList would do, and changes nothing: the plan of each step. With an IPAM plugin
// that is built in the next free address is looked at, not taken.
func (e *Engine) PlanList(ctx context.Context, steps []Step) ([]Plan, error) { panic("stub") }

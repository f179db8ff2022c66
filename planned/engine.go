package planned

import (
	"context"
	"log/slog"
	"time"

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
	// Supports reports whether s could be made on this machine, without touching its network. The error names the object
	// that could not.
	Supports(ctx context.Context, s netstate.State) error
}

// Session acts in the namespaces of one attachment.
type Session interface {
	// Observe reads what q asks for. What does not exist is left out.
	Observe(ctx context.Context, q netstate.Query) (netstate.Facts, error)
	// Apply makes s. Shared objects may be there; another object that is there is ErrExist (ErrInUse for an
	// nft element, with its living owner in the text; one of another interface of the container stays as it is). On an error all that this call made is undone.
	Apply(ctx context.Context, s netstate.State) error
	// Diff compares s with what is there.
	Diff(ctx context.Context, s netstate.State) ([]netstate.Difference, error)
	// Remove removes what of s belongs to s.Owner; shared objects stay, missing ones are success,
	// independent steps go on after an error. With sweep also the elements of s.Tables that carry the owner's mark but are not named in s.
	Remove(ctx context.Context, s netstate.State, sweep bool) error
	Close() error
}

// kernelOf is a [Kernel] but for the type that Open returns.
type kernelOf[S Session] interface {
	Open(ctx context.Context, pod string, allowHost bool) (S, error)
	Collect(ctx context.Context, network string, valid []netstate.Owner, dryRun bool) ([]netstate.Freed, error)
	Supports(ctx context.Context, s netstate.State) error
}

// Wrap makes a [Kernel] of one whose Open returns a type of its own.
func Wrap[S Session](k kernelOf[S]) Kernel { return wrapped[S]{k} }

type wrapped[S Session] struct{ kernelOf[S] }

func (w wrapped[S]) Open(ctx context.Context, pod string, allowHost bool) (Session, error) {
	s, err := w.kernelOf.Open(ctx, pod, allowHost)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Leases keeps which address is whose. Package internal/leases is the one on disk.
type Leases interface {
	// Reserve takes one address of each set for owner: all or none. dryRun only says which they would be.
	// Errors: netstate.ErrExist (owner has one already), ErrInUse (a wanted address is another's), ErrExhausted.
	Reserve(ctx context.Context, p netstate.Pool, owner netstate.Owner, dryRun bool) ([]netstate.Lease, error)
	// Held returns what owner holds.
	Held(ctx context.Context, p netstate.Pool, owner netstate.Owner) ([]netstate.Lease, error)
	// Release frees what owner holds; nothing is success.
	Release(ctx context.Context, p netstate.Pool, owner netstate.Owner) error
	// Collect frees, unless dryRun, what is held by none of valid, and returns it.
	Collect(ctx context.Context, p netstate.Pool, valid []netstate.Owner, dryRun bool) ([]netstate.Lease, error)
}

// Originals keeps, from ADD to DEL, how things were that an attachment changes. Package internal/originals is the one on disk.
type Originals interface {
	// Save keeps s for s.Owner in the folder dir, unless something is kept for the owner already: that was before. It
	// reports whether s is what is kept now.
	Save(dir string, s netstate.State) (bool, error)
	// Load returns what is kept for owner; nothing is an empty state.
	Load(dir string, owner netstate.Owner) (netstate.State, error)
	// Remove forgets what is kept for owner; nothing is success.
	Remove(dir string, owner netstate.Owner) error
	// Collect forgets, unless dryRun, what is kept for owners of network that are not in valid, and returns them.
	Collect(dir, network string, valid []netstate.Owner, dryRun bool) ([]netstate.Freed, error)
}

// Config configures an [Engine].
type Config struct {
	Kernel   Kernel        // required
	Leases   Leases        // required for IPAM plugins
	Delegate plugin.Finder // required for plugins that use ipam: finds the IPAM plugin
	// Originals is required for plugins that change what outlives an attachment. Default: nothing is put back.
	Originals Originals
	Log       *slog.Logger // default: nothing is logged
	// UndoTimeout bounds the undoing of a failed ADD, which goes on when the caller's
	// context has ended. Default 30 s.
	UndoTimeout time.Duration
}

// Engine makes plugins of definitions and runs their verbs. It is safe for concurrent
// use; that a container has one operation at a time is the runtime's duty.
type Engine struct {
	kernel    Kernel
	leases    Leases
	originals Originals
	delegate  plugin.Finder
	log       *slog.Logger
	undo      time.Duration
}

// NewEngine returns an engine.
func NewEngine(cfg Config) *Engine {
	e := &Engine{kernel: cfg.Kernel, leases: cfg.Leases, originals: cfg.Originals, delegate: cfg.Delegate, log: cfg.Log, undo: cfg.UndoTimeout}
	if e.log == nil {
		e.log = slog.New(slog.DiscardHandler)
	}
	if e.undo == 0 {
		e.undo = 30 * time.Second
	}
	return e
}

// Plugin returns the plugin that d describes, acting through e.
func (e *Engine) Plugin(d Definition) plugin.Plugin {
	if d.IsIPAM() {
		return &ipamVerbs{e, d}
	}
	return &verbs{e, d}
}

// Step is one plugin of a list with its call. What takes several steps wants at least one, and all of one attachment.
type Step struct {
	Def Definition
	Req *plugin.Request
	// Followed: plugins follow in the list that are not among the steps. CHECK and repair then leave alone what those may have
	// changed without the result telling.
	Followed bool
}

// undoing returns a context for undoing, which outlives the caller's.
func (e *Engine) undoing(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), e.undo)
}

// openPod opens the namespaces of an ADD or CHECK.
func (e *Engine) openPod(ctx context.Context, req *plugin.Request) (Session, error) {
	s, err := e.kernel.Open(ctx, req.NetNS, req.AllowHostNetNS)
	if err != nil {
		return nil, explain("open", plugin.NetNSError(req.NetNS, err))
	}
	return s, nil
}

// openLeft opens the namespaces of a DEL: a pod's that is gone, or is none, or is the host's own, is
// left alone, and the host's side is freed all the same. inPod says whether the pod's is open.
func (e *Engine) openLeft(ctx context.Context, req *plugin.Request) (s Session, inPod bool, err error) {
	if req.NetNS != "" {
		s, err := e.kernel.Open(ctx, req.NetNS, req.AllowHostNetNS)
		if err == nil {
			return s, true, nil
		}
		e.log.Info("namespace left alone", "netns", req.NetNS, "why", err)
	}
	s, err = e.kernel.Open(ctx, "", false)
	return s, false, explain("open", err)
}

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/cleat-cni/cleat/internal/builtin"
	"github.com/cleat-cni/cleat/internal/netns"
	"github.com/cleat-cni/cleat/internal/output"
)

// Config is what the command line sees of the world.
type Config struct {
	Args    []string            // required: the arguments without the program's name
	Env     func(string) string // required
	Stdout  io.Writer           // required
	Stderr  io.Writer           // required
	Version string              // of this program, as `cleat version` prints it
	Program string              // its file, beside which cleat-cni lies; "" if that is not known
	Cnitool bool                // behave as the reference cnitool
	// NewRunner makes what runs plugins. Required.
	NewRunner func(RunnerOptions) (*builtin.Runner, error)
	Now       func() time.Time // default time.Now
	Root      string           // of the machine's files, such as /proc; default /
	NetNSDir  string           // where namespaces have names; default /run/netns
	LockDir   string           // of the locks of operations; default the runtime's
	EUID      int              // the user that the program acts as; default root
	// Exec becomes another program, with the name it is called by as the first argument. Default: there is no cleatd.
	Exec func(path string, argv []string) error
}

// RunnerOptions say how plugins are to be run.
type RunnerOptions struct {
	Mode     builtin.Mode
	StateDir string        // of records
	Host     *netns.Handle // the namespace that is the host's; nil is this process's own
	Log      *slog.Logger
	Stderr   io.Writer // of programs
}

// app is one run of the program: the world and the global flags.
type app struct {
	cfg Config

	confDir    string
	pluginDirs []string
	stateDir   string
	agentState bool // what the node agent recorded is shown too
	execOnly   bool
	builtin    bool
	timeout    time.Duration
	output     output.Format
	verbose    bool
	jsonLog    bool
}

// Main runs the command that cfg.Args name and returns the exit status. The end of ctx is taken for an interrupt.
func Main(ctx context.Context, cfg Config) int {
	a, err := execute(ctx, cfg)
	if err == nil || errors.Is(err, errFound) {
		return a.exitStatus(ctx, err)
	}
	if !a.output.Structured() {
		// An error in the flags may stand before -o.
		a.output = askedFormat(cfg.Args)
	}
	if ctx.Err() != nil {
		err = fmt.Errorf("interrupted: %w", err)
	}
	a.report(err)
	return a.exitStatus(ctx, err)
}

// execute is Main without the report of what went wrong.
func execute(ctx context.Context, cfg Config) (*app, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Root == "" {
		cfg.Root = "/"
	}
	if cfg.NetNSDir == "" {
		cfg.NetNSDir = "/run/netns"
	}
	a := &app{cfg: cfg, output: output.Tabular}
	root := a.root()
	if cfg.Cnitool {
		root = a.cnitoolRoot()
	}
	root.SetArgs(commandFirst(root, cfg.Args))
	root.SetOut(cfg.Stdout)
	root.SetErr(cfg.Stderr)
	return a, root.ExecuteContext(ctx)
}

// bounded returns ctx with the time that --timeout gives to the work of a command.
func (a *app) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if a.timeout <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, a.timeout, timeoutError(a.timeout))
}

// ended reports whether ctx has ended, and returns errs with that, unless one of them tells of it.
func ended(ctx context.Context, errs []error) ([]error, bool) {
	cause := context.Cause(ctx)
	if cause == nil {
		return errs, false
	}
	if !errors.Is(errors.Join(errs...), cause) {
		errs = append(errs, cause)
	}
	return errs, true
}

// timeoutError is the end of the time that --timeout gave. It is a context.DeadlineExceeded.
type timeoutError time.Duration

func (e timeoutError) Error() string {
	return fmt.Sprintf("no end within %v (--timeout)", time.Duration(e))
}

func (timeoutError) Is(target error) bool { return target == context.DeadlineExceeded }

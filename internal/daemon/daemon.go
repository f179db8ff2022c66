// Package daemon has the commands of cleatd, a file each: the node agent, and what asks one. cleat starts cleatd for them, so that it links
// nothing of what they need.
package daemon

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/agent"
	"github.com/cleat-cni/cleat/internal/agent/server"
	"github.com/cleat-cni/cleat/internal/output"
	"github.com/cleat-cni/cleat/internal/usage"
	"github.com/cleat-cni/cleat/libcni"
)

// Config is what the command line sees of the world.
type Config struct {
	Args    []string  // required: the arguments without the program's name
	Name    string    // required: how the program is called in messages: cleat or cleatd
	Stdin   io.Reader // required
	Stdout  io.Writer // required
	Stderr  io.Writer // required
	Version string    // required
	Program string    // the file of this program, beside which cleat-cni lies; "" if that is not known
	// NewRunner makes what runs plugins. Required.
	NewRunner func(RunnerOptions) (libcni.Runner, error)
	Now       func() time.Time // default time.Now
}

// RunnerOptions say how plugins are to be run.
type RunnerOptions struct {
	ExecOnly bool // always as programs
	Builtin  bool // never as programs
	StateDir string
	Log      *slog.Logger
}

// The exit status.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
)

// app is one run of the program.
type app struct {
	cfg     Config
	root    string // --root
	output  output.Format
	verbose bool
	jsonLog bool
}

// usageError is a mistake in the arguments.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// exitError is the exit status of a command that was run somewhere else.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("it ended with %d", int(e)) }

// Main runs the command that cfg.Args name and returns the exit status.
func Main(ctx context.Context, cfg Config) int {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	a := &app{cfg: cfg, output: output.Tabular}
	root := a.command()
	root.SetArgs(cfg.Args)
	root.SetOut(cfg.Stdout)
	root.SetErr(cfg.Stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitDone
	}
	if code, ok := errors.AsType[exitError](err); ok {
		return int(code)
	}
	a.report(err)
	switch _, usage := errors.AsType[*usageError](err); {
	case ctx.Err() != nil:
		return exitInterrupted
	case usage:
		return exitUsage
	}
	return exitFailed
}

// report says what went wrong, with what to do.
func (a *app) report(err error) {
	e := cni.AsError(err)
	hint := cmp.Or(e.Hint, hintFor(err))
	if a.output.Structured() {
		_ = output.WriteStructured(a.cfg.Stdout, a.output, map[string]any{"code": e.Code, "msg": e.Msg, "details": e.Details,
			"plugin": e.Plugin, "verb": e.Verb, "step": e.Step, "hint": hint}) // there is nobody left to tell
		return
	}
	fmt.Fprintf(a.cfg.Stderr, "%s: %s\n", a.cfg.Name, output.Printable(err.Error()))
	if hint != "" {
		fmt.Fprintf(a.cfg.Stderr, "hint: %s\n", output.Printable(hint))
	}
}

func hintFor(err error) string {
	if bad, ok := errors.AsType[*server.ListenError](err); ok {
		return "health and metrics are served at --listen " + bad.Address + ": give it another address, or none"
	}
	switch {
	case errors.Is(err, server.ErrNoAgent):
		return "start one: cleat agent --manifests DIR; or name its folder with --root"
	case errors.Is(err, agent.ErrRuns):
		return "cleat pods shows what it runs; give this one another --root"
	case errors.Is(err, os.ErrPermission):
		return "pods are made by root: try sudo"
	}
	return ""
}

// command returns the command tree.
func (a *app) command() *cobra.Command {
	c := &cobra.Command{Use: a.cfg.Name, Short: "The daemons of Cleat", SilenceErrors: true, SilenceUsage: true, Version: a.cfg.Version,
		Args: cobra.NoArgs, RunE: func(c *cobra.Command, _ []string) error { return c.Help() }}
	c.CompletionOptions.HiddenDefaultCmd = true
	f := c.PersistentFlags()
	f.SortFlags = false
	f.StringVar(&a.root, "root", agent.DefaultRoot, "folder of the agent's state and socket")
	f.VarP(&a.output, "output", "o", "form of the result")
	completeFlag(c, "output", completeFormat)
	f.BoolVarP(&a.verbose, "verbose", "v", false, "say more on standard error")
	f.BoolVar(&a.jsonLog, "json-log", false, "write messages as JSON lines")
	c.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &usageError{usage.Explain(err)} })
	c.AddCommand(a.agentCmd(), a.podsCmd())
	return c
}

func (a *app) client() *server.Client { return server.NewClient(agent.Socket(a.root)) }

func (a *app) log() *slog.Logger {
	o := &slog.HandlerOptions{Level: slog.LevelInfo}
	if a.verbose {
		o.Level = slog.LevelDebug
	}
	if a.jsonLog {
		return slog.New(slog.NewJSONHandler(a.cfg.Stderr, o))
	}
	return slog.New(slog.NewTextHandler(a.cfg.Stderr, o))
}

// args makes a usage error of what cobra says of arguments.
func args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(c *cobra.Command, list []string) error {
		if err := check(c, list); err != nil {
			return &usageError{err}
		}
		return nil
	}
}

// print prints a value for programs, or else what table gives.
func (a *app) print(v any, table func() *output.Table) error {
	if a.output.Structured() {
		data, err := json.Marshal(v)
		if err != nil {
			return err
		}
		return output.WriteStructured(a.cfg.Stdout, a.output, json.RawMessage(data))
	}
	return table().Write(a.cfg.Stdout, a.output == output.Wide)
}

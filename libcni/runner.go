package libcni

import (
	"context"
	"encoding/json"

	"github.com/cleat-cni/cleat/cni"
)

// Call is one plugin to run.
type Call struct {
	Verb        cni.Verb
	Type        string
	ContainerID string
	NetNS       string
	IfName      string
	Args        cni.Args
	Dirs        []string        // plugin folders, in order: CNI_PATH
	Conf        *cni.Object     // the request configuration without prevResult
	Prev        json.RawMessage // prevResult; nil is none
}

// Stdin returns what the plugin reads on standard input.
func (c Call) Stdin() []byte { return c.Request().Bytes() }

// Request is the whole request configuration, prevResult included.
func (c Call) Request() *cni.Object {
	if c.Prev == nil {
		return c.Conf
	}
	conf := c.Conf.Clone()
	conf.Set("prevResult", c.Prev)
	return conf
}

// Runner finds and runs plugins. The default one runs executables; package internal/builtin has
// one that calls the plugins in this process.
type Runner interface {
	// Find says where the plugin of a type is: a path, or what else runs it.
	Find(typ string, dirs []string) (string, error)
	// Run runs the first of calls, or as many of them from the front as it can do at once, and returns the standard
	// output of each call that it ran (at least one, unless there is an error). The calls are the rest of one operation in the order in
	// which they are to run (for DEL the list reversed). For ADD the result of each is prevResult of the next; the runner
	// that does several passes it on, and libcni between runs. An error is a *cni.Error where the plugin gave one, with Plugin set.
	// Beside an error it returns the outputs of the calls before the failed one, unless it has undone those itself; what the calls
	// after the one that Plugin names did, it has undone.
	Run(ctx context.Context, calls []Call) ([][]byte, error)
}

// UndoneError is an error of a Runner that has undone what its ADD calls did: nothing is left of them, nor was
// anything touched that stood before, so they need no DEL.
type UndoneError struct{ Err error }

// Error is the cause's.
func (e *UndoneError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *UndoneError) Unwrap() error { return e.Err }

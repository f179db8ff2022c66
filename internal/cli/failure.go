package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/output"
)

// The exit status of cleat.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitFound       = 3
	exitInterrupted = 130
)

// errFound says that a command found what it was to look for and has printed it: exit status 3.
var errFound = errors.New("found differences")

// usageError is a mistake in the arguments: exit status 2.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) *usageError {
	return &usageError{fmt.Errorf(format, args...)}
}

// failure is what is told about an error, in the words of the specification's error object.
type failure struct {
	Code    cni.Code `json:"code"`
	Msg     string   `json:"msg"`
	Details string   `json:"details"`
	Plugin  string   `json:"plugin"`
	Verb    cni.Verb `json:"verb"`
	Step    string   `json:"step"`
	Hint    string   `json:"hint"`
	*gcView          // what a gc did beside the error

	text string // the whole in one line
}

// describe makes a failure of an error.
func (a *app) describe(err error) failure {
	e := cni.AsError(err)
	f := failure{
		Code: e.Code, Msg: e.Msg, Details: e.Details, Plugin: e.Plugin, Verb: e.Verb, Step: e.Step, Hint: e.Hint,
		text: err.Error(),
	}
	if _, ok := errors.AsType[*usageError](err); ok {
		f.Code = cni.CodeInvalidEnvironment
	}
	if done, ok := errors.AsType[*partly](err); ok {
		f.gcView = &done.done
	}
	if h, ok := errors.AsType[*hinted](err); ok && h.hint != "" {
		f.Hint = h.hint
	}
	if f.Hint == "" && errors.Is(err, fs.ErrPermission) && a.cfg.EUID != 0 {
		f.Hint = "networks are made by root: try sudo"
	}
	return f
}

// exitStatus says what the process ends with after err. The end of ctx is a signal's doing. cnitool knows no status but 1.
func (a *app) exitStatus(ctx context.Context, err error) int {
	switch {
	case err == nil:
		return exitDone
	case ctx.Err() != nil:
		return exitInterrupted
	case errors.Is(err, errFound):
		return exitFound
	}
	if _, ok := errors.AsType[*usageError](err); ok && !a.cfg.Cnitool {
		return exitUsage
	}
	return exitFailed
}

// report prints an error: one object on stdout for a program, else one line and the hint on stderr.
func (a *app) report(err error) {
	f := a.describe(err)
	switch {
	case a.output.Structured():
		if werr := output.WriteStructured(a.cfg.Stdout, a.output, f); werr != nil {
			fmt.Fprintf(a.cfg.Stderr, "%s: %s (%v)\n", a.name(), output.Printable(f.text), werr)
		}
	case a.jsonLog:
		a.log().Error(f.text, slog.Uint64("code", uint64(f.Code)), slog.String("plugin", f.Plugin),
			slog.String("verb", string(f.Verb)), slog.String("step", f.Step), slog.String("hint", f.Hint))
	default:
		fmt.Fprintf(a.cfg.Stderr, "%s: %s%s\n", a.name(), output.Printable(f.text), a.shownCode(err))
		if f.Hint != "" {
			fmt.Fprintf(a.cfg.Stderr, "hint: %s\n", output.Printable(f.Hint))
		}
	}
}

// name is what the program was called as.
func (a *app) name() string {
	if a.cfg.Cnitool {
		return "cnitool"
	}
	return "cleat"
}

// shownCode is the code of a plugin's or the runtime's error as cnitool shows it, where a plugin's failure to be ready (50)
// must be told from that of existing attachments (51).
func (a *app) shownCode(err error) string {
	e, ok := errors.AsType[*cni.Error](err)
	if _, usage := errors.AsType[*usageError](err); usage || !ok || !a.cfg.Cnitool {
		return ""
	}
	return fmt.Sprintf(" (code %d)", e.Code)
}

// log returns the logger that --json-log and -v ask for.
func (a *app) log() *slog.Logger {
	level := slog.LevelWarn
	if a.verbose {
		level = slog.LevelDebug
	}
	return slog.New(logHandler(a.cfg.Stderr, level, a.jsonLog))
}

// hinted is an error with a hint of what to do that goes before any other it has.
type hinted struct {
	error
	hint string
}

func (e *hinted) Unwrap() error { return e.error }

func withHint(err error, hint string) error { return &hinted{err, hint} }

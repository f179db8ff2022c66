// Package pluginexec finds and runs plugin programs. The runtime and the SDK's delegation share it.
//
// [Find] says what is wrong with a plugin that can't be run; [Run] runs one so that nothing it does hangs
// or floods the caller: it runs in a process group of its own, which is ended as a whole when the
// context ends, a pipe that some grandchild keeps open is not waited for, output is bounded, and
// whatever is not an answer becomes an error that shows what the plugin did.
package pluginexec

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cleat-cni/cleat/cni"
)

const (
	maxStdout    = 8 << 20                // bytes; more is no answer
	stderrTail   = 4 << 10                // bytes kept for errors
	defaultGrace = 2 * time.Second        // from TERM to KILL
	pipeWait     = time.Second            // for output of a plugin that has exited
	killWait     = 5 * time.Second        // for a killed plugin to go: one in an uninterruptible call does not
	busyWait     = 5 * time.Second        // for a program that is being written
	busyStep     = 10 * time.Millisecond  // the first pause between tries, doubled each time
	busyStepMax  = 250 * time.Millisecond // the longest
)

// Command is one run of a plugin program.
type Command struct {
	Path   string        // required: the program, as [Find] returned it
	Type   string        // default: the last element of Path
	Verb   cni.Verb      // required
	Env    []string      // required: the whole environment; see [Environ]
	Stdin  []byte        // the configuration
	Stderr io.Writer     // gets what the plugin writes to its standard error; default nobody
	Grace  time.Duration // between TERM and KILL when ctx has ended; default 2 s
}

// Environ returns the variables of base with those of set put in place of the ones of that name.
func Environ(base []string, set map[string]string) []string {
	env := make([]string, 0, len(base)+len(set))
	for _, kv := range base {
		name, _, _ := strings.Cut(kv, "=")
		if _, ok := set[name]; !ok {
			env = append(env, kv)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		env = append(env, name+"="+set[name])
	}
	return env
}

// Run runs a plugin program and returns its standard output: for ADD and VERSION one JSON object, for the other
// verbs whatever it is. An error is a [*cni.Error] with Plugin and Verb: the plugin's own if it
// printed one, else one that shows how it ended and the beginnings of what it wrote. When ctx ends
// first the error matches the context's.
func Run(ctx context.Context, c Command) ([]byte, error) {
	p, err := c.run(ctx)
	if err != nil {
		return nil, err
	}
	return p.answer()
}

// Output is what a program left: all of its standard output, and the end of its standard error.
type Output struct{ Stdout, Stderr []byte }

// RunRaw runs a program and returns what it wrote, whatever that is; Verb and Type of c serve for errors only and may be left out. An
// error is a [*cni.Error] as of Run; that of a program which ended with another status than 0 wraps an [*exec.ExitError], and the output
// is returned beside it.
func RunRaw(ctx context.Context, c Command) (Output, error) {
	p, err := c.run(ctx)
	if err != nil {
		return Output{}, err
	}
	return p.output()
}

// run starts the program and waits for its end.
func (c Command) run(ctx context.Context) (*process, error) {
	if c.Type == "" {
		c.Type = filepath.Base(c.Path)
	}
	if err := ctx.Err(); err != nil {
		return nil, c.ended(ctx, "not started")
	}
	defer holdThread()()
	p, err := c.start(ctx)
	if err != nil {
		return nil, err
	}
	return p, p.finish(ctx)
}

// process is a plugin that runs.
type process struct {
	Command
	cmd    *exec.Cmd
	stdout head
	stderr tail
	waited error // what Wait returned
}

// start starts the program. One that is open for writing ("text file busy": an installer is at it) is tried again
// for a while.
func (c Command) start(ctx context.Context) (*process, error) {
	var patience <-chan time.Time
	for step := busyStep; ; step = min(2*step, busyStepMax) {
		p := c.prepare()
		err := p.cmd.Start()
		if err == nil {
			return p, nil
		}
		if !isBusy(err) {
			return nil, c.startError(err)
		}
		if patience == nil {
			patience = time.After(busyWait)
		}
		select {
		case <-ctx.Done():
			return nil, c.ended(ctx, "not started: the program is being written (text file busy)")
		case <-patience:
			return nil, c.startError(err)
		case <-time.After(step):
		}
	}
}

func (c Command) prepare() *process {
	p := &process{Command: c, cmd: exec.Command(c.Path), stdout: head{max: maxStdout}, stderr: tail{max: stderrTail, to: c.Stderr}}
	p.cmd.Env = c.Env
	p.cmd.Stdin = bytes.NewReader(c.Stdin)
	p.cmd.Stdout = &p.stdout
	p.cmd.Stderr = &p.stderr
	p.cmd.WaitDelay = pipeWait
	ownGroup(p.cmd)
	dieTogether(p.cmd)
	return p
}

// finish waits for the end of the process, or brings it about when ctx ends, which is an error.
func (p *process) finish(ctx context.Context) error {
	done := make(chan error, 1)
	go func() { done <- p.cmd.Wait() }()
	select {
	case p.waited = <-done:
		return nil
	case <-ctx.Done():
	}
	signalGroup(p.cmd, false)
	if !within(p.grace(), done) {
		signalGroup(p.cmd, true)
		if !within(killWait, done) {
			return p.ended(ctx, fmt.Sprintf("pid %d doesn't end though it was killed", p.cmd.Process.Pid))
		}
	}
	// What the plugin started may have outlived it.
	signalGroup(p.cmd, true)
	e := p.ended(ctx, "stopped before it answered")
	e.Details = p.wrote()
	return e
}

// within reports whether done came in time.
func within(d time.Duration, done <-chan error) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-done:
		return true
	case <-t.C:
		return false
	}
}

func (p *process) grace() time.Duration {
	if p.Grace > 0 {
		return p.Grace
	}
	return defaultGrace
}

// errorf makes an error that says which program did what.
func (c Command) errorf(code cni.Code, format string, args ...any) *cni.Error {
	return &cni.Error{
		Code: code, Plugin: c.Type, Verb: c.Verb,
		Msg: fmt.Sprintf("%s: %s", strings.TrimSpace(c.Path+" "+string(c.Verb)), fmt.Sprintf(format, args...)),
	}
}

func (c Command) ended(ctx context.Context, what string) *cni.Error {
	e := c.errorf(cni.CodeTryAgain, "%s: %v", what, context.Cause(ctx))
	if e.Err = context.Cause(ctx); !errors.Is(e.Err, ctx.Err()) {
		e.Err = fmt.Errorf("%w: %w", ctx.Err(), e.Err)
	}
	return e
}

// head keeps the first max bytes and refuses more.
type head struct {
	bytes.Buffer
	max  int
	over bool
}

var errTooMuch = errors.New("too much output")

func (w *head) Write(p []byte) (int, error) {
	if room := w.max - w.Len(); len(p) > room {
		w.over = true
		n, _ := w.Buffer.Write(p[:room]) // a Buffer's error is always nil
		return n, errTooMuch
	}
	return w.Buffer.Write(p)
}

// ReadFrom hides the Buffer's, which knows no limit.
func (w *head) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(struct{ io.Writer }{w}, r)
}

// tail keeps the last max bytes and passes all on.
type tail struct {
	last []byte
	max  int
	cut  bool
	to   io.Writer
}

func (w *tail) Write(p []byte) (int, error) {
	w.last = append(w.last, p...)
	if over := len(w.last) - w.max; over > 0 {
		w.last = append(w.last[:0], w.last[over:]...)
		w.cut = true
	}
	if w.to != nil {
		// A log that can't be written must not end the plugin by a closed pipe.
		_, _ = w.to.Write(p)
	}
	return len(p), nil
}

package builtin

import (
	"bytes"
	"context"
	"errors"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/libcni"
	"github.com/cleat-cni/cleat/netstate"
	"github.com/cleat-cni/cleat/planned"
	"github.com/cleat-cni/cleat/plugin"
)

// Run runs as many calls from the front as are served together: built-in ones in one pass, or one program. It tells the context's
// [planned.Observer] of the steps.
func (r *Runner) Run(ctx context.Context, calls []libcni.Call) ([][]byte, error) {
	if len(calls) == 0 {
		return nil, nil
	}
	n, builtIn, err := r.alike(calls)
	if err != nil {
		return nil, annotate(err, calls[0])
	}
	if !builtIn {
		return r.exec(ctx, calls[:1])
	}
	return r.runHere(ctx, calls, r.together(calls[:n]))
}

// exec runs the program of one call.
func (r *Runner) exec(ctx context.Context, call []libcni.Call) (out [][]byte, err error) {
	err = planned.Action{Verb: call[0].Verb, Plugin: call[0].Type, Step: planned.StepExec}.Do(ctx, func(ctx context.Context) error {
		out, err = r.cfg.Programs.Run(ctx, call)
		return err
	})
	return out, err
}

// alike returns how many calls from the front are served alike, and whether here or by programs.
func (r *Runner) alike(calls []libcni.Call) (n int, builtIn bool, err error) {
	loc, err := r.Where(calls[0].Type, calls[0].Dirs)
	if err != nil {
		return 0, false, err
	}
	n = 1
	for n < len(calls) {
		next, err := r.Where(calls[n].Type, calls[n].Dirs)
		if err != nil || next.BuiltIn != loc.BuiltIn {
			break // whoever runs it reports it
		}
		n++
	}
	return n, loc.BuiltIn, nil
}

// together returns how many of calls, all built in, can be planned as one. An IPAM plugin that
// stands in a list by itself plans nothing: it is called alone.
func (r *Runner) together(calls []libcni.Call) int {
	for i, c := range calls {
		if r.plugins[c.Type].IsIPAM() {
			return max(i, 1)
		}
	}
	return len(calls)
}

// runHere runs the first n calls, of built-in plugins. A panic in one is its error: the list it stands in is still to be
// undone by the caller.
func (r *Runner) runHere(ctx context.Context, calls []libcni.Call, n int) (out [][]byte, err error) {
	defer r.recovered(calls[0], &err)
	followed := n < len(calls)
	calls = calls[:n]
	verb := calls[0].Verb
	switch {
	case verb == cni.VerbVersion:
		return r.version(ctx, calls[0])
	case r.plugins[calls[0].Type].IsIPAM():
		return r.one(ctx, calls[0])
	case verb == cni.VerbAdd:
		return r.add(ctx, calls)
	case verb == cni.VerbDel:
		return r.del(ctx, calls)
	case verb == cni.VerbCheck:
		return r.check(ctx, calls, followed)
	default:
		return r.one(ctx, calls[0])
	}
}

// recovered, deferred, makes a panic in a plugin its error.
func (r *Runner) recovered(c libcni.Call, err *error) {
	if p := recover(); p != nil {
		r.cfg.Log.Error("plugin panicked", "plugin", c.Type, "panic", p, "stack", string(debug.Stack()))
		*err = annotate(cni.Errorf(cni.CodeInternal, "panic: %v", p), c)
	}
}

func (r *Runner) add(ctx context.Context, calls []libcni.Call) ([][]byte, error) {
	steps, err := r.steps(calls)
	if err != nil {
		return nil, &libcni.UndoneError{Err: err}
	}
	results, err := r.engine.AddList(ctx, steps)
	switch {
	case errors.Is(err, netstate.ErrLeft):
		return nil, annotate(err, calls[len(calls)-1])
	case err != nil:
		return nil, &libcni.UndoneError{Err: annotate(err, calls[0])}
	}
	out := make([][]byte, len(results))
	for i, res := range results {
		if out[i], err = res.Encode(steps[i].Req.Conf.CNIVersion); err != nil {
			return nil, annotate(err, calls[i])
		}
	}
	return out, nil
}

// del removes calls, which come in the order of a DEL, the list's reversed.
func (r *Runner) del(ctx context.Context, calls []libcni.Call) ([][]byte, error) {
	steps, err := r.steps(calls)
	if err != nil {
		return nil, err
	}
	slices.Reverse(steps)
	if err := r.engine.DelList(ctx, steps); err != nil {
		return nil, annotate(err, calls[0])
	}
	return make([][]byte, len(calls)), nil
}

// check compares what all calls made, in one look. Others follow them in the list, or not.
func (r *Runner) check(ctx context.Context, calls []libcni.Call, followed bool) ([][]byte, error) {
	steps, err := r.checkSteps(calls, followed)
	if err != nil {
		return nil, err
	}
	if err := r.engine.CheckList(ctx, steps); err != nil {
		return nil, annotate(err, calls[0])
	}
	return make([][]byte, len(calls)), nil
}

// checkSteps are the steps of a CHECK or a repair.
func (r *Runner) checkSteps(calls []libcni.Call, followed bool) ([]planned.Step, error) {
	steps, err := r.steps(calls)
	for i := range steps {
		steps[i].Followed = followed
	}
	return steps, err
}

// one makes one call by itself.
func (r *Runner) one(ctx context.Context, c libcni.Call) ([][]byte, error) {
	steps, err := r.steps([]libcni.Call{c})
	if err != nil {
		return nil, err
	}
	out, err := plugin.Call(ctx, r.engine.Plugin(steps[0].Def), steps[0].Req)
	if err != nil {
		return nil, annotate(err, c)
	}
	return [][]byte{out}, nil
}

// version answers VERSION as the program would.
func (r *Runner) version(ctx context.Context, c libcni.Call) ([][]byte, error) {
	info, p, _ := r.Plugin(c.Type)
	var stdin []byte
	if c.Conf != nil {
		stdin = c.Stdin()
	}
	var out, errs bytes.Buffer
	process := plugin.Process{
		Env: func(name string) string {
			if name == "CNI_COMMAND" {
				return string(cni.VerbVersion)
			}
			return ""
		},
		Stdin: bytes.NewReader(stdin), Stdout: &out, Stderr: &errs,
	}
	if process.Serve(ctx, info, p) != 0 {
		return nil, annotate(cni.Errorf(cni.CodeInternal, "answer VERSION: %s", errs.String()), c)
	}
	return [][]byte{out.Bytes()}, nil
}

// steps makes the requests of calls through the check that a program's environment and standard input go
// through.
func (r *Runner) steps(calls []libcni.Call) ([]planned.Step, error) {
	steps := make([]planned.Step, len(calls))
	for i, c := range calls {
		def := r.plugins[c.Type]
		var prev *cni.Result
		if i > 0 && bytes.Equal(c.Prev, calls[i-1].Prev) {
			prev = steps[i-1].Req.Prev // for DEL and CHECK all have the same
		}
		req, err := plugin.NewRequestOf(def.Info, r.env(c), c.Request(), prev)
		if err != nil {
			return nil, annotate(err, c)
		}
		steps[i] = planned.Step{Def: def, Req: req}
	}
	return steps, nil
}

func (r *Runner) env(c libcni.Call) plugin.Env {
	return plugin.Env{
		Command: string(c.Verb), ContainerID: c.ContainerID, NetNS: c.NetNS, IfName: c.IfName,
		Args: c.Args.String(), Path: strings.Join(c.Dirs, string(os.PathListSeparator)),
		NetNSOverride: lookup(r.cfg.Env, "CNI_NETNS_OVERRIDE"),
	}
}

// annotate makes a *cni.Error of err that says which call it was.
func annotate(err error, c libcni.Call) error {
	e := *cni.AsError(err)
	if e.Plugin == "" {
		e.Plugin = c.Type
	}
	if e.Verb == "" {
		e.Verb = c.Verb
	}
	if e.Err == nil {
		e.Err = err
	}
	return &e
}

// lookup returns the last value of a variable, as a process would see it.
func lookup(env []string, name string) string {
	for _, kv := range slices.Backward(env) {
		if value, ok := strings.CutPrefix(kv, name+"="); ok {
			return value
		}
	}
	return ""
}

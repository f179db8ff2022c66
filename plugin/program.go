package plugin

import (
	"context"
	"io"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/pluginexec"
)

// Programs finds plugins that are programs, for delegation (specification, section 4): each gets the
// caller's environment and its complete configuration, and its error is the caller's.
type Programs struct {
	Env    []string  // the caller's environment, os.Environ() in a program
	Stderr io.Writer // gets what they write to standard error; nil drops it
}

var _ Finder = Programs{}

// Find looks for the program of a type in path, CNI_PATH's folders.
func (f Programs) Find(typ string, path []string) (Plugin, error) {
	file, err := pluginexec.Find(typ, path)
	if err != nil {
		return nil, err
	}
	return program{f, typ, file}, nil
}

// program is a plugin that is a program of its own.
type program struct {
	from Programs
	typ  string
	file string
}

var _ Plugin = program{}

// Add returns what the program answers.
func (p program) Add(ctx context.Context, req *Request) (*cni.Result, error) {
	out, err := p.run(ctx, cni.VerbAdd, req)
	if err != nil {
		return nil, err
	}
	return cni.DecodeResult(out, req.Conf.CNIVersion)
}

// Del forwards DEL.
func (p program) Del(ctx context.Context, req *Request) error {
	return p.forward(ctx, cni.VerbDel, req)
}

// Check forwards CHECK.
func (p program) Check(ctx context.Context, req *Request) error {
	return p.forward(ctx, cni.VerbCheck, req)
}

// GC forwards GC.
func (p program) GC(ctx context.Context, req *Request) error { return p.forward(ctx, cni.VerbGC, req) }

// Status forwards STATUS.
func (p program) Status(ctx context.Context, req *Request) error {
	return p.forward(ctx, cni.VerbStatus, req)
}

func (p program) forward(ctx context.Context, verb cni.Verb, req *Request) error {
	_, err := p.run(ctx, verb, req)
	return err
}

func (p program) run(ctx context.Context, verb cni.Verb, req *Request) ([]byte, error) {
	return pluginexec.Run(ctx, pluginexec.Command{
		Path:   p.file,
		Type:   p.typ,
		Verb:   verb,
		Env:    pluginexec.Environ(p.from.Env, req.environ(verb)),
		Stdin:  req.Conf.Raw.Bytes(),
		Stderr: p.from.Stderr,
	})
}

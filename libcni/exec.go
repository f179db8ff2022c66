package libcni

import (
	"context"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/pluginexec"
)

// ExecRunner runs plugins that are programs. It is safe for concurrent use.
type ExecRunner struct {
	environ []string
	stderr  io.Writer
}

var _ Runner = (*ExecRunner)(nil)

// NewExecRunner returns a runner whose programs get the variables of environ, with CNI's own put in their place. What
// they write to standard error is copied to stderr, from one goroutine at a time, unless that is nil.
func NewExecRunner(environ []string, stderr io.Writer) *ExecRunner {
	r := &ExecRunner{environ: environ}
	if stderr != nil {
		r.stderr = &lockedWriter{w: stderr}
	}
	return r
}

// Find returns the path of a plugin's program.
func (r *ExecRunner) Find(typ string, dirs []string) (string, error) {
	return pluginexec.Find(typ, dirs)
}

// Run runs the first of calls.
func (r *ExecRunner) Run(ctx context.Context, calls []Call) ([][]byte, error) {
	call := calls[0]
	path, err := r.Find(call.Type, call.Dirs)
	if err != nil {
		return nil, err
	}
	out, err := pluginexec.Run(ctx, pluginexec.Command{
		Path: path, Type: call.Type, Verb: call.Verb,
		Env:   call.Environ(r.environ),
		Stdin: call.Stdin(), Stderr: r.stderr,
	})
	if err != nil {
		return nil, err
	}
	return [][]byte{out}, nil
}

// Environ returns the environment of the plugin's program: base with the variables of the specification in their place, all of them, so
// that none of the caller's own reaches the plugin, and with CLEAT_OPERATION; see [Config].
func (c Call) Environ(base []string) []string {
	return pluginexec.Environ(base, c.variables())
}

func (c Call) variables() map[string]string {
	vars := map[string]string{
		"CNI_COMMAND":     string(c.Verb),
		"CNI_CONTAINERID": c.ContainerID,
		"CNI_NETNS":       c.NetNS,
		"CNI_IFNAME":      c.IfName,
		"CNI_ARGS":        c.Args.String(),
		"CNI_PATH":        strings.Join(c.Dirs, string(os.PathListSeparator)),
		operationVar:      c.ContainerID,
	}
	if c.Verb == cni.VerbGC {
		vars[operationVar] = allContainers
	}
	if c.Verb == cni.VerbVersion {
		// The first plugins check these before they look at the verb.
		for _, name := range []string{"CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME"} {
			vars[name] = "dummy"
		}
	}
	return vars
}

// lockedWriter lets several plugins at once write to one writer.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

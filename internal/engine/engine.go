// Package engine puts the runner of built-in plugins together as every program of ours uses it: the list of plugins, the kernel, the leases and
// what DEL puts back.
package engine

import (
	"io"
	"log/slog"
	"os"

	"github.com/cleat-cni/cleat/internal/builtin"
	"github.com/cleat-cni/cleat/internal/kernel"
	"github.com/cleat-cni/cleat/internal/leases"
	"github.com/cleat-cni/cleat/internal/netns"
	"github.com/cleat-cni/cleat/internal/originals"
	"github.com/cleat-cni/cleat/libcni"
	"github.com/cleat-cni/cleat/planned"
	"github.com/cleat-cni/cleat/plugins"
)

// Options say how plugins are to be run.
type Options struct {
	Mode     builtin.Mode  // default builtin.Auto
	StateDir string        // of records, which tell whether the owner of a lease lives; default libcni's
	Host     *netns.Handle // the namespace that is the host's; default this process's own
	Stderr   io.Writer     // of programs; default nobody
	Log      *slog.Logger  // default: nothing is logged
}

// New returns a runner with all plugins.
func New(o Options) (*builtin.Runner, error) {
	k, err := kernel.New(kernel.Config{Host: o.Host, Log: o.Log})
	if err != nil {
		return nil, err
	}
	store, err := leases.New(leases.Config{StateDir: o.StateDir, Log: o.Log})
	if err != nil {
		return nil, err
	}
	return builtin.New(builtin.Config{
		Plugins: plugins.All(), Kernel: planned.Wrap(k), Leases: store, Originals: originals.Store{}, Mode: o.Mode, Answers: k.Answers,
		Programs: libcni.NewExecRunner(os.Environ(), o.Stderr), Env: os.Environ(), Stderr: o.Stderr, Log: o.Log,
	}), nil
}

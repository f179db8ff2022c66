// Package builtin runs plugins in this process. [Runner] is a libcni.Runner that calls the
// plugins which are built in, plans neighbours in a list as one and applies
// them in one pass, and hands the others to a runner of programs.
//
// Which of the two serves a type is one rule, [Runner.Where]: a built-in is used
// unless the plugin folders hold a program of its name that is not this build's cleat-cni; what the
// administrator installed wins. The same rule finds the plugin that another
// delegates to (IPAM).
package builtin

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/pluginexec"
	"github.com/cleat-cni/cleat/libcni"
	"github.com/cleat-cni/cleat/planned"
	"github.com/cleat-cni/cleat/plugin"
)

// Mode says which plugins run in this process.
type Mode int

// The modes.
const (
	Auto        Mode = iota // built-in ones, unless a foreign program of the name is installed
	ExecOnly                // none: always programs
	BuiltinOnly             // all: never programs
)

// Config configures a [Runner].
type Config struct {
	Plugins []planned.Definition // required: what is built in
	Kernel  planned.Kernel       // required
	Leases  planned.Leases       // required
	// Originals is required for plugins that change what outlives an attachment. Default: nothing is put back.
	Originals planned.Originals
	Programs  libcni.Runner // required for Run: runs the programs of a list
	Mode      Mode          // default Auto
	// Answers says whether an address of a pod answers on the host's networks; used when nothing else tells
	// whether an owner lives. Default: none does.
	Answers func(ctx context.Context, addr netip.Addr) (bool, error)
	Env     []string         // of programs that plugins delegate to; CNI_NETNS_OVERRIDE counts here too
	Stderr  io.Writer        // gets what those write to standard error; nil drops it
	Build   *debug.BuildInfo // the build that is ours; default this program's
	Log     *slog.Logger     // default: nothing is logged
}

// Runner is a libcni.Runner that calls plugins in this process. It is safe for concurrent use.
type Runner struct {
	cfg     Config
	plugins map[string]planned.Definition
	engine  *planned.Engine
	builds  *builds
}

var _ libcni.Runner = (*Runner)(nil)

// New returns a runner.
func New(cfg Config) *Runner {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Build == nil {
		if own, ok := debug.ReadBuildInfo(); ok {
			cfg.Build = own
		} else {
			cfg.Build = &debug.BuildInfo{}
		}
	}
	r := &Runner{cfg: cfg, plugins: map[string]planned.Definition{}, builds: &builds{own: cfg.Build}}
	for _, d := range cfg.Plugins {
		r.plugins[d.Info.Type] = d
	}
	r.engine = planned.NewEngine(planned.Config{
		Kernel: cfg.Kernel, Leases: cfg.Leases, Originals: cfg.Originals, Delegate: finder{r}, Log: cfg.Log,
	})
	return r
}

// Plugin returns the built-in plugin of a type.
func (r *Runner) Plugin(typ string) (plugin.Info, plugin.Plugin, bool) {
	d, ok := r.plugins[typ]
	if !ok {
		return plugin.Info{}, nil, false
	}
	return d.Info, r.engine.Plugin(d), true
}

// Location says what runs the plugins of a type.
type Location struct {
	Type    string
	BuiltIn bool
	Path    string // the program found in the plugin folders, also if the built-in is used; "" for none
	Why     string // the reason, where there was a choice; may be empty
}

// String gives "built in" or the program's path, and the reason.
func (l Location) String() string {
	s := l.Path
	if l.BuiltIn {
		s = "built in"
	}
	if l.Why != "" {
		s += " (" + l.Why + ")"
	}
	return s
}

// Types lists the plugins that are built in, sorted.
func (r *Runner) Types() []string { return slices.Sorted(maps.Keys(r.plugins)) }

// Definitions are those of the plugins that are built in, as they were given.
func (r *Runner) Definitions() []planned.Definition { return r.cfg.Plugins }

// Find is [Runner.Where] as text.
func (r *Runner) Find(typ string, dirs []string) (string, error) {
	l, err := r.Where(typ, dirs)
	if err != nil {
		return "", err
	}
	return l.String(), nil
}

// Where says what runs the plugins of a type: this process, or which program in dirs.
func (r *Runner) Where(typ string, dirs []string) (Location, error) {
	if err := cni.CheckType(typ); err != nil {
		return Location{}, err
	}
	_, known := r.plugins[typ]
	l := Location{Type: typ, BuiltIn: known}
	if r.cfg.Mode == BuiltinOnly {
		if !known {
			return Location{}, cni.Errorf(cni.CodeInvalidConfig, "find plugin %s: not built in", typ).
				WithHint("without --builtin a program in the plugin folders is used")
		}
		l.Why = "--builtin"
		return l, nil
	}
	if known && r.cfg.Mode == Auto && !inAny(typ, dirs) {
		return l, nil
	}
	path, err := pluginexec.Find(typ, dirs)
	switch {
	case err != nil && (!known || r.cfg.Mode == ExecOnly):
		return Location{}, err
	case err != nil: // something has the name that can't be run
		return l, nil
	}
	l.Path = path
	switch {
	case r.cfg.Mode == ExecOnly:
		l.BuiltIn, l.Why = false, "--exec-only"
	case known:
		l.BuiltIn, l.Why = r.judge(path)
	}
	return l, nil
}

// inAny reports whether any folder has the name, which is asked for every built-in plugin of every call.
func inAny(typ string, dirs []string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool {
		_, err := os.Lstat(filepath.Join(dir, typ))
		return err == nil
	})
}

// judge decides between the built-in and the program of its name at path.
func (r *Runner) judge(path string) (builtIn bool, why string) {
	fi, err := os.Stat(path)
	if err != nil {
		return true, fmt.Sprintf("%s can't be read: %v", path, err)
	}
	v := r.builds.of(path, fi)
	if v.ours {
		return true, path + " is this build's cleat-cni"
	}
	return false, v.what + "; it wins over the built-in"
}

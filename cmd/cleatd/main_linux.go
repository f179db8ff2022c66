// Command cleatd is the daemons of Cleat. `cleat agent` and `cleat pods` start it; see `cleat agent --help`.
package main

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"syscall"

	"github.com/cleat-cni/cleat/internal/builtin"
	"github.com/cleat-cni/cleat/internal/daemon"
	"github.com/cleat-cni/cleat/internal/kernel"
	"github.com/cleat-cni/cleat/internal/leases"
	"github.com/cleat-cni/cleat/internal/originals"
	"github.com/cleat-cni/cleat/libcni"
	"github.com/cleat-cni/cleat/planned"
	"github.com/cleat-cni/cleat/plugins"
)

// version is set by the linker; without it the module's version is told.
var version string

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := daemon.Main(ctx, daemon.Config{
		Args: os.Args[1:], Name: filepath.Base(os.Args[0]), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Version: programVersion(), Program: programFile(), NewRunner: newRunner,
	})
	stop()
	os.Exit(code)
}

func newRunner(o daemon.RunnerOptions) (libcni.Runner, error) {
	k, err := kernel.New(kernel.Config{Log: o.Log})
	if err != nil {
		return nil, err
	}
	store, err := leases.New(leases.Config{StateDir: o.StateDir, Log: o.Log})
	if err != nil {
		return nil, err
	}
	mode := builtin.Auto
	switch {
	case o.ExecOnly:
		mode = builtin.ExecOnly
	case o.Builtin:
		mode = builtin.BuiltinOnly
	}
	return builtin.New(builtin.Config{
		Plugins: plugins.All(), Kernel: planned.Wrap(k), Leases: store, Originals: originals.Store{}, Mode: mode, Answers: k.Answers,
		Programs: libcni.NewExecRunner(os.Environ(), os.Stderr), Env: os.Environ(), Stderr: os.Stderr, Log: o.Log,
	}), nil
}

func programVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}

// programFile is this program's file; "" if that can't be told.
func programFile() string {
	path, err := os.Executable()
	if err != nil {
		return ""
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}

// Command cleatd is the daemons of Cleat. `cleat agent` and `cleat pods` start it; see `cleat agent --help`.
package main

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/cleat-cni/cleat/internal/builtin"
	"github.com/cleat-cni/cleat/internal/daemon"
	"github.com/cleat-cni/cleat/internal/engine"
	"github.com/cleat-cni/cleat/internal/program"
	"github.com/cleat-cni/cleat/libcni"
)

// version is set by the linker; without it the module's version is told.
var version string

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := daemon.Main(ctx, daemon.Config{
		Args: os.Args[1:], Name: filepath.Base(os.Args[0]), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Version: program.Version(version), Program: program.File(), NewRunner: newRunner,
	})
	stop()
	os.Exit(code)
}

func newRunner(o daemon.RunnerOptions) (libcni.Runner, error) {
	mode := builtin.Auto
	switch {
	case o.ExecOnly:
		mode = builtin.ExecOnly
	case o.Builtin:
		mode = builtin.BuiltinOnly
	}
	return engine.New(engine.Options{Mode: mode, StateDir: o.StateDir, Stderr: os.Stderr, Log: o.Log})
}

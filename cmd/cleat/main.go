// Command cleat attaches containers to networks, shows what is attached, checks it and takes it
// away. See `cleat --help`. Called as cnitool it behaves as that one.
package main

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"syscall"

	"github.com/cleat-cni/cleat/internal/builtin"
	"github.com/cleat-cni/cleat/internal/cli"
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
	// The handler stays to the end: a second signal must not stop the undoing, which has a bound of its own.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	name, args := called(os.Args)
	code := cli.Main(ctx, cli.Config{
		Args: args, Env: os.Getenv, Stdout: os.Stdout, Stderr: os.Stderr,
		Version: programVersion(), Program: programFile(), NewRunner: newRunner, EUID: os.Geteuid(),
		Cnitool: name == "cnitool",
		Exec:    func(path string, argv []string) error { return syscall.Exec(path, argv, os.Environ()) },
	})
	stop()
	os.Exit(code)
}

// called splits the arguments into the name that the program was called by and the rest. Kernels before 5.18 start a program without any.
func called(argv []string) (name string, args []string) {
	if len(argv) == 0 {
		return "", nil
	}
	return filepath.Base(argv[0]), argv[1:]
}

func newRunner(o cli.RunnerOptions) (*builtin.Runner, error) {
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
		Programs: libcni.NewExecRunner(os.Environ(), o.Stderr),
		Env:      os.Environ(), Stderr: o.Stderr, Log: o.Log,
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

// Command cleat attaches containers to networks, shows what is attached, checks it and takes it
// away. See `cleat --help`. Called as cnitool it behaves as that one.
package main

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/cleat-cni/cleat/internal/builtin"
	"github.com/cleat-cni/cleat/internal/cli"
	"github.com/cleat-cni/cleat/internal/engine"
	"github.com/cleat-cni/cleat/internal/program"
)

// version is set by the linker; without it the module's version is told.
var version string

func main() {
	// The handler stays to the end: a second signal must not stop the undoing, which has a bound of its own.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	name, args := called(os.Args)
	code := cli.Main(ctx, cli.Config{
		Args: args, Env: os.Getenv, Stdout: os.Stdout, Stderr: os.Stderr,
		Version: program.Version(version), Program: program.File(), NewRunner: newRunner, EUID: os.Geteuid(),
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
	return engine.New(engine.Options{Mode: o.Mode, StateDir: o.StateDir, Host: o.Host, Stderr: o.Stderr, Log: o.Log})
}

package planned

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/kernel"
	"github.com/cleat-cni/cleat/internal/leases"
	"github.com/cleat-cni/cleat/internal/originals"
	"github.com/cleat-cni/cleat/plugin"
)

// Main is the main function of a plugin's program: it serves the call that the environment and standard
// input describe, on this machine's kernel, and exits. An IPAM plugin that the configuration names is a
// program in CNI_PATH.
func Main(d Definition) {
	k, err := kernel.New(kernel.Config{})
	if err != nil {
		dieInit(d.Info, err)
	}
	store, err := leases.New(leases.Config{})
	if err != nil {
		dieInit(d.Info, err)
	}
	e := NewEngine(Config{
		Kernel:    Wrap(k),
		Leases:    store,
		Originals: originals.Store{},
		Delegate:  plugin.Programs{Env: os.Environ(), Stderr: os.Stderr},
		Log:       slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	plugin.Main(d.Info, e.Plugin(d))
}

// dieInit ends a program that can't reach the kernel, with the error object that its caller expects.
func dieInit(info plugin.Info, err error) {
	e := cni.Errorf(cni.CodeIO, "start: %w", err)
	e.Plugin = info.Type
	out, encErr := json.Marshal(e)
	if encErr != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Stdout.Write(out)
	os.Exit(1)
}

//go:build amd64 || arm64

package crash

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/builtin"
	"github.com/cleat-cni/cleat/internal/kernel"
	"github.com/cleat-cni/cleat/internal/leases"
	"github.com/cleat-cni/cleat/internal/originals"
	"github.com/cleat-cni/cleat/libcni"
	"github.com/cleat-cni/cleat/planned"
	"github.com/cleat-cni/cleat/plugins"
)

// collection is what the role gc is told in its environment.
type collection struct {
	ConfDir, StateDir, PluginDir string
	ExecOnly                     bool
	Timeout                      time.Duration
	Valid                        []cni.Attachment
}

const gcKey = "CLEAT_CRASH_GC"

// collectNetwork is the role gc.
func collectNetwork() error {
	var c collection
	if err := json.Unmarshal([]byte(os.Getenv(gcKey)), &c); err != nil {
		return err
	}
	ctx := context.Background()
	if c.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.Timeout)
		defer cancel()
	}
	k, err := kernel.New(kernel.Config{})
	if err != nil {
		return err
	}
	mode := builtin.Auto
	if c.ExecOnly {
		mode = builtin.ExecOnly
	}
	runner, err := newRunner(k, c.StateDir, mode)
	if err != nil {
		return err
	}
	rt, err := libcni.New(libcni.Config{
		PluginDirs: []string{c.PluginDir}, StateDir: c.StateDir, Runner: runner, Stderr: os.Stderr,
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	list, err := libcni.LoadConfList(c.ConfDir, network)
	if err != nil {
		return err
	}
	return rt.GCNetworkList(ctx, list, &libcni.GCArgs{ValidAttachments: c.Valid})
}

func newRunner(k *kernel.Kernel, stateDir string, mode builtin.Mode) (*builtin.Runner, error) {
	store, err := leases.New(leases.Config{StateDir: stateDir})
	if err != nil {
		return nil, err
	}
	return builtin.New(builtin.Config{
		Plugins: plugins.All(), Kernel: planned.Wrap(k), Leases: store, Originals: originals.Store{}, Mode: mode, Answers: k.Answers,
		Programs: libcni.NewExecRunner(os.Environ(), os.Stderr), Env: os.Environ(), Stderr: os.Stderr,
	}), nil
}

// environment is that of the role gc.
func (c collection) environment() ([]string, error) {
	raw, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return append(without(os.Environ(), roleKey), roleKey+"="+roleGC, gcKey+"="+string(raw)), nil
}

// without is an environment without a variable.
func without(env []string, name string) []string {
	var list []string
	for _, kv := range env {
		if !strings.HasPrefix(kv, name+"=") {
			list = append(list, kv)
		}
	}
	return list
}

package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/builtin"
	"github.com/cleat-cni/cleat/internal/nearmiss"
	"github.com/cleat-cni/cleat/libcni"
)

// runner returns what runs plugins, as the global flags say.
func (a *app) runner() (*builtin.Runner, error) {
	return a.cfg.NewRunner(RunnerOptions{
		Mode: a.mode(), StateDir: a.stateDir, Log: a.log(), Stderr: a.cfg.Stderr,
	})
}

// runtime is the runtime library on top of the runner.
func (a *app) runtime(bestEffort bool) (*libcni.CNI, *builtin.Runner, error) {
	runner, err := a.runner()
	if err != nil {
		return nil, nil, err
	}
	c, err := libcni.New(libcni.Config{
		PluginDirs: a.pluginDirs, StateDir: a.stateDir, LockDir: a.cfg.LockDir, Runner: runner,
		Log: a.log(), Stderr: a.cfg.Stderr, BestEffort: bestEffort, Now: a.cfg.Now,
	})
	return c, runner, err
}

// network loads a network by name. An unknown one is an error that says which files were passed
// over, and with a hint of what it may have meant.
func (a *app) network(name string) (*libcni.NetworkConfigList, error) {
	list, err := libcni.LoadConfList(a.confDir, name)
	if err == nil {
		return list, nil
	}
	if missing, ok := errors.AsType[libcni.NotFoundError](err); ok {
		text := fmt.Sprintf("no network %q in %s", missing.Name, missing.Dir)
		var ignored []string
		for _, f := range missing.Ignored {
			ignored = append(ignored, f.String())
		}
		if len(ignored) > 0 {
			text += ", and these files are not used: " + strings.Join(ignored, "; ")
		}
		e := cni.Errorf(cni.CodeInvalidConfig, "%s", text)
		e.Hint = nearmiss.Hint(name, missing.Names)
		e.Err = err
		return nil, e
	}
	if _, ok := errors.AsType[libcni.NoConfigsFoundError](err); ok {
		return nil, cni.Errorf(cni.CodeInvalidConfig, "%w", err).
			WithHint("put a .conflist file there, or name another folder with --conf-dir")
	}
	return nil, err
}

// networkNames lists the networks that are configured, for completion; none if that can't be told.
func (a *app) networkNames() []string {
	dir, err := libcni.LoadDir(a.confDir)
	if err != nil {
		return nil
	}
	names := make([]string, len(dir.Networks))
	for i, n := range dir.Networks {
		names[i] = n.Name
	}
	return names
}

// netnsHint adds to an error about a namespace which one may have been meant, where NETNS was a name.
func (a *app) netnsHint(arg string, err error) error {
	if cni.CodeOf(err) != cni.CodeInvalidNetNS || strings.Contains(arg, "/") {
		return err
	}
	names := a.netnsNames()
	hint := nearmiss.Hint(arg, names)
	if hint == "" || slices.Contains(names, arg) {
		return err
	}
	return withHint(err, hint)
}

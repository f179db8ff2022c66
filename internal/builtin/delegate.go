package builtin

import "github.com/cleat-cni/cleat/plugin"

// finder finds the plugin that another one delegates to, by the rule of [Runner.Where].
type finder struct{ r *Runner }

var _ plugin.Finder = finder{}

// Find returns the built-in plugin, or one that runs a program of path.
func (f finder) Find(typ string, path []string) (plugin.Plugin, error) {
	l, err := f.r.Where(typ, path)
	if err != nil {
		return nil, err
	}
	if _, p, ok := f.r.Plugin(typ); ok && l.BuiltIn {
		return p, nil
	}
	return plugin.Programs{Env: f.r.cfg.Env, Stderr: f.r.cfg.Stderr}.Find(typ, path)
}

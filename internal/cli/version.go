package cli

import (
	"context"
	"fmt"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/nearmiss"
	"github.com/cleat-cni/cleat/internal/output"
)

// programView is cleat itself.
type programView struct {
	Version      string   `json:"version"`
	Go           string   `json:"go"`
	SpecVersions []string `json:"specVersions"`
}

// versionView is what a plugin supports.
type versionView struct {
	Type              string   `json:"type"`
	Where             string   `json:"where"`
	SupportedVersions []string `json:"supportedVersions"`
}

func (a *app) versionCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "version [PLUGIN...]",
		Short: "Print the version of cleat, or the specification versions that plugins support",
		Example: `  cleat version
  cleat version bridge portmap`,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return a.ownVersion()
			}
			ctx, cancel := a.bounded(c.Context())
			defer cancel()
			return a.pluginVersions(ctx, args)
		},
		ValidArgsFunction: a.completePlugins,
	}
}

func (a *app) ownVersion() error {
	v := programView{Version: a.cfg.Version, Go: runtime.Version(), SpecVersions: cni.Versions()}
	if a.output.Structured() {
		return output.WriteStructured(a.cfg.Stdout, a.output, v)
	}
	_, err := fmt.Fprintf(a.cfg.Stdout, "cleat %s (%s), CNI %s\n", v.Version, v.Go, strings.Join(v.SpecVersions, ", "))
	return err
}

func (a *app) pluginVersions(ctx context.Context, types []string) error {
	c, runner, err := a.runtime(false)
	if err != nil {
		return err
	}
	t := output.Table{Head: []string{"PLUGIN", "VERSIONS", "WHERE"}}
	views := []versionView{}
	for _, typ := range types {
		where, err := runner.Find(typ, a.pluginDirs)
		if err != nil {
			return withHint(err, nearmiss.Hint(typ, runner.Types()))
		}
		info, err := c.GetVersionInfo(ctx, typ)
		if err != nil {
			return err
		}
		views = append(views, versionView{Type: typ, Where: where, SupportedVersions: info.Supported})
		t.Add([]string{typ, strings.Join(info.Supported, ","), where})
	}
	if a.output.Structured() {
		return output.WriteStructured(a.cfg.Stdout, a.output, views)
	}
	return t.Write(a.cfg.Stdout, false)
}

package cli

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/builtin"
	"github.com/cleat-cni/cleat/internal/output"
	"github.com/cleat-cni/cleat/libcni"
)

// statusView says whether a plugin of a network could serve an add now.
type statusView struct {
	Network string   `json:"network"`
	Ready   bool     `json:"ready"`
	Code    cni.Code `json:"code"`   // of the error; 0 without one
	Plugin  string   `json:"plugin"` // its type; where an IPAM plugin is not ready, that one's
	Msg     string   `json:"msg"`    // what is wrong and what to do; or why the plugin was not asked
}

func (a *app) statusCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "status [NETWORK]",
		Short: "Say whether networks can serve an add",
		Long: `Asks each plugin of a network, or of all that are configured, whether it could
serve an add now, and changes nothing. What is built in tries its plan out of the
host's sight, in every version: it tells of addresses that are used up, and of what the
kernel lacks. Programs are asked in versions from 1.1.0 on. Exit status 3 says that
something is not ready.`,
		Example: `  cleat status
  cleat status mynet
  cleat status -o json`,
		Args: atMostOne("NETWORK"),
		RunE: func(c *cobra.Command, args []string) error {
			ctx, cancel := a.bounded(c.Context())
			defer cancel()
			return a.status(ctx, args)
		},
		ValidArgsFunction: a.completeNetwork,
	}
}

func (a *app) status(ctx context.Context, args []string) error {
	var lists []*libcni.NetworkConfigList
	if len(args) > 0 {
		list, err := a.network(args[0])
		if err != nil {
			return err
		}
		lists = append(lists, list)
	} else {
		dir, err := libcni.LoadDir(a.confDir)
		if err != nil {
			return err
		}
		lists = dir.Networks
	}
	c, runner, err := a.runtime(false)
	if err != nil {
		return err
	}
	s := &asker{cni: c, runner: runner, dirs: a.pluginDirs}
	views := []statusView{}
	for _, list := range lists {
		for i := range list.Plugins {
			v := s.ask(ctx, list, i)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			views = append(views, v)
		}
	}
	return a.writeStatus(views)
}

// asker asks plugins.
type asker struct {
	cni    *libcni.CNI
	runner *builtin.Runner
	dirs   []string
}

// ask asks a plugin of a network.
func (s *asker) ask(ctx context.Context, list *libcni.NetworkConfigList, i int) statusView {
	v := statusView{Network: list.Name, Plugin: list.Plugins[i].Network.Type}
	asked, err := s.plugin(ctx, list, i)
	switch {
	case err != nil:
		e := cni.AsError(err)
		v.Code, v.Msg = e.Code, e.Msg
		if e.Plugin != "" {
			v.Plugin = e.Plugin
		}
		for _, more := range []string{e.Details, e.Hint} {
			if more != "" {
				v.Msg += "; " + more
			}
		}
	case !asked:
		v.Ready, v.Msg = true, "not asked: it is a program, and version "+list.CNIVersion+" has no STATUS"
	default:
		v.Ready = true
	}
	return v
}

func (s *asker) plugin(ctx context.Context, list *libcni.NetworkConfigList, i int) (asked bool, err error) {
	one := *list
	one.Plugins = list.Plugins[i : i+1]
	for _, typ := range []string{one.Plugins[0].Network.Type, one.Plugins[0].Network.IPAMType} {
		if typ == "" {
			continue
		}
		if err := s.installed(ctx, typ, list.CNIVersion); err != nil {
			return true, err
		}
	}
	calls, err := s.cni.Calls(cni.VerbStatus, &one, nil)
	if err != nil {
		return true, err
	}
	return s.runner.Status(ctx, calls[0])
}

// installed checks that a plugin is there and speaks the network's version.
func (s *asker) installed(ctx context.Context, typ, version string) error {
	unready := func(err error) error {
		e := *cni.AsError(err)
		if e.Code != cni.CodeIncompatibleVersion {
			e.Code = cni.CodeNotAvailable
		}
		e.Plugin = typ
		return &e
	}
	where, err := s.runner.Where(typ, s.dirs)
	if err != nil {
		return unready(err)
	}
	if where.BuiltIn {
		return nil
	}
	info, err := s.cni.GetVersionInfo(ctx, typ)
	if err != nil {
		return unready(err)
	}
	if !slices.Contains(info.Supported, version) {
		return unready(cni.Errorf(cni.CodeIncompatibleVersion, "%s doesn't speak version %s, only %s", where.Path, version,
			strings.Join(info.Supported, ", ")))
	}
	return nil
}

func (a *app) writeStatus(views []statusView) error {
	var err error
	if a.output.Structured() {
		err = output.WriteStructured(a.cfg.Stdout, a.output, views)
	} else {
		t := output.Table{Head: []string{"NETWORK", "PLUGIN", "STATUS", "CODE", "MESSAGE"}, Empty: "no networks in " + a.confDir}
		for _, v := range views {
			status, code := "ready", ""
			if !v.Ready {
				status, code = "not ready", strconv.Itoa(int(v.Code))
			}
			t.Add([]string{v.Network, v.Plugin, status, code, v.Msg})
		}
		err = t.Write(a.cfg.Stdout, false)
	}
	if slices.ContainsFunc(views, func(v statusView) bool { return !v.Ready }) {
		err = errors.Join(err, errFound)
	}
	return err
}

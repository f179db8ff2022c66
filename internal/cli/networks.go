package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/output"
	"github.com/cleat-cni/cleat/libcni"
)

// networkView is a network, or a file that is not used as one.
type networkView struct {
	Name    string       `json:"name"`
	File    string       `json:"file"`
	Default bool         `json:"default"`
	Why     string       `json:"why,omitempty"` // of Default
	Ignored string       `json:"ignored"`       // why the file is not used; "" if it is
	Version string       `json:"cniVersion,omitempty"`
	Plugins []pluginView `json:"plugins,omitempty"`
}

// pluginView says what runs a plugin of a network.
type pluginView struct {
	Type  string `json:"type"`
	Where string `json:"where"`
	Error string `json:"error,omitempty"`
}

func (a *app) networksCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "networks",
		Short: "List the networks that are configured here, and the files that are not used",
		Long: `Lists the networks of the configuration folder in the order in which a name is
looked up, which one container runtimes take by default and why, what runs each
of their plugins, and the files that are not used, with the place of the fault.`,
		Example: `  cleat networks
  cleat networks --conf-dir ./net.d -o json`,
		Args: exactArgs(),
		RunE: func(c *cobra.Command, _ []string) error { return a.networks() },
	}
}

func (a *app) networks() error {
	dir, err := libcni.LoadDir(a.confDir)
	if err != nil {
		return err
	}
	runner, err := a.runner()
	if err != nil {
		return err
	}
	views := []networkView{}
	first := dir.Default()
	for _, list := range dir.Networks {
		v := networkView{Name: list.Name, File: list.Source, Default: list == first, Version: list.CNIVersion}
		if v.Default {
			v.Why = "its file's name sorts first"
			if !cni.Supported(v.Version) {
				v.Why += ", but its cniVersion is not spoken here: nothing can be attached to it"
			}
		}
		for _, p := range list.Plugins {
			v.Plugins = append(v.Plugins, a.where(runner, p.Network.Type))
			if p.Network.IPAMType != "" {
				v.Plugins = append(v.Plugins, a.where(runner, p.Network.IPAMType))
			}
		}
		views = append(views, v)
	}
	for _, f := range dir.Ignored {
		views = append(views, networkView{File: f.File, Ignored: f.String()})
	}
	if a.output.Structured() {
		return output.WriteStructured(a.cfg.Stdout, a.output, views)
	}
	return a.writeNetworks(views)
}

func (a *app) where(f finder, typ string) pluginView {
	where, err := f.Find(typ, a.pluginDirs)
	if err != nil {
		return pluginView{Type: typ, Error: strings.TrimPrefix(err.Error(), typ+": ")}
	}
	return pluginView{Type: typ, Where: where}
}

// finder says what runs the plugins of a type; both runners do.
type finder interface {
	Find(typ string, dirs []string) (string, error)
}

func (a *app) writeNetworks(views []networkView) error {
	t := output.Table{
		Head:  []string{"NAME", "FILE", "VERSION", "PLUGINS", "DEFAULT"},
		Empty: "no networks in " + a.confDir,
	}
	var plugins, ignored [][2]string
	for _, v := range views {
		if v.Ignored != "" {
			ignored = append(ignored, [2]string{"", v.Ignored})
			continue
		}
		isDefault := ""
		if v.Default {
			isDefault = "default: " + v.Why
		}
		var types []string
		for _, p := range v.Plugins {
			types = append(types, p.Type)
			where := p.Where
			if p.Error != "" {
				where = "MISSING: " + p.Error
			}
			plugins = output.AppendNew(plugins, [2]string{p.Type, where})
		}
		t.Add([]string{v.Name, v.File, v.Version, strings.Join(types, ","), isDefault})
	}
	w := a.cfg.Stdout
	if err := t.Write(w, a.output == output.Wide); err != nil {
		return err
	}
	return output.WriteSections(w, output.Section{Title: "Plugins", Lines: plugins}, output.Section{Title: "Not used", Lines: ignored})
}

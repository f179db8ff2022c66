package daemon

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/cleat-cni/cleat/internal/agent"
)

// agentFlags are the flags of the agent.
type agentFlags struct {
	manifests, pluginDirs, images, cidrs, dns []string
	url, node, runtime, confDir, listen       string
	domain                                    string
	execOnly, builtin                         bool
}

func (a *app) agentCmd() *cobra.Command {
	var f agentFlags
	c := &cobra.Command{
		Use:   "agent",
		Short: "Keep the pods of manifests running and connected on this node",
		Long: `Keep the pods of manifests running and connected on this node, as a kubelet does
its static pods. Pods without an image run a command of the host; those with one
need runc and --images. What it started runs on when it ends.`,
		Example: `  cleat agent --manifests /etc/cleat/pods
  cleat agent --manifests examples/pods --images ./images --root /tmp/node
  cleat pods                                   what runs, from another terminal`,
		Args: args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error { return a.runAgent(c.Context(), f) },
	}
	fl := c.Flags()
	fl.SortFlags = false
	fl.StringArrayVar(&f.manifests, "manifests", nil, "folder or file of manifests, watched; give it again for more")
	fl.StringVar(&f.url, "http-url", "", "URL of a Pod or PodList, asked every 20 s")
	fl.StringVar(&f.node, "node-name", "", "name of this node, at the end of its pods' names (default the host's)")
	fl.StringVar(&f.runtime, "runtime", "native", "what runs containers: native")
	fl.StringVar(&f.confDir, "conf-dir", "/etc/cni/net.d", "folder of network configurations; pods get the first network by file name")
	fl.StringArrayVar(&f.pluginDirs, "plugin-dir", []string{"/opt/cni/bin"}, "folder of plugins; give it again for more")
	fl.StringArrayVar(&f.images, "images", nil, "folder of OCI layouts and image archives; give it again for more")
	fl.StringVar(&f.listen, "listen", "127.0.0.1:10248", `address of health and metrics; "" is none`)
	fl.StringArrayVar(&f.cidrs, "pod-cidr", nil, "range of pod addresses, for networks with the capability ipRanges; give it again for the other family")
	fl.StringArrayVar(&f.dns, "cluster-dns", nil, "name server of pods with dnsPolicy ClusterFirst; give it again for more")
	fl.StringVar(&f.domain, "cluster-domain", "cluster.local", "domain of those pods")
	fl.BoolVar(&f.execOnly, "exec-only", false, "always run plugins as programs")
	fl.BoolVar(&f.builtin, "builtin", false, "never run a plugin as a program")
	return c
}

func (a *app) runAgent(ctx context.Context, f agentFlags) error {
	conf, err := a.agentConfig(f)
	if err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("run an agent: %w", os.ErrPermission)
	}
	log := conf.Log
	conf.Runner, err = a.cfg.NewRunner(RunnerOptions{ExecOnly: f.execOnly, Builtin: f.builtin, StateDir: agent.StateDir(a.root), Log: log})
	if err != nil {
		return err
	}
	conf.Started = func(addr net.Addr) {
		log.InfoContext(ctx, "the agent runs", "root", a.root, "manifests", f.manifests, "listen", addr)
	}
	if err := agent.Run(ctx, conf); err != nil {
		return fmt.Errorf("run an agent: %w", err)
	}
	return nil
}

func (a *app) agentConfig(f agentFlags) (agent.Config, error) {
	conf := agent.Config{Root: a.root, URL: f.url, Node: f.node, ConfDir: f.confDir, PluginDirs: f.pluginDirs,
		Images: f.images, Listen: f.listen, Domain: f.domain, Log: a.log()}
	if f.runtime != "native" {
		return conf, &usageError{fmt.Errorf("--runtime %q: there is only native", f.runtime)}
	}
	if f.execOnly && f.builtin {
		return conf, &usageError{fmt.Errorf("--exec-only and --builtin exclude each other")}
	}
	for _, path := range f.manifests {
		abs, err := filepath.Abs(path)
		if err != nil {
			return conf, err
		}
		conf.Manifests = append(conf.Manifests, abs)
	}
	var err error
	if conf.Root, err = filepath.Abs(a.root); err != nil {
		return conf, err
	}
	for _, text := range f.cidrs {
		p, err := netip.ParsePrefix(text)
		switch {
		case err != nil:
			return conf, &usageError{fmt.Errorf("--pod-cidr: %q is no range of addresses, such as 10.88.0.0/16", text)}
		case p != p.Masked():
			return conf, &usageError{fmt.Errorf("--pod-cidr: %s is an address in a range; the range is %s", p, p.Masked())}
		}
		conf.PodCIDRs = append(conf.PodCIDRs, p)
	}
	for _, text := range f.dns {
		addr, err := netip.ParseAddr(text)
		if err != nil {
			return conf, &usageError{fmt.Errorf("--cluster-dns: %q is no address, such as 10.96.0.10", text)}
		}
		conf.ClusterDNS = append(conf.ClusterDNS, addr)
	}
	conf.Program, err = pluginProgram(a.cfg.Program, f.pluginDirs)
	return conf, err
}

// pluginProgram finds cleat-cni, beside this program or in the plugin folders.
func pluginProgram(self string, dirs []string) (string, error) {
	const name = "cleat-cni"
	for _, dir := range append([]string{filepath.Dir(self)}, dirs...) {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path, nil
		}
	}
	return "", fmt.Errorf("find %s: it is neither beside %s nor in %v; build it with make build", name, self, dirs)
}

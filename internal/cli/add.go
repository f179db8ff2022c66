package cli

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/output"
	"github.com/cleat-cni/cleat/libcni"
)

func (a *app) addCmd() *cobra.Command {
	var t target
	var r request
	c := &cobra.Command{
		Use:   "add NETWORK NETNS",
		Short: "Attach a network namespace to a network",
		Long: `Attaches a network namespace, given by its path or by its name under
/run/netns, to a network. If a plugin fails, what the others did is undone.
With -o json or yaml the plugins' CNI result is printed.`,
		Example: `  cleat add mynet web
  cleat add mynet /proc/4242/ns/net --id 5f2c0d -i net1
  cleat add mynet web --ip 10.88.0.5 --publish 8080:80 --publish '[fd00::1]:5353:53/udp'
  cleat add mynet web --ingress-rate 10M --egress-rate 1M`,
		Args: exactArgs("NETWORK", "NETNS"),
		RunE: func(c *cobra.Command, args []string) error {
			ctx, cancel := a.bounded(c.Context())
			defer cancel()
			return a.netnsHint(args[1], a.add(ctx, args, t, r))
		},
		ValidArgsFunction: a.completeNetworkNetNS,
	}
	t.flags(c, a.cfg.Env)
	r.flags(c)
	return c
}

func (a *app) add(ctx context.Context, args []string, t target, r request) error {
	list, rt, err := a.attachment(args, t, r)
	if err != nil {
		return err
	}
	c, _, err := a.runtime(false)
	if err != nil {
		return err
	}
	result, err := c.AddNetworkList(ctx, list, &rt)
	if err != nil {
		return err
	}
	return a.writeResult(list, rt, result)
}

// attachment makes of NETWORK, NETNS (which may be left out) and flags what the runtime library takes.
func (a *app) attachment(args []string, t target, r request) (*libcni.NetworkConfigList, libcni.RuntimeConf, error) {
	if err := t.check(); err != nil {
		return nil, libcni.RuntimeConf{}, err
	}
	asked, err := a.parse(r)
	if err != nil {
		return nil, libcni.RuntimeConf{}, err
	}
	path := ""
	if len(args) > 1 {
		if path, err = a.netnsPath(args[1]); err != nil {
			return nil, libcni.RuntimeConf{}, err
		}
	}
	list, err := a.network(args[0])
	if err != nil {
		return nil, libcni.RuntimeConf{}, err
	}
	rt := libcni.RuntimeConf{ContainerID: t.containerID(path), NetNS: path, IfName: t.ifName}
	return list, rt, asked.apply(list, &rt)
}

// writeResult prints what was attached. When that fails the attachment stays: it is recorded, and ls shows it.
func (a *app) writeResult(list *libcni.NetworkConfigList, rt libcni.RuntimeConf, result *cni.Result) error {
	if a.output.Structured() {
		raw, err := result.Encode(list.CNIVersion)
		if err != nil {
			return err
		}
		return output.WriteStructured(a.cfg.Stdout, a.output, json.RawMessage(raw))
	}
	t := output.Table{
		Head:     []string{"NETWORK", "ID", "INTERFACE", "IPS", "MAC"},
		WideHead: []string{"NAMESPACE"},
	}
	t.Add([]string{list.Name, rt.ContainerID, rt.IfName, strings.Join(podIPs(result), ","), macOf(result, rt.IfName)}, rt.NetNS)
	return t.Write(a.cfg.Stdout, a.output == output.Wide)
}

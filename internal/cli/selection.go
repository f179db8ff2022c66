package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/cleat-cni/cleat/libcni"
)

// selection is which attachments a command works on: the one of NETWORK and NETNS, or with --all those that are recorded.
type selection struct {
	target
	all bool
}

// worker does to attachments what a command is for.
type worker interface {
	one(ctx context.Context, list *libcni.NetworkConfigList, rt *libcni.RuntimeConf) error
	all(ctx context.Context, a *app) error
}

var (
	_ worker = (*checker)(nil)
	_ worker = (*repairer)(nil)
)

// command completes a command, whose Use is its name alone, with arguments and flags that fill s.
func (s *selection) command(a *app, c *cobra.Command, run func(ctx context.Context, args []string) error) *cobra.Command {
	verb := c.Use
	c.Use, c.DisableFlagsInUseLine = verb+" NETWORK NETNS | "+verb+" --all", true
	c.Args = func(c *cobra.Command, args []string) error {
		if s.all {
			return exactArgs()(c, args)
		}
		return exactArgs("NETWORK", "NETNS")(c, args)
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		ctx, cancel := a.bounded(c.Context())
		defer cancel()
		return run(ctx, args)
	}
	c.ValidArgsFunction = a.completeNetworkNetNS
	s.flags(c, a.cfg.Env)
	s.attached(c, a)
	c.Flags().BoolVar(&s.all, "all", false, verb+" all attachments that are recorded")
	return c
}

// run has w work on what is selected.
func (s *selection) run(ctx context.Context, a *app, args []string, w worker) error {
	if s.all {
		return w.all(ctx, a)
	}
	list, rt, err := a.attachmentOf(args, s.target)
	if err == nil {
		err = w.one(ctx, list, rt)
	}
	return a.netnsHint(args[1], err)
}

// attachmentOf is the attachment that NETWORK, NETNS and flags name, to be looked up.
func (a *app) attachmentOf(args []string, t target) (*libcni.NetworkConfigList, *libcni.RuntimeConf, error) {
	if err := t.check(); err != nil {
		return nil, nil, err
	}
	path, err := a.netnsPath(args[1])
	if err != nil {
		return nil, nil, err
	}
	list, err := a.network(args[0])
	if err != nil {
		return nil, nil, err
	}
	return list, &libcni.RuntimeConf{ContainerID: t.containerID(path), NetNS: path, IfName: t.ifName}, nil
}

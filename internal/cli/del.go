package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cleat-cni/cleat/libcni"
)

// deletion is what del's flags say.
type deletion struct {
	target
	network string // "" is any
	path    string // of NETNS; "" without one
	anyIf   bool   // -i was not given
	all     bool
	best    bool
	dryRun  bool
}

func (a *app) delCmd() *cobra.Command {
	var d deletion
	c := &cobra.Command{
		Use:                   "del NETWORK NETNS | del [NETWORK] --id ID | del --all NETWORK",
		DisableFlagsInUseLine: true,
		Aliases:               []string{"delete", "rm"},
		Short:                 "Detach from a network",
		Long: `Detaches a namespace, a container by its ID, or everything from a network. By ID
and with --all the record is enough: no configuration is needed. What is not
attached is success. An error stops it and leaves the record, so that the next del
goes on; --best-effort has the other plugins do their part all the same.`,
		Example: `  cleat del mynet web
  cleat del --id 5f2c0d
  cleat del --all mynet --dry-run`,
		Args: func(c *cobra.Command, args []string) error { return d.checkArgs(c, args) },
		RunE: func(c *cobra.Command, args []string) error {
			d.anyIf = !c.Flags().Changed("ifname")
			if len(args) > 0 {
				d.network = args[0]
			}
			if len(args) > 1 {
				var err error
				if d.path, err = a.netnsPath(args[1]); err != nil {
					return err
				}
			}
			ctx, cancel := a.bounded(c.Context())
			defer cancel()
			return a.del(ctx, d)
		},
		ValidArgsFunction: a.completeNetworkNetNS,
	}
	d.flags(c, a.cfg.Env)
	d.attached(c, a)
	f := c.Flags()
	f.BoolVar(&d.all, "all", false, "detach everything from NETWORK")
	f.BoolVar(&d.best, "best-effort", false, "go on with the other plugins after an error")
	f.BoolVar(&d.dryRun, "dry-run", false, "print what would be removed, and remove nothing")
	return c
}

func (d *deletion) checkArgs(c *cobra.Command, args []string) error {
	switch {
	case d.all && d.id != "":
		return usagef("--all and --id exclude each other")
	case d.all:
		return exactArgs("NETWORK")(c, args)
	case d.id != "" && len(args) < 2:
		return nil
	default:
		return exactArgs("NETWORK", "NETNS")(c, args)
	}
}

func (a *app) del(ctx context.Context, d deletion) error {
	c, runner, err := a.runtime(d.best)
	if err != nil {
		return err
	}
	found, unread, err := d.find(ctx, c)
	if err != nil {
		return err
	}
	if len(found)+len(unread) == 0 {
		if err := d.check(); err != nil {
			return err
		}
	}
	if len(found)+len(unread) == 0 && d.network != "" && d.path == "" {
		// Nothing is attached, or the name is a typing error.
		if _, err := a.network(d.network); err != nil {
			return err
		}
	}
	if d.dryRun {
		return errors.Join(a.dryRun(ctx, runner, d, found), unreadable(unread))
	}
	if d.path != "" {
		return a.delNamed(ctx, c, d, found)
	}
	var errs []error
	over := false
	for _, at := range found {
		if errs, over = ended(ctx, errs); over {
			break
		}
		errs = append(errs, c.DelAttachment(ctx, at))
	}
	return errors.Join(append(errs, unreadable(unread))...)
}

// unreadable says which records name nothing that could be deleted by them.
func unreadable(unread []*libcni.NetworkAttachment) error {
	var errs []error
	for _, at := range unread {
		errs = append(errs, fmt.Errorf("what %s records stays attached: %w", at.File, at.Err))
	}
	if len(errs) == 0 {
		return nil
	}
	return withHint(errors.Join(errs...), "cleat del NETWORK NETNS --id ID detaches without a record")
}

// find returns the attachments that d means and that are recorded; unread are records that can't be read and that d may mean, by
// the names of their files. With a NETNS there are none, since its names are enough.
func (d deletion) find(ctx context.Context, c *libcni.CNI) (found, unread []*libcni.NetworkAttachment, err error) {
	all, err := c.Attachments(ctx)
	if err != nil {
		return nil, nil, err
	}
	id := d.id
	if d.path != "" {
		id = d.containerID(d.path)
	}
	for _, at := range all {
		switch {
		case at.ContainerID == "" && d.path == "" && d.mayMean(filepath.Base(at.File)):
			unread = append(unread, at)
		case at.ContainerID == "": // not readable: nobody's
		case d.network != "" && at.Network != d.network:
		case !d.all && at.ContainerID != id:
		case (d.path != "" || !d.anyIf) && at.IfName != d.ifName:
		default:
			found = append(found, at)
		}
	}
	return found, unread, nil
}

// mayMean reports whether a record's file is named as one of what is to be deleted: NETWORK-ID-IFNAME, and more for an intent.
func (d deletion) mayMean(file string) bool {
	return (d.network == "" || strings.HasPrefix(file, d.network+"-")) && (d.all || strings.Contains(file, "-"+d.id+"-"))
}

// delNamed detaches by names: with the configured network, which needs no record, or by the record where the
// network is no longer configured.
func (a *app) delNamed(ctx context.Context, c *libcni.CNI, d deletion, found []*libcni.NetworkAttachment) error {
	list, err := a.network(d.network)
	if err != nil {
		if len(found) == 0 {
			return err
		}
		a.log().Info("deleting by the record", "network", d.network, "error", err)
		return c.DelAttachment(ctx, found[0])
	}
	args, caps, err := a.envArgs()
	if err != nil {
		return err
	}
	rt := libcni.RuntimeConf{ContainerID: d.containerID(d.path), NetNS: d.path, IfName: d.ifName, Args: args}
	for name, value := range caps {
		if rt.CapabilityArgs == nil {
			rt.CapabilityArgs = map[string]any{}
		}
		rt.CapabilityArgs[name] = value
	}
	return c.DelNetworkList(ctx, list, &rt)
}

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"

	"github.com/spf13/cobra"

	"github.com/cleat-cni/cleat/netstate"
	"github.com/cleat-cni/cleat/planned"
)

// cnitoolRoot is the command tree of the reference cnitool: its commands, arguments, environment, derived container ID
// output and exit status. Unlike it, an error is printed once, with its code in reach of -o json, further
// arguments are refused, and --state-dir tells where records are.
func (a *app) cnitoolRoot() *cobra.Command {
	var t target
	c := &cobra.Command{
		Use:           "cnitool",
		Short:         "Add, check and remove network interfaces of a network namespace, from a CNI configuration",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return withHint(usagef("unknown command %q", args[0]), didYouMean(args[0], commandNames(c)))
			}
			return c.Help()
		},
		PersistentPreRunE: func(*cobra.Command, []string) error { return a.checkGlobals() },
	}
	a.globalFlags(c)
	c.PersistentFlags().StringVarP(&t.ifName, "ifname", "i", orDefault(a.cfg.Env("CNI_IFNAME"), "eth0"), "interface in the namespace")
	for _, verb := range []struct {
		name, short string
		run         func(context.Context, []string, target) error
	}{
		{"add", "Attach the namespace and print the result", a.cnitoolAdd},
		{"check", "Check that the attachment is as it was made", a.cnitoolCheck},
		{"del", "Detach the namespace", a.cnitoolDel},
		{"status", "Say whether the network can serve an add", a.cnitoolStatus},
	} {
		names := []string{"NETWORK", "NETNS"}
		use := verb.name + " NETWORK NETNS"
		if verb.name == "status" {
			names, use = names[:1], "status NETWORK [NETNS]"
		}
		c.AddCommand(&cobra.Command{
			Use: use, Short: verb.short,
			Args: func(c *cobra.Command, args []string) error {
				if len(args) == 2 {
					return nil
				}
				return exactArgs(names...)(c, args)
			},
			RunE: func(c *cobra.Command, args []string) error {
				ctx, cancel := a.bounded(c.Context())
				defer cancel()
				return verb.run(ctx, args, t)
			},
			ValidArgsFunction: a.completeNetworkNetNS,
		})
	}
	return c
}

// cnitoolAdd prints the result as JSON, moved in as cnitool does, unless another form was asked for.
func (a *app) cnitoolAdd(ctx context.Context, args []string, t target) error {
	if a.output != formatTable {
		return a.add(ctx, args, t, request{})
	}
	list, rt, err := a.attachment(args, t, request{})
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
	raw, err := result.Encode(list.CNIVersion)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	if err := json.Indent(&text, raw, "", "    "); err != nil {
		return err
	}
	_, err = a.cfg.Stdout.Write(text.Bytes())
	return err
}

// cnitoolCheck has differences for an error, as all that cnitool knows.
func (a *app) cnitoolCheck(ctx context.Context, args []string, t target) error {
	ck, err := a.checker(false)
	if err != nil {
		return err
	}
	if err := ck.named(ctx, a, args, t); err != nil {
		return err
	}
	var differences []netstate.Difference
	for _, f := range ck.found {
		if f.said {
			return errors.New(f.Object + ": " + f.Have)
		}
		differences = append(differences, f.Difference)
	}
	if len(differences) == 0 {
		return nil
	}
	return &planned.DifferencesError{Differences: differences}
}

func (a *app) cnitoolDel(ctx context.Context, args []string, t target) error {
	path, err := a.netnsPath(args[1])
	if err != nil {
		return err
	}
	return a.del(ctx, deletion{target: t, network: args[0], path: path})
}

func (a *app) cnitoolStatus(ctx context.Context, args []string, _ target) error {
	list, err := a.network(args[0])
	if err != nil {
		return err
	}
	c, _, err := a.runtime(false)
	if err != nil {
		return err
	}
	return c.GetStatusNetworkList(ctx, list)
}

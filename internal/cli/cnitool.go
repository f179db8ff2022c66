package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/output"
	"github.com/cleat-cni/cleat/libcni"
)

// cnitoolRoot is the command tree of the reference cnitool: its commands, arguments, environment, derived container ID,
// output and exit status. Unlike it, an error is printed once, with its code; further arguments are refused; gc keeps what
// lives; gc and status need no NETNS; and --state-dir tells where records are.
func (a *app) cnitoolRoot() *cobra.Command {
	var t target
	ifName := orDefault(a.cfg.Env("CNI_IFNAME"), "eth0")
	c := &cobra.Command{
		Use:   "cnitool",
		Short: "Add, check and remove network interfaces of a network namespace, from a CNI configuration",
		Long: `Runs the plugins of the network NETWORK, which is configured in the folder that
NETCONFPATH names, for the network namespace whose path is NETNS. The plugins get
CNI_ARGS and CAP_ARGS. This is cleat, called by this name; see cleat --help.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		RunE:          helpOnly,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			t.ifName = orDefault(t.ifName, ifName)
			return a.checkGlobals()
		},
	}
	a.globalFlags(c)
	c.PersistentFlags().StringVarP(&t.ifName, "ifname", "i", ifName, "interface in the namespace")
	for _, verb := range []struct {
		name, short string
		needsNetNS  bool
		run         func(context.Context, cnitoolCall) error
	}{
		{"add", "Attach the namespace and print the result", true, a.cnitoolAdd},
		{"check", "Check that the attachment is as it was made", true, func(ctx context.Context, call cnitoolCall) error {
			return call.cni.CheckNetworkList(ctx, call.list, &call.rt)
		}},
		{"del", "Detach the namespace", true, func(ctx context.Context, call cnitoolCall) error {
			return call.cni.DelNetworkList(ctx, call.list, &call.rt)
		}},
		{"gc", "Free what belongs to no living attachment", false, func(ctx context.Context, call cnitoolCall) error {
			_, err := call.cni.CollectNetworkList(ctx, call.list, libcni.CollectArgs{})
			return err
		}},
		{"status", "Say whether the network can serve an add", false, func(ctx context.Context, call cnitoolCall) error {
			return call.cni.GetStatusNetworkList(ctx, call.list)
		}},
	} {
		names, use := []string{"NETWORK", "NETNS"}, verb.name+" NETWORK NETNS"
		if !verb.needsNetNS {
			names, use = names[:1], verb.name+" NETWORK [NETNS]"
		}
		c.AddCommand(&cobra.Command{
			Use: use, Short: verb.short,
			Args: func(c *cobra.Command, args []string) error {
				if len(args) > 1 {
					return exactArgs("NETWORK", "NETNS")(c, args)
				}
				return exactArgs(names...)(c, args)
			},
			RunE: func(c *cobra.Command, args []string) error {
				ctx, cancel := a.bounded(c.Context())
				defer cancel()
				call, err := a.cnitoolCall(args, t)
				if err != nil {
					return err
				}
				return verb.run(ctx, call)
			},
			ValidArgsFunction: a.completeNetworkNetNS,
		})
	}
	return c
}

// cnitoolCall is what a command of cnitool works with.
type cnitoolCall struct {
	cni  *libcni.CNI
	list *libcni.NetworkConfigList
	rt   libcni.RuntimeConf
}

// cnitoolCall reads arguments and environment, for every command all of them.
func (a *app) cnitoolCall(args []string, t target) (cnitoolCall, error) {
	if err := checkPairs(a.cfg.Env("CNI_ARGS")); err != nil {
		return cnitoolCall{}, err
	}
	list, rt, err := a.attachment(args, t, request{})
	if err != nil {
		return cnitoolCall{}, err
	}
	c, _, err := a.runtime(false)
	return cnitoolCall{c, list, rt}, err
}

// checkPairs refuses the pairs of CNI_ARGS that cnitool refuses: those without a key or a value.
func checkPairs(text string) error {
	if text == "" {
		return nil
	}
	for pair := range strings.SplitSeq(text, ";") {
		if key, value, _ := strings.Cut(pair, "="); key == "" || value == "" {
			return usagef("invalid CNI_ARGS pair %q", pair)
		}
	}
	return nil
}

// cnitoolAdd prints the result as JSON, moved in as cnitool does, unless another form was asked for.
func (a *app) cnitoolAdd(ctx context.Context, call cnitoolCall) error {
	result, err := call.cni.AddNetworkList(ctx, call.list, &call.rt)
	if err != nil {
		return err
	}
	if a.output != output.Tabular {
		return a.writeResult(call.list, call.rt, result)
	}
	raw, err := result.Encode(call.list.CNIVersion)
	if err != nil {
		return err
	}
	if cni.AtLeast(call.list.CNIVersion, "1.0.0") {
		if raw, err = sorted(raw); err != nil {
			return err
		}
	}
	var text bytes.Buffer
	if err := json.Indent(&text, raw, "", "    "); err != nil {
		return err
	}
	_, err = a.cfg.Stdout.Write(text.Bytes())
	return err
}

// sorted puts the keys of JSON in order, as the reference writes results from 1.0.0 on.
func sorted(raw []byte) ([]byte, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var value any
	if err := dec.Decode(&value); err != nil {
		return nil, err
	}
	return json.Marshal(value)
}

package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/builtin"
	"github.com/cleat-cni/cleat/netstate"
)

// planView is what one plugin would do.
type planView struct {
	Plugin string         `json:"plugin"`
	Where  string         `json:"where"`
	State  netstate.State `json:"state"`
	Notes  []string       `json:"notes,omitempty"`
}

func (a *app) planCmd() *cobra.Command {
	var t target
	var r request
	c := &cobra.Command{
		Use:   "plan NETWORK [NETNS]",
		Short: "Print what add would do, and change nothing",
		Long: `Prints what add would make, one object a line, grouped by plugin, and changes
nothing: the next free address is looked at, not taken. Without NETNS nothing is
looked at in the container's namespace. What programs that are not built in would do
is not known beforehand.`,
		Example: `  cleat plan mynet
  cleat plan mynet web --publish 8080:80`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 2 {
				return nil
			}
			return exactArgs("NETWORK")(c, args)
		},
		RunE: func(c *cobra.Command, args []string) error {
			ctx, cancel := a.bounded(c.Context())
			defer cancel()
			err := a.plan(ctx, args, t, r)
			if len(args) == 2 {
				err = a.netnsHint(args[1], err)
			}
			return err
		},
		ValidArgsFunction: a.completeNetworkNetNS,
	}
	t.flags(c, a.cfg.Env)
	r.flags(c)
	return c
}

func (a *app) plan(ctx context.Context, args []string, t target, r request) error {
	list, rt, err := a.attachment(args, t, r)
	if err != nil {
		return err
	}
	c, runner, err := a.runtime(false)
	if err != nil {
		return err
	}
	calls, err := c.Calls(cni.VerbAdd, list, &rt)
	if err != nil {
		return err
	}
	plans, err := runner.Plan(ctx, calls)
	if err != nil {
		return err
	}
	return a.writePlans(plans)
}

func (a *app) writePlans(plans []builtin.StepPlan) error {
	views := make([]planView, len(plans))
	for i, p := range plans {
		views[i] = planView{Plugin: p.Type, Where: p.Location.String(), State: p.Plan.State, Notes: p.Plan.Notes}
	}
	if a.output.structured() {
		return writeStructured(a.cfg.Stdout, a.output, views)
	}
	var b strings.Builder
	for i, v := range views {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "# %s: %s\n", v.Plugin, v.Where)
		for _, n := range v.Notes {
			fmt.Fprintf(&b, "# note: %s\n", printable(n))
		}
		for line := range strings.Lines(v.State.String()) {
			b.WriteString(printable(strings.TrimSuffix(line, "\n")) + "\n")
		}
	}
	_, err := fmt.Fprint(a.cfg.Stdout, b.String())
	return err
}

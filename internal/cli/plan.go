package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/builtin"
	"github.com/cleat-cni/cleat/internal/output"
	"github.com/cleat-cni/cleat/libcni"
	"github.com/cleat-cni/cleat/netstate"
	"github.com/cleat-cni/cleat/planned"
)

// planView is what one plugin would do.
type planView struct {
	Plugin string         `json:"plugin"`
	Where  string         `json:"where"`
	State  netstate.State `json:"state"`
	Notes  []string       `json:"notes,omitempty"`
	// Why, with --explain: the keys that an object, by its line, depends on.
	Why map[string][]string `json:"why,omitempty"`
	// Now, with --explain and NETNS: how an object, by its line, stands to what is there.
	Now map[string]planned.Standing `json:"now,omitempty"`

	plan planned.Plan
}

func (a *app) planCmd() *cobra.Command {
	var t target
	var r request
	var explain bool
	c := &cobra.Command{
		Use:   "plan NETWORK [NETNS]",
		Short: "Print what add would do, and change nothing",
		Long: `Prints what add would make, one object a line, grouped by plugin, and changes
nothing: the next free address is looked at, not taken. Without NETNS nothing is
looked at in the container's namespace. What programs that are not built in would do
is not known beforehand. With --explain each object is followed by the keys of the
configuration that it depends on, and with NETNS by what is there in its place: the
same (exists), something that is changed, or something that makes add fail (CONFLICTS).`,
		Example: `  cleat plan mynet
  cleat plan mynet --explain
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
			calls, runner, err := a.plan(args, t, r)
			if err == nil {
				show := runner.Plan
				if explain {
					show = runner.Explain
				}
				var plans []builtin.StepPlan
				if plans, err = show(ctx, calls); err == nil {
					err = a.writePlans(plans)
				}
			}
			if len(args) == 2 {
				err = a.netnsHint(args[1], err)
			}
			return err
		},
		ValidArgsFunction: a.completeNetworkNetNS,
	}
	t.flags(c, a.cfg.Env)
	r.flags(c)
	c.Flags().BoolVar(&explain, "explain", false, "say of each object which keys of the configuration it depends on")
	return c
}

// plan makes the calls of an ADD and the runner that would run them.
func (a *app) plan(args []string, t target, r request) ([]libcni.Call, *builtin.Runner, error) {
	list, rt, err := a.attachment(args, t, r)
	if err != nil {
		return nil, nil, err
	}
	c, runner, err := a.runtime(false)
	if err != nil {
		return nil, nil, err
	}
	calls, err := c.Calls(cni.VerbAdd, list, &rt)
	return calls, runner, err
}

func (a *app) writePlans(plans []builtin.StepPlan) error {
	views := make([]planView, len(plans))
	for i, p := range plans {
		views[i] = planView{Plugin: p.Type, Where: p.Location.String(), State: p.Plan.State, Notes: p.Plan.Notes, Why: p.Plan.Why, Now: p.Plan.Now, plan: p.Plan}
	}
	if a.output.Structured() {
		return output.WriteStructured(a.cfg.Stdout, a.output, views)
	}
	var b strings.Builder
	for i, v := range views {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "# %s: %s\n", v.Plugin, v.Where)
		for _, n := range v.Notes {
			fmt.Fprintf(&b, "# note: %s\n", output.Printable(n))
		}
		for _, o := range v.State.Objects() {
			b.WriteString(output.Printable(o.String()) + v.because(o) + "\n")
		}
	}
	_, err := fmt.Fprint(a.cfg.Stdout, b.String())
	return err
}

// because is the end of an explained object's line.
func (v planView) because(o netstate.Object) string {
	if v.Why == nil {
		return ""
	}
	why := v.Plugin
	if keys := v.plan.Keys(o); len(keys) > 0 {
		why = strings.Join(keys, ", ")
	}
	have := strings.Join(strings.Fields(v.Now[o.String()].Have), " ")
	switch v.Now[o.String()].Mark {
	case planned.Exists:
		why += "; exists"
	case planned.Changes:
		why += "; changes what is there: " + have
	case planned.Conflicts:
		why += "; CONFLICTS with what is there: " + have
	}
	return "  # " + output.Printable(why)
}

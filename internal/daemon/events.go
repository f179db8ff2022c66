package daemon

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/cleat-cni/cleat/internal/agent/status"
	"github.com/cleat-cni/cleat/internal/output"
)

func (a *app) eventsCmd() *cobra.Command {
	var s scope
	c := &cobra.Command{
		Use:   "events [NAME]",
		Short: "Show what happened to pods",
		Long: `Show what happened to a pod, or to all of a namespace, the latest last. The agent remembers the last 1,000
events, also of pods that are gone, and after it was started anew.`,
		Example: `  cleat pods events
  cleat pods events web -o json
  cleat pods events -A`,
		Args: args(cobra.MaximumNArgs(1)),
		RunE: func(c *cobra.Command, names []string) error {
			if err := s.check(); err != nil {
				return err
			}
			events, err := a.events(c.Context(), s, names)
			if err != nil {
				return err
			}
			return a.print(events, func() *output.Table { return a.eventTable(events, len(names) == 0) })
		},
	}
	s.manyFlags(c)
	c.ValidArgsFunction = a.completeNames(&s, false)
	return c
}

// events are those of a pod, or without a name those of the scope.
func (a *app) events(ctx context.Context, s scope, names []string) ([]status.Event, error) {
	list := []status.Event{}
	if len(names) == 1 {
		r, err := s.ref(names[0])
		if err != nil {
			return nil, err
		}
		of, err := a.client().Events(ctx, r.namespace, r.name)
		if err != nil {
			return nil, fmt.Errorf("events: %w", a.explain(ctx, r, err))
		}
		return append(list, of...), nil
	}
	all, err := a.client().Events(ctx, "", "")
	if err != nil {
		return nil, err
	}
	for _, e := range all {
		if s.covers(e.Namespace) {
			list = append(list, e)
		}
	}
	return list, nil
}

// eventTable lays out events, with the pod of each if they are of several.
func (a *app) eventTable(events []status.Event, several bool) *output.Table {
	now := a.cfg.Now()
	t := &output.Table{Head: []string{"LAST SEEN", "TYPE", "REASON", "COUNT", "MESSAGE"}, Empty: "no events"}
	if several {
		t.Head = []string{"LAST SEEN", "TYPE", "REASON", "POD", "COUNT", "MESSAGE"}
	}
	for _, e := range events {
		row := []string{age(e.Last, now), e.Type, e.Reason}
		if several {
			row = append(row, e.Namespace+"/"+e.Name)
		}
		t.Add(append(row, fmt.Sprint(e.Count), e.Message))
	}
	return t
}

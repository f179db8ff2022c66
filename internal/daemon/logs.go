package daemon

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/agent/server"
)

func (a *app) logsCmd() *cobra.Command {
	var s scope
	o := server.LogOptions{}
	c := &cobra.Command{
		Use:   "logs NAME",
		Short: "Print what a container says",
		Long: `Print what a container of a pod says, on both streams, as it said it. The agent keeps 50 MiB of each
container, in the CRI format, below --root/logs.`,
		Example: `  cleat pods logs web
  cleat pods logs web -f --tail 10 --timestamps
  cleat pods logs web -c httpd --previous       of the last run that has ended`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, names []string) error {
			r, err := s.ref(names[0])
			if err != nil {
				return err
			}
			if o.Tail < -1 {
				return &usageError{cni.Errorf(cni.CodeInvalidEnvironment, "--tail %d is no number of lines", o.Tail)}
			}
			return a.logs(c.Context(), r, o)
		},
	}
	s.oneFlags(c)
	c.ValidArgsFunction = a.completeNames(&s, false)
	f := c.Flags()
	f.StringVarP(&o.Container, "container", "c", "", "container (default the pod's first)")
	completeFlag(c, "container", a.completeContainers(&s))
	f.BoolVarP(&o.Follow, "follow", "f", false, "go on until the container ends")
	f.BoolVarP(&o.Previous, "previous", "p", false, "of the last run that has ended")
	f.IntVar(&o.Tail, "tail", -1, "number of lines from the end; -1 is all")
	f.BoolVar(&o.Timestamps, "timestamps", false, "begin each line with its time")
	return c
}

func (a *app) logs(ctx context.Context, r ref, o server.LogOptions) error {
	body, err := a.client().Logs(ctx, r.namespace, r.name, o)
	if err != nil {
		return fmt.Errorf("logs: %w", a.explain(ctx, r, err))
	}
	defer body.Close()
	if _, err := io.Copy(a.cfg.Stdout, body); err != nil && ctx.Err() == nil {
		return fmt.Errorf("logs of pod %s: %w", r, err)
	}
	return nil
}

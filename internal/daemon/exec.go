package daemon

import (
	"bytes"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/agent/server"
)

func (a *app) execCmd() *cobra.Command {
	var s scope
	var req server.ExecRequest
	c := &cobra.Command{
		Use:   "exec NAME -- COMMAND [ARGUMENT...]",
		Short: "Run a command in a container",
		Long: `Run a command in a container of a pod, and print what it says as it says it. The
exit status is the command's. It has no terminal, and with -i the input that
this program has.`,
		Example: `  cleat pods exec web -- ip addr
  cleat pods exec kube-system/dns -c sidecar -- cat /etc/resolv.conf
  cleat pods exec -i web -- tar -x -C /srv <site.tar`,
		Args: args(cobra.MinimumNArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			r, err := s.ref(list[0])
			if err != nil {
				return err
			}
			req.Command = list[1:]
			if dash := c.ArgsLenAtDash(); dash > 1 || len(req.Command) == 0 {
				return &usageError{cni.Errorf(cni.CodeInvalidEnvironment, "one NAME, and a command after --, are needed").WithHint("usage: %s", c.UseLine())}
			}
			return a.exec(c.Context(), r, req)
		},
	}
	s.oneFlags(c)
	c.ValidArgsFunction = a.completeNames(&s, false)
	c.Flags().StringVarP(&req.Container, "container", "c", "", "container (default the pod's first)")
	completeFlag(c, "container", a.completeContainers(&s))
	c.Flags().BoolVarP(&req.Input, "stdin", "i", false, "pass this program's standard input on to the command")
	return c
}

func (a *app) exec(ctx context.Context, r ref, req server.ExecRequest) error {
	streams := server.Streams{Stdout: a.cfg.Stdout, Stderr: a.cfg.Stderr}
	var out bytes.Buffer
	if a.output.Structured() {
		streams.Stdout, streams.Stderr = &out, &out
	}
	if req.Input {
		streams.Stdin = a.cfg.Stdin
	}
	code, err := a.client().Exec(ctx, r.namespace, r.name, req, streams)
	if err != nil {
		return fmt.Errorf("exec: %w", a.explain(ctx, r, err))
	}
	if a.output.Structured() {
		if err := a.print(map[string]any{"output": out.String(), "code": code}, nil); err != nil {
			return err
		}
	}
	if code != exitDone {
		return exitError(code)
	}
	return nil
}

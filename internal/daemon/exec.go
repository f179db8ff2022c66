package daemon

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/agent/server"
)

func (a *app) execCmd() *cobra.Command {
	var s scope
	var container string
	c := &cobra.Command{
		Use:   "exec NAME -- COMMAND [ARGUMENT...]",
		Short: "Run a command in a container",
		Long: `Run a command in a container of a pod, and print what it says on either stream, at most 10 KiB, when it has
ended. The exit status is the command's. It has no input and no terminal.`,
		Example: `  cleat pods exec web -- ip addr
  cleat pods exec kube-system/dns -c sidecar -- cat /etc/resolv.conf`,
		Args: args(cobra.MinimumNArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			r, err := s.ref(list[0])
			if err != nil {
				return err
			}
			command := list[1:]
			if dash := c.ArgsLenAtDash(); dash > 1 || len(command) == 0 {
				return &usageError{cni.Errorf(cni.CodeInvalidEnvironment, "one NAME, and a command after --, are needed").WithHint("usage: %s", c.UseLine())}
			}
			return a.exec(c.Context(), r, server.ExecRequest{Container: container, Command: command})
		},
	}
	s.oneFlags(c)
	c.Flags().StringVarP(&container, "container", "c", "", "container (default the pod's first)")
	return c
}

func (a *app) exec(ctx context.Context, r ref, req server.ExecRequest) error {
	answer, err := a.client().Exec(ctx, r.namespace, r.name, req)
	if err != nil {
		return fmt.Errorf("exec: %w", a.explain(ctx, r, err))
	}
	if a.output.Structured() {
		err = a.print(map[string]any{"output": string(answer.Output), "code": answer.Code}, nil)
	} else {
		_, err = a.cfg.Stdout.Write(answer.Output)
	}
	if err != nil {
		return err
	}
	if answer.Code != exitDone {
		return exitError(answer.Code)
	}
	return nil
}

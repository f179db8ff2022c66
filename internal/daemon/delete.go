package daemon

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/cleat-cni/cleat/internal/agent/server"
)

func (a *app) deleteCmd() *cobra.Command {
	var s scope
	var dryRun bool
	c := &cobra.Command{
		Use:   "delete NAME...",
		Short: "End pods that were applied",
		Long: `End pods that were applied: their manifests are removed, and the agent stops them with their grace. A pod of
a manifest in a folder of yours goes when you remove it there.`,
		Example: `  cleat pods delete web
  cleat pods delete --dry-run kube-system/dns default/web`,
		Args: args(cobra.MinimumNArgs(1)),
		RunE: func(c *cobra.Command, names []string) error { return a.deletePods(c.Context(), s, names, dryRun) },
	}
	s.oneFlags(c)
	c.ValidArgsFunction = a.completeNames(&s, true)
	c.Flags().BoolVar(&dryRun, "dry-run", false, "say what would be done, and do nothing")
	return c
}

// deletePods goes on after one that can't be deleted.
func (a *app) deletePods(ctx context.Context, s scope, names []string, dryRun bool) error {
	refs := make([]ref, len(names))
	for i, name := range names {
		var err error
		if refs[i], err = s.ref(name); err != nil {
			return err
		}
	}
	list := []server.Applied{}
	var errs []error
	for _, r := range refs {
		done, err := a.client().Delete(ctx, r.namespace, r.name, dryRun)
		if err != nil {
			errs = append(errs, fmt.Errorf("delete: %w", a.explain(ctx, r, err)))
			continue
		}
		list = append(list, done)
	}
	err := errors.Join(errs...)
	if err != nil && a.output.Structured() {
		return err
	}
	return errors.Join(a.printApplied(list, dryRun), err)
}

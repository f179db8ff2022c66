package daemon

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/agent/server"
	"github.com/cleat-cni/cleat/internal/output"
)

func (a *app) applyCmd() *cobra.Command {
	var files []string
	var dryRun bool
	c := &cobra.Command{
		Use:   "apply -f FILE",
		Short: "Run the pods of a manifest, or change them",
		Long: `Run the pods of a manifest, or change those that run: YAML or JSON, several documents or a List. The agent
keeps each pod in a file of its own below --root and runs it also after a new start, until it is deleted. A
manifest is taken whole or not at all; what is wrong with it is said with its line.`,
		Example: `  cleat pods apply -f examples/pods/web.yaml
  cleat pods apply -f - --dry-run < web.yaml`,
		Args: args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			if len(files) == 0 {
				return &usageError{cni.Errorf(cni.CodeInvalidEnvironment, "-f is missing").WithHint("name a manifest: -f FILE, or -f - for standard input")}
			}
			return a.apply(c.Context(), files, dryRun)
		},
	}
	c.Flags().StringArrayVarP(&files, "filename", "f", nil, "manifest, or - for standard input; give it again for more")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "say what would be done, and do nothing")
	return c
}

func (a *app) apply(ctx context.Context, files []string, dryRun bool) error {
	texts := make([][]byte, len(files))
	for i, name := range files { // all are read before anything is done
		var err error
		if texts[i], err = a.readManifest(name); err != nil {
			return err
		}
	}
	all := []server.Applied{}
	for i, text := range texts {
		list, err := a.client().Apply(ctx, files[i], text, dryRun)
		if err != nil {
			return fmt.Errorf("apply: %w", err)
		}
		all = append(all, list...)
	}
	return a.printApplied(all, dryRun)
}

func (a *app) readManifest(name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(a.cfg.Stdin)
	}
	return os.ReadFile(name)
}

// printApplied prints what became of each pod, as kubectl does.
func (a *app) printApplied(list []server.Applied, dryRun bool) error {
	if a.output.Structured() {
		return a.print(list, nil)
	}
	suffix := ""
	if dryRun {
		suffix = " (dry run)"
	}
	for _, p := range list {
		if _, err := fmt.Fprintf(a.cfg.Stdout, "pod %s/%s %s%s\n", p.Namespace, output.Printable(p.Name), p.Change, suffix); err != nil {
			return err
		}
	}
	return nil
}

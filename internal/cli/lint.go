package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cleat-cni/cleat/internal/atomicfile"
	"github.com/cleat-cni/cleat/internal/lint"
	"github.com/cleat-cni/cleat/internal/nearmiss"
	"github.com/cleat-cni/cleat/internal/output"
)

// linting is what the flags of lint say.
type linting struct {
	fix, dryRun bool
	maxPods     int
	why         string // a rule
}

func (a *app) lintCmd() *cobra.Command {
	var l linting
	c := &cobra.Command{
		Use:   "lint [FILE|DIR]...",
		Short: "Say everything that is wrong with configurations, and what to write",
		Long: `Judges network configurations before anything runs: those named, or the folder
of configurations. Each problem is shown with its place and what to write. The
plugins that are built in judge their own keys and values, others are held to the
specification; what depends on this machine is no more than a warning. With --fix
what can be mended without changing what a configuration means is mended: commas
and quotes, the case of keys, numbers in quotes, keys that say the same twice.
Exit status 3 says that there are errors. Files that are named one by one are judged
with those named beside them in the same folder.`,
		Example: `  cleat lint
  cleat lint 10-pods.conflist
  cleat lint --fix --dry-run ./net.d
  cleat lint --why L103`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			ctx, cancel := a.bounded(c.Context())
			defer cancel()
			if l.why != "" {
				return a.aboutRule(l.why, args)
			}
			return a.lint(ctx, l, args)
		},
	}
	c.Flags().BoolVar(&l.fix, "fix", false, "mend what can be mended safely, and say the rest")
	c.Flags().BoolVar(&l.dryRun, "dry-run", false, "with --fix: say what would be mended, and change nothing")
	c.Flags().IntVar(&l.maxPods, "max-pods", 0, "how many pods a node runs, that a network has to have addresses and ports for (default 110)")
	c.Flags().StringVar(&l.why, "why", "", "say what a rule, such as L103, is about")
	completeFlag(c, "why", completeRules)
	return c
}

func completeRules(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	var ids []string
	for _, r := range lint.Rules() {
		ids = append(ids, r.ID+"\t"+r.Name)
	}
	return ids, cobra.ShellCompDirectiveNoFileComp
}

func (a *app) aboutRule(id string, args []string) error {
	r, ok := lint.RuleOf(id)
	switch {
	case len(args) > 0:
		return usagef("--why takes no files")
	case !ok:
		var all []string
		for _, r := range lint.Rules() {
			all = append(all, r.ID, r.Name)
		}
		return withHint(usagef("there is no rule %q", id), orDefault(nearmiss.Hint(id, all), "docs/lint.md lists the rules"))
	}
	fixes := ""
	if r.Fixes {
		fixes = "\n\nSome of it --fix mends."
	}
	_, err := fmt.Fprintf(a.cfg.Stdout, "%s %s\n\n%s%s\n", r.ID, r.Name, wrap(r.Why), fixes)
	return err
}

// wrap breaks a text into lines for a terminal.
func wrap(text string) string {
	const width = 80
	var b strings.Builder
	n := 0
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0:
		case n+1+len(word) > width:
			b.WriteByte('\n')
			n = 0
		default:
			b.WriteByte(' ')
			n++
		}
		b.WriteString(word)
		n += len(word)
	}
	return b.String()
}

func (a *app) lint(ctx context.Context, l linting, args []string) error {
	switch {
	case l.dryRun && !l.fix:
		return usagef("--dry-run goes with --fix")
	case l.maxPods < 0:
		return usagef("--max-pods %d is negative", l.maxPods)
	case len(args) == 0:
		args = []string{a.confDir}
	}
	folders, err := lint.Load(args)
	if err != nil {
		return err
	}
	linter, err := a.linter(l.maxPods)
	if err != nil {
		return err
	}
	if l.fix && !l.dryRun {
		for _, f := range folders {
			if err := a.mend(linter.Fix(f)); err != nil {
				return err
			}
		}
		if folders, err = lint.Load(args); err != nil {
			return err
		}
	}
	found, err := linter.Check(ctx, folders)
	if err != nil {
		return context.Cause(ctx)
	}
	if l.dryRun {
		a.wouldMend(found)
	}
	err = a.writeLint(found)
	a.summarise(found, folders)
	if err == nil && slices.ContainsFunc(found, func(f lint.Finding) bool { return f.Severity == lint.Error }) {
		err = errFound
	}
	return err
}

func (a *app) linter(maxPods int) (*lint.Linter, error) {
	c, runner, err := a.runtime(false)
	if err != nil {
		return nil, err
	}
	node := &lintNode{cni: c, runner: runner, dirs: a.pluginDirs, root: os.DirFS(a.cfg.Root)}
	return lint.New(lint.Config{Plugins: runner.Definitions(), Node: node, MaxPods: maxPods})
}

// mend writes what was mended. A link to a file stays one.
func (a *app) mend(files []lint.File) error {
	for _, f := range files {
		path, err := filepath.EvalSymlinks(f.Path)
		if err != nil {
			return fmt.Errorf("mend configuration: %w", err)
		}
		if err := atomicfile.Write(path, f.Data, f.Mode.Perm()); err != nil {
			return fmt.Errorf("mend configuration: %w", err)
		}
		fmt.Fprintf(a.cfg.Stderr, "mended %s\n", output.Printable(f.Path))
	}
	return nil
}

// wouldMend tells what --fix would mend.
func (a *app) wouldMend(found []lint.Finding) {
	for _, f := range found {
		if f.Edits() != nil {
			fmt.Fprintf(a.cfg.Stderr, "would mend %s:%d:%d: %s\n", output.Printable(f.File), f.Line, f.Column, output.Printable(f.Message))
		}
	}
}

func (a *app) writeLint(found []lint.Finding) error {
	if a.output.Structured() {
		if found == nil {
			found = []lint.Finding{}
		}
		return output.WriteStructured(a.cfg.Stdout, a.output, found)
	}
	var paint func(lint.Severity, string) string
	if isTerminal(a.cfg.Stdout) && a.cfg.Env("NO_COLOR") == "" {
		paint = colour
	}
	var b strings.Builder
	for _, f := range found {
		b.WriteString(f.Render(paint) + "\n")
	}
	_, err := fmt.Fprint(a.cfg.Stdout, b.String())
	return err
}

// colour paints for a terminal, as compilers do.
func colour(s lint.Severity, text string) string {
	code := map[lint.Severity]string{lint.Error: "1;31", lint.Warning: "1;33", lint.Info: "1;36", "": "34"}[s]
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// summarise counts on standard error what was found.
func (a *app) summarise(found []lint.Finding, folders []lint.Folder) {
	if a.output.Structured() {
		return
	}
	files := 0
	for _, f := range folders {
		files += len(f.Files)
	}
	count := map[lint.Severity]int{}
	for _, f := range found {
		count[f.Severity]++
	}
	var parts []string
	for _, s := range []lint.Severity{lint.Error, lint.Warning, lint.Info} {
		if n := count[s]; n > 0 {
			parts = append(parts, plural(n, string(s)))
		}
	}
	if parts == nil {
		parts = []string{"nothing found"}
	}
	fmt.Fprintf(a.cfg.Stderr, "%s: %s\n", plural(files, "file"), strings.Join(parts, ", "))
}

func plural(n int, what string) string {
	if n != 1 && what != string(lint.Info) {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

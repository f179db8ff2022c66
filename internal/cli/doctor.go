package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cleat-cni/cleat/internal/doctor"
	"github.com/cleat-cni/cleat/internal/nearmiss"
	"github.com/cleat-cni/cleat/internal/output"
	"github.com/cleat-cni/cleat/libcni"
)

func (a *app) doctorCmd() *cobra.Command {
	var fix, dryRun bool
	c := &cobra.Command{
		Use:   "doctor [CHECK]...",
		Short: "Examine this node, and say what is wrong with it and how to mend it",
		Long: `Examines kernel, settings, firewalls, interfaces, configurations, plugins and state of
this node, and says of each check whether it is ok, a warning, failed, or skipped for
want of rights. Without -v or -o wide those that are ok are only counted. Nothing is
changed, unless --fix is given: it does what is safe without a question. Exit status
3 says that something failed. docs/doctor.md says of each check what it looks at.`,
		Example: `  cleat doctor
  cleat doctor full-pools stale-leases
  cleat doctor --fix --dry-run
  cleat doctor -o json`,
		RunE: func(c *cobra.Command, args []string) error {
			ctx, cancel := a.bounded(c.Context())
			defer cancel()
			if dryRun && !fix {
				return usagef("--dry-run goes with --fix")
			}
			for _, name := range args {
				if _, ok := doctor.CheckOf(name); !ok {
					return withHint(usagef("there is no check %q", name), orDefault(nearmiss.Hint(name, checkNames()), "docs/doctor.md lists the checks"))
				}
			}
			return a.doctor(ctx, args, fix, dryRun)
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return checkNames(), cobra.ShellCompDirectiveNoFileComp
		},
	}
	c.Flags().BoolVar(&fix, "fix", false, "do what is safe without a question, and examine again")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "with --fix: say what would be done, and do nothing")
	return c
}

func checkNames() []string {
	var names []string
	for _, c := range doctor.Checks() {
		names = append(names, c.Name)
	}
	return names
}

func (a *app) doctor(ctx context.Context, names []string, fix, dryRun bool) error {
	found, err := a.examine(ctx, names)
	if err != nil {
		return err
	}
	var undone error // what could not be mended is told beside what there is to tell
	if fix {
		undone = a.remedy(ctx, found, dryRun)
	}
	if fix && !dryRun {
		if found, err = a.examine(ctx, names); err != nil {
			return errors.Join(undone, err)
		}
	}
	err = errors.Join(undone, a.writeDoctor(found))
	if err == nil && slices.ContainsFunc(found, func(r doctor.Result) bool { return r.Status == doctor.Failed }) {
		err = errFound
	}
	return err
}

func (a *app) examine(ctx context.Context, names []string) ([]doctor.Result, error) {
	g, err := a.gatherer()
	if err != nil {
		return nil, err
	}
	facts, err := g.gather(ctx)
	if err != nil {
		return nil, err
	}
	return doctor.Examine(facts, names)
}

// remedy does what is safe, each thing once, and goes on after errors.
func (a *app) remedy(ctx context.Context, found []doctor.Result, dryRun bool) error {
	var errs []error
	done := map[doctor.Remedy]bool{}
	for _, r := range found {
		m := r.Remedy()
		if m.IsZero() || done[m] {
			continue
		}
		done[m] = true
		what, do := a.remedyOf(ctx, m)
		if dryRun {
			fmt.Fprintf(a.cfg.Stderr, "would %s\n", output.Printable(what))
			continue
		}
		if err := do(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", what, err))
			continue
		}
		fmt.Fprintf(a.cfg.Stderr, "did %s\n", output.Printable(what))
	}
	return errors.Join(errs...)
}

// remedyOf says what a remedy does, and how.
func (a *app) remedyOf(ctx context.Context, m doctor.Remedy) (what string, do func() error) {
	switch {
	case m.Sysctl.Name != "":
		path := filepath.Join(a.cfg.Root, "proc/sys", m.Sysctl.Name)
		return fmt.Sprintf("set %s to %s", strings.ReplaceAll(m.Sysctl.Name, "/", "."), m.Sysctl.Value), func() error {
			return os.WriteFile(path, []byte(m.Sysctl.Value+"\n"), 0o644)
		}
	case m.Remove != "":
		return "remove " + m.Remove, func() error {
			err := os.Remove(filepath.Join(a.cfg.Root, m.Remove))
			if errors.Is(err, fs.ErrNotExist) {
				return nil // another remedy has removed it
			}
			return err
		}
	case m.Close != "":
		path := filepath.Join(a.cfg.Root, m.Close)
		return "close " + m.Close + " to others (chmod o-w)", func() error {
			info, err := os.Stat(path)
			if err != nil {
				return err
			}
			return os.Chmod(path, info.Mode().Perm()&^0o002)
		}
	}
	return "free what belongs to no live attachment, as cleat gc does", func() error { return a.collectAll(ctx) }
}

// collectAll is gc in all networks, without its listing. A network in which it can't be done is told of, and keeps nothing from the others.
func (a *app) collectAll(ctx context.Context) error {
	c, _, err := a.runtime(false)
	if err != nil {
		return err
	}
	lists, err := a.gcLists(ctx, c, "")
	for _, list := range lists {
		if _, err := c.CollectNetworkList(ctx, list, libcni.CollectArgs{}); err != nil {
			a.note("%v", err)
		}
	}
	return err
}

func (a *app) writeDoctor(found []doctor.Result) error {
	if a.output.Structured() {
		return output.WriteStructured(a.cfg.Stdout, a.output, found)
	}
	t := output.Table{Head: []string{"STATUS", "CHECK", "MESSAGE"}}
	var fixes [][2]string
	count := map[doctor.Status]int{}
	for _, r := range found {
		count[r.Status]++
		if r.Status == doctor.OK && !a.verbose && a.output != output.Wide {
			continue
		}
		t.Add([]string{string(r.Status), r.Check, r.Message})
		if r.Fix != "" {
			fixes = output.AppendNew(fixes, [2]string{r.Check, r.Fix})
		}
	}
	if err := t.Write(a.cfg.Stdout, false); err != nil {
		return err
	}
	if err := output.WriteSections(a.cfg.Stdout, output.Section{Title: "What to do", Lines: fixes}); err != nil {
		return err
	}
	var parts []string
	for _, s := range []doctor.Status{doctor.Failed, doctor.Warning, doctor.Skipped, doctor.OK} {
		if count[s] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", count[s], s))
		}
	}
	fmt.Fprintln(a.cfg.Stderr, strings.Join(parts, ", "))
	return nil
}

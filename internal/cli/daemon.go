package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/spf13/cobra"
)

// daemonProgram is the file that holds what runs on, and what asks it.
const daemonProgram = "cleatd"

// daemonCmd is a command that cleatd has: cleat becomes cleatd for it, with all arguments as they are, so that it need not link what a
// daemon does.
func (a *app) daemonCmd(use, short string) *cobra.Command {
	c := &cobra.Command{
		Use: use, Short: short, DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error { return a.daemon(append([]string{use}, args...)) },
	}
	// cleatd knows what comes below, and answers in the shell's form: cobra's command for that has it as its arguments.
	c.ValidArgsFunction = func(_ *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		_ = a.daemon(append(append([]string{cobra.ShellCompRequestCmd, use}, args...), begun)) // without cleatd there is nothing to complete
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	c.SetHelpFunc(func(c *cobra.Command, _ []string) {
		if err := a.daemon([]string{use, "--help"}); err != nil { // cobra's help can't fail
			fmt.Fprintf(a.cfg.Stdout, "%s\n\n%v\n", c.Short, err)
		}
	})
	return c
}

// daemon becomes cleatd. It only returns if it can't.
func (a *app) daemon(args []string) error {
	if a.cfg.Program == "" || a.cfg.Exec == nil {
		return errors.New("where cleat lies is not known, and so neither where " + daemonProgram + " does")
	}
	path := filepath.Join(filepath.Dir(a.cfg.Program), daemonProgram)
	err := a.cfg.Exec(path, append([]string{a.name()}, args...))
	err = fmt.Errorf("start %s: %w", path, cmp.Or(err, errors.New("it came back")))
	if errors.Is(err, fs.ErrNotExist) {
		return withHint(err, "build it beside cleat (make build), or install both (make install)")
	}
	return err
}

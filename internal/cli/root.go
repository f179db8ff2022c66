package cli

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cleat-cni/cleat/internal/builtin"
	"github.com/cleat-cni/cleat/internal/nearmiss"
	"github.com/cleat-cni/cleat/internal/output"
	"github.com/cleat-cni/cleat/internal/usage"
)

const rootLong = `cleat attaches containers to networks: it runs the plugins of a CNI network
configuration, remembers what it attached, checks it against the kernel and
takes it away again. The usual plugins are built in.`

const rootExample = `  cleat demo                                  see two pods talk, in scratch namespaces
  cleat networks                              what is configured here
  cleat add mynet web --publish 8080:80       attach the namespace /run/netns/web
  cleat ls                                    what is attached
  cleat del mynet web                         detach it`

// root returns the command tree.
func (a *app) root() *cobra.Command {
	c := &cobra.Command{
		Use:           "cleat",
		Short:         "Attach containers to networks",
		Long:          rootLong,
		Example:       rootExample,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		PersistentPreRunE: func(c *cobra.Command, _ []string) error {
			a.agentState = !c.Flags().Changed("state-dir")
			return a.checkGlobals()
		},
	}
	var version bool
	c.RunE = func(c *cobra.Command, args []string) error {
		if version && len(args) == 0 {
			return a.ownVersion()
		}
		return helpOnly(c, args)
	}
	c.Flags().BoolVar(&version, "version", false, "print the version of cleat")
	a.globalFlags(c)
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return withHint(&usageError{usage.Explain(err)}, "see "+c.CommandPath()+" --help")
	})
	c.AddCommand(a.addCmd(), a.delCmd(), a.checkCmd(), a.repairCmd(), a.gcCmd(), a.statusCmd(),
		a.lsCmd(), a.showCmd(), a.networksCmd(), a.planCmd(), a.lintCmd(), a.schemaCmd(), a.doctorCmd(), a.installCmd(), a.demoCmd(), a.versionCmd(),
		a.daemonCmd("agent", "Keep the pods of manifests running and connected on this node"),
		a.daemonCmd("pods", "Show the pods of the agent that runs here, and change them"))
	c.SetHelpCommand(helpCmd())
	c.SetOut(a.cfg.Stdout) // which the next line takes for good
	c.InitDefaultCompletionCmd()
	if completion, _, err := c.Find([]string{"completion"}); err == nil {
		completion.Args, completion.RunE = cobra.ArbitraryArgs, helpOnly
	}
	return c
}

// helpOnly runs a command that only has commands below it: it shows its help, and refuses what is none of them.
func helpOnly(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		hint := nearmiss.Hint(args[0], commandNames(c))
		return withHint(usagef("unknown command %q", args[0]), orDefault(hint, "see "+c.CommandPath()+" --help"))
	}
	return c.Help()
}

// helpCmd is cobra's, which takes the help of the program for that of a command it doesn't know.
func helpCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "help [command]",
		Short: "Help about any command",
		Args:  cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			about, rest, err := c.Root().Find(args)
			if err != nil {
				return &usageError{err}
			}
			if len(rest) > 0 {
				return helpOnly(about, rest)
			}
			about.InitDefaultHelpFlag()
			return about.Help()
		},
		ValidArgsFunction: func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return commandNames(c.Root()), cobra.ShellCompDirectiveNoFileComp
		},
	}
}

func (a *app) globalFlags(c *cobra.Command) {
	f := c.PersistentFlags()
	f.SortFlags = false
	f.StringVar(&a.confDir, "conf-dir", orDefault(a.cfg.Env("NETCONFPATH"), "/etc/cni/net.d"),
		"folder of network configurations")
	dirs := slices.DeleteFunc(filepath.SplitList(a.cfg.Env("CNI_PATH")), func(dir string) bool { return dir == "" })
	if len(dirs) == 0 {
		dirs = []string{"/opt/cni/bin"}
	}
	f.StringArrayVar(&a.pluginDirs, "plugin-dir", dirs, "folder of plugins; give it again for more")
	f.StringVar(&a.stateDir, "state-dir", "/var/lib/cni", "folder of records")
	f.BoolVar(&a.execOnly, "exec-only", false, "always run plugins as programs")
	f.BoolVar(&a.builtin, "builtin", false, "never run a plugin as a program")
	f.DurationVar(&a.timeout, "timeout", 0, "bound on the work of the command, such as 3s; 0 is none")
	f.VarP(&a.output, "output", "o", "form of the result")
	completeFlag(c, "output", completeFormat)
	f.BoolVarP(&a.verbose, "verbose", "v", false, "say each step on standard error")
	f.BoolVar(&a.jsonLog, "json-log", false, "write messages as JSON lines")
}

// checkGlobals refuses global flags that say nothing or contradict each other.
func (a *app) checkGlobals() error {
	switch {
	case a.confDir == "":
		return usagef("--conf-dir is empty")
	case slices.Contains(a.pluginDirs, ""):
		return usagef("--plugin-dir is empty")
	case a.stateDir == "":
		return usagef("--state-dir is empty")
	case a.execOnly && a.builtin:
		return usagef("--exec-only and --builtin exclude each other")
	case a.timeout < 0:
		return usagef("--timeout %v is negative", a.timeout)
	}
	return nil
}

func (a *app) mode() builtin.Mode {
	switch {
	case a.execOnly:
		return builtin.ExecOnly
	case a.builtin:
		return builtin.BuiltinOnly
	default:
		return builtin.Auto
	}
}

// askedFormat looks for -o in arguments that could not be parsed as a whole.
func askedFormat(args []string) output.Format {
	f := output.Tabular
	for i, arg := range args {
		value := ""
		switch {
		case (arg == "-o" || arg == "--output") && i+1 < len(args):
			value = args[i+1]
		case strings.HasPrefix(arg, "--output="):
			value = strings.TrimPrefix(arg, "--output=")
		case strings.HasPrefix(arg, "-o") && len(arg) > 2:
			value = strings.TrimPrefix(strings.TrimPrefix(arg, "-o"), "=")
		}
		if value != "" && f.Set(value) != nil {
			return output.Tabular
		}
	}
	return f
}

// exactArgs is cobra.ExactArgs with words: names says what the arguments are.
func exactArgs(names ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			is := "is"
			if len(names)-len(args) > 1 {
				is = "are"
			}
			return withHint(usagef("%s %s missing", strings.Join(names[len(args):], " and "), is), "usage: "+c.UseLine())
		case len(args) > len(names):
			return withHint(usagef("unexpected argument %q", args[len(names)]), "usage: "+c.UseLine())
		}
		return nil
	}
}

// atMostOne takes the argument name, or none.
func atMostOne(name string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return exactArgs(name)(c, args)
	}
}

func commandNames(root *cobra.Command) []string {
	var names []string
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return names
}

func orDefault(s, def string) string {
	if s == "" {
		return def
	}
	return s
}

// age gives the time since t in the one unit that says most.
func (a *app) age(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	d := a.cfg.Now().Sub(t)
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", max(0, d/time.Second))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	default:
		return fmt.Sprintf("%dd", d/(24*time.Hour))
	}
}

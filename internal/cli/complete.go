package cli

import (
	"github.com/cleat-cni/cleat/internal/output"
	"os"
	"slices"

	"github.com/spf13/cobra"
)

// completeFlag has complete tell the values of a flag that c has.
func completeFlag(c *cobra.Command, flag string, complete cobra.CompletionFunc) {
	if err := c.RegisterFlagCompletionFunc(flag, complete); err != nil {
		panic("no such flag: " + err.Error())
	}
}

// completeFormat completes the form of a result.
func completeFormat(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return []string{string(output.JSON), string(output.YAML), string(output.Tabular), string(output.Wide)},
		cobra.ShellCompDirectiveNoFileComp
}

// completePlugins completes types of plugins: those that are built in and those in the folders.
func (a *app) completePlugins(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	runner, err := a.runner()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	types := runner.Types()
	for _, dir := range a.pluginDirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue // a folder that isn't there holds no plugins
		}
		for _, e := range entries {
			if _, err := runner.Find(e.Name(), a.pluginDirs); err == nil {
				types = append(types, e.Name())
			}
		}
	}
	slices.Sort(types)
	return slices.Compact(types), cobra.ShellCompDirectiveNoFileComp
}

// completeNetworkNetNS completes NETWORK NETNS.
func (a *app) completeNetworkNetNS(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	switch len(args) {
	case 0:
		return a.networkNames(), cobra.ShellCompDirectiveNoFileComp
	case 1:
		return a.netnsNames(), cobra.ShellCompDirectiveDefault
	default:
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeNetwork completes NETWORK.
func (a *app) completeNetwork(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.networkNames(), cobra.ShellCompDirectiveNoFileComp
}

// completeID completes a container ID that is an argument.
func (a *app) completeID(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.completeKnownID(c, nil, "")
}

// completeKnownID completes the ID of a container that is attached.
func (a *app) completeKnownID(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	all, err := a.attachments(c.Context())
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return containerIDs(all), cobra.ShellCompDirectiveNoFileComp
}

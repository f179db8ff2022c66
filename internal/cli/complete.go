package cli

import "github.com/spf13/cobra"

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

// completeID completes a container ID.
func (a *app) completeID(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	all, err := a.attachments(c.Context())
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return containerIDs(all), cobra.ShellCompDirectiveNoFileComp
}

package daemon

import "github.com/spf13/cobra"

func (a *app) podsCmd() *cobra.Command {
	return &cobra.Command{Use: "pods", Short: "The pods of the agent that runs here"}
}

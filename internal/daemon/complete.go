package daemon

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"

	"github.com/cleat-cni/cleat/internal/output"
)

// completeTimeout bounds how long somebody who wants to go on typing waits for the agent.
const completeTimeout = time.Second

// completeFlag has complete tell the values of a flag that c has.
func completeFlag(c *cobra.Command, flag string, complete cobra.CompletionFunc) {
	if err := c.RegisterFlagCompletionFunc(flag, complete); err != nil {
		panic("no such flag: " + err.Error())
	}
}

func completeFormat(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return []string{string(output.JSON), string(output.YAML), string(output.Tabular), string(output.Wide)}, cobra.ShellCompDirectiveNoFileComp
}

// known asks the agent for its pods; none if it does not answer.
func (a *app) known(c *cobra.Command) []v1.Pod {
	ctx, cancel := context.WithTimeout(c.Context(), completeTimeout)
	defer cancel()
	list, err := a.client().Pods(ctx)
	if err != nil {
		return nil
	}
	return list.Items
}

// completeNames completes NAME, once or with many again and again.
func (a *app) completeNames(s *scope, many bool) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 && !many {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var names []string
		for _, p := range a.known(c) {
			name := short(&p)
			if !s.covers(p.Namespace) {
				name = p.Namespace + "/" + name
			}
			if !slices.Contains(args, name) && (s.namespace == "" || s.covers(p.Namespace)) {
				names = append(names, name)
			}
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeContainers completes a container of the pod that is named.
func (a *app) completeContainers(s *scope) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		r, err := s.ref(args[0])
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var names []string
		for _, p := range a.known(c) {
			if r.named(&p) {
				for _, c := range slices.Concat(p.Spec.Containers, p.Spec.InitContainers) {
					names = append(names, c.Name)
				}
			}
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeNamespaces completes a namespace that has pods.
func (a *app) completeNamespaces(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	var names []string
	for _, p := range a.known(c) {
		names = append(names, p.Namespace)
	}
	slices.Sort(names)
	return slices.Compact(names), cobra.ShellCompDirectiveNoFileComp
}

package cli

import (
	"github.com/spf13/cobra"

	"github.com/cleat-cni/cleat/internal/nearmiss"
	"github.com/cleat-cni/cleat/internal/output"
	"github.com/cleat-cni/cleat/internal/schema"
)

func (a *app) schemaCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "schema [TYPE]",
		Short: "Print the JSON Schema of a network's file, or of one plugin",
		Long: `Prints which keys a configuration may have, as JSON Schema (draft 2020-12): those
of a plugin's object, of the ipam section for an IPAM plugin, or without TYPE those of
a whole network, in which each plugin is held to its own keys. Editors complete
and check files by it. Of plugins that are not built in it says what the specification does.`,
		Example: `  cleat schema bridge
  cleat schema > network.json`,
		Args: atMostOne("TYPE"),
		RunE: func(_ *cobra.Command, args []string) error {
			book, err := a.book()
			if err != nil {
				return err
			}
			typ := ""
			if len(args) > 0 {
				typ = args[0]
			}
			doc, ok := book.Print(typ)
			if !ok || len(args) > 0 && typ == "" {
				return withHint(usagef("no built-in plugin is called %q", typ), nearmiss.Hint(typ, book.Types()))
			}
			format := a.output
			if !format.Structured() {
				format = output.JSON
			}
			return output.WriteStructured(a.cfg.Stdout, format, doc)
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			book, err := a.book()
			if err != nil || len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return book.Types(), cobra.ShellCompDirectiveNoFileComp
		},
	}
}

// book has the schemas of the built-in plugins.
func (a *app) book() (*schema.Book, error) {
	runner, err := a.runner()
	if err != nil {
		return nil, err
	}
	return schema.NewBook(runner.Definitions())
}

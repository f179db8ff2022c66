package cli

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// commandFirst moves the command's name to the front of args, so that flags may stand before it. Which
// flags take a value it learns from all commands of root; one name means the same in all of them.
func commandFirst(root *cobra.Command, args []string) []string {
	takesValue := valueFlags(root)
	for i := 0; i < len(args); i++ {
		a := args[i]
		switch {
		case a == "--":
			return args
		case a == "-" || !strings.HasPrefix(a, "-"):
			out := make([]string, 0, len(args))
			out = append(append(out, a), args[:i]...)
			return append(out, args[i+1:]...)
		case takesNext(a, takesValue):
			i++
		}
	}
	return args
}

// takesNext reports whether the value of the flag a is the argument after it.
func takesNext(a string, takesValue map[string]bool) bool {
	if name, ok := strings.CutPrefix(a, "--"); ok {
		return takesValue[name] && !strings.Contains(name, "=")
	}
	// -vo json: the value belongs to the first letter that takes one.
	for i, r := range a[1:] {
		if takesValue[string(r)] {
			return i == len(a)-2
		}
	}
	return false
}

// valueFlags names the flags, long and short, of root and its commands that need a value.
func valueFlags(root *cobra.Command) map[string]bool {
	names := map[string]bool{}
	note := func(f *pflag.Flag) {
		if f.NoOptDefVal != "" {
			return
		}
		names[f.Name] = true
		if f.Shorthand != "" {
			names[f.Shorthand] = true
		}
	}
	root.PersistentFlags().VisitAll(note)
	for _, c := range root.Commands() {
		c.Flags().VisitAll(note)
	}
	return names
}

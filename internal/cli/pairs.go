package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cleat-cni/cleat/cni"
)

// parsePair reads one --arg, K=V. The separators of CNI_ARGS can't stand in it.
func parsePair(s string) (key, value string, err error) {
	key, value, ok := strings.Cut(s, "=")
	switch {
	case ok && key != "" && strings.ContainsAny(key, ";\x00\n"):
		return "", "", fmt.Errorf("arg %q: the name holds a character that CNI_ARGS can't carry", key)
	case !ok || key == "" || value == "":
		return "", "", fmt.Errorf("arg %q is not KEY=VALUE", s)
	case strings.ContainsAny(s, ";\x00\n"):
		return "", "", fmt.Errorf("arg %q: the value holds a character that CNI_ARGS can't carry", key)
	}
	return key, value, nil
}

// setArg sets key in args, in place of every value it has.
func setArg(args cni.Args, key, value string) cni.Args {
	args = slices.DeleteFunc(slices.Clone(args), func(p [2]string) bool { return p[0] == key })
	return append(args, [2]string{key, value})
}

package cli

import (
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cleat-cni/cleat/cni"
)

// target is what a command's flags say about the attachment it means.
type target struct {
	id     string
	ifName string
}

func (t *target) flags(c *cobra.Command, env func(string) string) {
	c.Flags().StringVar(&t.id, "id", "", "container ID (default: the one cnitool derives of NETNS)")
	c.Flags().StringVarP(&t.ifName, "ifname", "i", orDefault(env("CNI_IFNAME"), "eth0"), "interface in the namespace")
}

// attached completes the flags of a command that looks for what is attached.
func (t *target) attached(c *cobra.Command, a *app) {
	completeFlag(c, "id", a.completeKnownID)
}

// containerID is the ID given, or the one cnitool derives of the namespace's path.
func (t *target) containerID(netnsPath string) string {
	if t.id != "" {
		return t.id
	}
	sum := sha512.Sum512([]byte(netnsPath))
	return "cnitool-" + hex.EncodeToString(sum[:10])
}

// check refuses names that no attachment can have.
func (t *target) check() error {
	if t.id != "" {
		if err := cni.CheckContainerID(t.id); err != nil {
			return &usageError{err}
		}
	}
	if err := cni.CheckIfName(t.ifName); err != nil {
		return &usageError{err}
	}
	return nil
}

// netnsPath makes a path of NETNS, which is one already if it holds a slash, and else a name
// under /run/netns. For cnitool it always is a path.
func (a *app) netnsPath(arg string) (string, error) {
	if arg == "" {
		return "", usagef("NETNS is empty")
	}
	if !strings.Contains(arg, "/") && !a.cfg.Cnitool {
		// Not joined: "..", which is no name, must not leave the folder.
		return a.cfg.NetNSDir + "/" + arg, nil
	}
	path, err := filepath.Abs(arg)
	if err != nil {
		return "", fmt.Errorf("find namespace %s: %w", arg, err)
	}
	return path, nil
}

// netnsNames lists the namespaces that have names; none if it can't be read.
func (a *app) netnsNames() []string {
	entries, err := os.ReadDir(a.cfg.NetNSDir)
	if err != nil {
		return nil
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names
}

// envArgs reads CNI_ARGS and CAP_ARGS, the defaults of what an attachment asks for.
func (a *app) envArgs() (cni.Args, map[string]json.RawMessage, error) {
	args, err := cni.ParseArgs(a.cfg.Env("CNI_ARGS"))
	if err != nil {
		return nil, nil, &usageError{err}
	}
	text := a.cfg.Env("CAP_ARGS")
	if text == "" {
		return args, nil, nil
	}
	var caps map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &caps); err != nil {
		return nil, nil, usagef("CAP_ARGS: %w", cni.Explain([]byte(text), err))
	}
	return args, caps, nil
}

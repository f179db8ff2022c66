package daemon

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func agentCommand(t *testing.T) *cobra.Command {
	t.Helper()
	c, _, err := (&app{cfg: Config{Name: "cleatd"}}).command().Find([]string{"agent"})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestFlagsAreDocumented: docs/agent.md has each flag of the agent.
func TestFlagsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/agent.md")
	if err != nil {
		t.Fatal(err)
	}
	flags := regexp.MustCompile(`--[a-z-]+ `).FindAllString(agentCommand(t).LocalNonPersistentFlags().FlagUsages(), -1)
	for _, flag := range flags {
		if !strings.Contains(string(text), "`"+strings.TrimSpace(flag)+"`") {
			t.Errorf("%s is not in docs/agent.md", flag)
		}
	}
	if len(flags) < 10 {
		t.Errorf("only %q were looked at", flags)
	}
}

// TestUnit: the agent takes what the unit starts it with, and pods outlive it.
func TestUnit(t *testing.T) {
	text, err := os.ReadFile("../../deploy/cleat-agent.service")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	for _, want := range []string{"KillMode=process", "Restart=always", "Delegate=yes"} {
		if !slices.Contains(lines, want) {
			t.Errorf("no %s", want)
		}
	}
	i := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "ExecStart=") })
	if i < 0 {
		t.Fatal("nothing is started")
	}
	args := strings.Fields(strings.TrimPrefix(lines[i], "ExecStart="))
	if args[0] != "/usr/local/bin/cleatd" || args[1] != "agent" {
		t.Errorf("%q is started", args)
	}
	if err := agentCommand(t).ParseFlags(args[2:]); err != nil {
		t.Error(err)
	}
}

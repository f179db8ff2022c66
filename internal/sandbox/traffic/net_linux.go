package traffic

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/cleat-cni/cleat/internal/netns"
	"github.com/cleat-cni/cleat/internal/sandbox"
)

// Net is a host and a machine outside, which reach each other by the interface up0 of each.
type Net struct {
	t       testing.TB
	Host    *netns.Handle
	Outside *netns.Handle
	// Programs is the folder of the programs of iptables that are in use; "" if none are.
	Programs string
}

// Families are the indexes of the families, by name.
func Families() map[string]int { return map[string]int{"ipv4": 0, "ipv6": 1} }

// HostAddr and OutsideAddr are the addresses on up0, of a family.
func HostAddr(family int) string { return [2]string{"192.0.2.1", "2001:db8::1"}[family] }

// OutsideAddr: see [HostAddr].
func OutsideAddr(family int) string { return [2]string{"192.0.2.9", "2001:db8::9"}[family] }

// New makes the two. programs is the folder of the programs of iptables, "" for none.
func New(t testing.TB, programs string) *Net {
	t.Helper()
	sandbox.Require(t)
	for _, program := range []string{"ip", "nft"} {
		if _, err := exec.LookPath(program); err != nil {
			sandbox.Need(t, program, err.Error())
		}
	}
	n := &Net{t: t, Host: sandbox.Namespace(t), Outside: sandbox.Namespace(t), Programs: programs}
	n.Run(n.Host, "ip link set lo up")
	n.Run(n.Outside, "ip link set lo up")
	n.Run(n.Host, "ip link add up0 type veth peer name up0 netns "+Inherited(n.Outside))
	for i, ns := range []*netns.Handle{n.Host, n.Outside} {
		n.Run(ns, "ip link set up0 up")
		addr := []func(int) string{HostAddr, OutsideAddr}[i]
		n.Run(ns, "ip addr add "+addr(0)+"/24 dev up0")
		n.Run(ns, "ip addr add "+addr(1)+"/64 dev up0 nodad")
	}
	return n
}

// Inherited is a path to a namespace for programs that run in another one.
func Inherited(ns *netns.Handle) string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), ns.FD()) }

// Run runs a command line, split at blanks, in a namespace, and returns what it prints. That it fails ends the test.
func (n *Net) Run(ns *netns.Handle, line string) string {
	n.t.Helper()
	return n.RunWith(ns, line, "")
}

// RunWith is Run with a standard input.
func (n *Net) RunWith(ns *netns.Handle, line, input string) string {
	n.t.Helper()
	out, err := n.output(ns, line, input)
	if err != nil {
		n.t.Fatalf("%s: %v\n%s", line, err, out)
	}
	return out
}

// Try is Run for a command that may fail: it returns the error too.
func (n *Net) Try(ns *netns.Handle, line string) (string, error) { return n.output(ns, line, "") }

func (n *Net) output(ns *netns.Handle, line, input string) (string, error) {
	words := strings.Fields(line)
	var out []byte
	err := ns.Do(func() error {
		cmd := exec.CommandContext(n.t.Context(), words[0], words[1:]...)
		cmd.Stdin = strings.NewReader(input)
		var err error
		out, err = cmd.CombinedOutput()
		return err
	})
	return string(out), err
}

// RunAnyway is Run for clean-up, when the test's context has ended.
func (n *Net) RunAnyway(ns *netns.Handle, line string) {
	n.t.Helper()
	words := strings.Fields(line)
	err := ns.Do(func() error { return exec.Command(words[0], words[1:]...).Run() })
	if err != nil {
		n.t.Errorf("%s: %v", line, err)
	}
}

// Rules lists all that filters and translates packets on the host, without counters and comments of the programs.
func (n *Net) Rules() string {
	n.t.Helper()
	return n.Run(n.Host, "nft -s list ruleset") + n.Saved("")
}

// Saved is what the programs of iptables print of a table, or with "" of all tables, without counters and comments.
func (n *Net) Saved(table string) string {
	n.t.Helper()
	if n.Programs == "" {
		return ""
	}
	if table != "" {
		table = " -t " + table
	}
	var text strings.Builder
	for _, program := range []string{"iptables-save", "ip6tables-save"} {
		for line := range strings.Lines(n.Run(n.Host, n.Programs+"/"+program+table)) {
			if line[0] != '#' {
				line, _, _ = strings.Cut(line, " [")
				text.WriteString(strings.TrimSpace(line) + "\n")
			}
		}
	}
	return text.String()
}

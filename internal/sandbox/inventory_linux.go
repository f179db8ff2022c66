package sandbox

import (
	"fmt"
	"net"
	"os/exec"
	"regexp"
	"slices"
	"strings"

	"github.com/cleat-cni/cleat/internal/netns"
)

// volatile is what differs from one look to the next, or from one link to the next in its place: counters, numbers of links and queues,
// and whether the other end of a link is up.
var volatile = regexp.MustCompile(`counter packets \d+ bytes \d+|\[\d+:\d+\]|@\S+|index \d+|refcnt \d+|linkdown|` +
	`qdisc noqueue.*|qdisc (pfifo_fast|fq_codel) .*root.*`)

// numbered is a line of ip -o, which begins with the number of a link.
var numbered = regexp.MustCompile(`^\d+: `)

// Look runs a shell's commands in a namespace, nil for this process's own, and returns the lines that they print and the links, sorted
// and without what changes by itself. Each element of a set of nftables is a line.
func Look(ns *netns.Handle, commands string) ([]string, error) {
	var (
		out   []byte
		links []net.Interface
	)
	look := func() (err error) {
		if links, err = net.Interfaces(); err != nil {
			return err
		}
		out, err = exec.Command("sh", "-ec", commands).CombinedOutput()
		return err
	}
	do := look
	if ns != nil {
		do = func() error { return ns.Do(look) }
	}
	if err := do(); err != nil {
		return nil, fmt.Errorf("look with %q: %w\n%s", commands, err, out)
	}
	var lines []string
	for _, l := range links {
		lines = append(lines, fmt.Sprintf("link %s mtu %d up %t", l.Name, l.MTU, l.Flags&net.FlagUp != 0))
	}
	for line := range strings.Lines(strings.ReplaceAll(string(out), "elements = {", "\n")) {
		line = numbered.ReplaceAllString(line, "")
		line = strings.Trim(volatile.ReplaceAllString(line, ""), " \t\n,}{")
		if line = strings.Join(strings.Fields(line), " "); line != "" {
			lines = append(lines, line)
		}
	}
	slices.Sort(lines)
	return lines, nil
}

// Difference lists the lines that one text has oftener than the other; "" if there are none.
func Difference(before, now string) string {
	count := map[string]int{}
	for line := range strings.SplitSeq(before, "\n") {
		count[line]--
	}
	for line := range strings.SplitSeq(now, "\n") {
		count[line]++
	}
	var diff []string
	for line, n := range count {
		switch {
		case n < 0:
			diff = append(diff, "- "+line)
		case n > 0:
			diff = append(diff, "+ "+line)
		}
	}
	slices.Sort(diff)
	return strings.Join(diff, "\n")
}

package doctor

import (
	"strings"

	"github.com/cleat-cni/cleat/netstate"
)

// staleLeases looks for addresses that nobody has.
func staleLeases() Check {
	return Check{
		Name: "stale-leases", Looks: "addresses that are taken, by no attachment that is recorded",
		Why:   "They are lost to the network: in the end there is no free address, with few pods running.",
		Mend:  "cleat gc frees them; cleat gc --dry-run lists them",
		Good:  "all addresses that are taken belong to an attachment",
		Fixes: true,
		Needs: ofLeft,
		find: func(f *Facts) []Result {
			return f.left(func(kind string) bool { return kind == "lease" }, "taken by nobody")
		},
	}
}

// left names what a collection would free of some kinds, but for what belongs to attachments that are told of by themselves.
func (f *Facts) left(of func(kind string) bool, what string) []Result {
	known := map[string]bool{}
	for _, a := range f.Attachments {
		known[netstate.Owner{Network: a.Network, ContainerID: a.ContainerID, IfName: a.IfName}.Mark()] = true
	}
	var names []string
	for _, c := range f.Left {
		if c.Kind != "attachment" && of(c.Kind) && !known[c.Mark] {
			names = append(names, short(c.Name))
		}
	}
	return some(names, what, Remedy{Collect: true})
}

// short is what of an object's line names it.
func short(line string) string {
	line, _, _ = strings.Cut(line, " owner ")
	if words := strings.Fields(line); len(words) > 2 && (words[1] == "link" || words[1] == "lease") {
		return words[1] + " " + words[2]
	}
	return line
}

// some is a warning about things of one kind, of which the first are named; none if there are none.
func some(names []string, what string, m Remedy) []Result {
	const shown = 3
	switch n := len(names); {
	case n == 0:
		return nil
	case n > shown:
		return []Result{warning("%s: %s, and %d more", what, strings.Join(names[:shown], ", "), n-shown).by(m)}
	}
	return []Result{warning("%s: %s", what, strings.Join(names, ", ")).by(m)}
}

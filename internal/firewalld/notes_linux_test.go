package firewalld

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/cleat-cni/cleat/netstate"
)

// FuzzParseNote: a name that is read as a note is that note's name, so that nobody else's file is taken for one.
func FuzzParseNote(f *testing.F) {
	mark := netstate.Owner{Network: "pods", ContainerID: "a", IfName: "eth0"}.Mark()
	for _, n := range []note{
		{mark, bound, source("trusted", netip.MustParsePrefix("10.88.0.5/32"))},
		{mark, found, source("a/b,c %", netip.MustParsePrefix("fd00:88::5/128"))},
	} {
		if got, ok := parseNote(n.name()); !ok || got != n {
			f.Errorf("%q is read as %+v", n.name(), got)
		}
		f.Add(n.name())
		f.Add(strings.Replace(n.name(), mark, mark+" names", 1))
	}
	f.Add("lock")
	f.Add(mark + ",bound,trusted,10.88.0.05")
	f.Fuzz(func(t *testing.T, name string) {
		n, ok := parseNote(name)
		if ok && (n.name() != name || strings.ContainsRune(name, '/') || len(n.mark) != len(mark)) {
			t.Errorf("%q is read as %+v", name, n)
		}
	})
}

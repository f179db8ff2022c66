// Package backend says by what means plugins filter and translate packets: nftables, or iptables where that is
// asked for or the kernel has nothing else.
package backend

import (
	"strings"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/netstate"
)

// Backend is what a configuration asks for.
type Backend string

// The backends. Auto is nftables, or iptables if the kernel has no nf_tables.
const (
	Auto     Backend = ""
	NFTables Backend = "nftables"
	Iptables Backend = "iptables"
)

// Parse reads the value of a configuration's key. The error names the key and has code 7.
func Parse(key, value string) (Backend, error) {
	switch b := Backend(value); b {
	case Auto, NFTables, Iptables:
		return b, nil
	}
	return Auto, cni.Errorf(cni.CodeInvalidConfig, "%s %q is unknown", key, value).
		WithHint("it is %q or %q; without it what the kernel has is used", NFTables, Iptables)
}

// Asks reports whether UsesIptables depends on what netstate.Query.NFTables asks.
func (b Backend) Asks() bool { return b == Auto }

// UsesIptables reports whether iptables is to be used on a kernel of which seen is known.
func (b Backend) UsesIptables(seen netstate.Facts) bool {
	return b == Iptables || b == Auto && seen.NoNFTables
}

// IsChainName reports whether iptables takes a name for a chain: at most 28 bytes that mean nothing else to it.
func IsChainName(name string) bool {
	bad := func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && !strings.ContainsRune("-_.", r)
	}
	return name != "" && len(name) <= 28 && name[0] != '-' && !strings.ContainsFunc(name, bad)
}

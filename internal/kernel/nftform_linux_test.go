package kernel

import (
	"errors"
	"strings"
	"testing"

	"github.com/cleat-cni/cleat/internal/sandbox"
	"github.com/cleat-cni/cleat/netstate"
)

// TestForeignForm: what somebody else made under a name of ours is named and left alone, and keeps no DEL from going on.
func TestForeignForm(t *testing.T) {
	for _, tc := range []struct{ name, make, object, form string }{
		{"map-of-other-key", "add map inet cleat hostports4 { type ipv4_addr : inet_service; }",
			"host nft table inet cleat map hostports4", "map type ipv4_addr : inet_service"},
		{"map-of-other-data", "add map inet cleat hostports4 { type inet_proto . inet_service : ipv4_addr; }",
			"host nft table inet cleat map hostports4", "map type inet_proto . inet_service : ipv4_addr"},
		{"set-for-map", "add set inet cleat hostports4 { type ipv4_addr; }",
			"host nft table inet cleat map hostports4", "set type ipv4_addr"},
		{"unknown-type", "add set inet cleat masq4 { type mark . ipv4_addr . ipv4_addr . ipv4_addr; }",
			"host nft table inet cleat set masq4", "set"},
		{"chain", "add chain inet cleat prerouting { type filter hook input priority 5; }",
			"host nft table inet cleat chain prerouting", "type filter hook input priority 5"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ns := sandbox.Namespace(t)
			nftProgram(t, ns, "add table inet cleat\n"+tc.make+"\n", "-f", "-")
			before := nftProgram(t, ns, "", "list", "ruleset")
			r, s := openTestRuleset(t, ns), testState(1, 8080)
			_, err := r.apply(t.Context(), s, everybodyLives)
			about, ok := errors.AsType[*netstate.ObjectError](err)
			if !ok || !errors.Is(err, netstate.ErrOtherForm) || !errors.Is(err, netstate.ErrExist) ||
				about.Object != tc.object || !strings.Contains(err.Error(), tc.form) {
				t.Errorf("Apply: error %v, want %v about %s: %s", err, netstate.ErrOtherForm, tc.object, tc.form)
			}
			if diffs, err := r.diff(t.Context(), s); err != nil || len(diffs) == 0 {
				t.Errorf("Diff: %v, error %v", diffs, err)
			}
			for _, sweep := range []bool{false, true} {
				if err := r.remove(t.Context(), s, sweep); err != nil {
					t.Errorf("Remove: %v", err)
				}
			}
			if after := nftProgram(t, ns, "", "list", "ruleset"); after != before {
				t.Errorf("it was\n%s\nand is\n%s", before, after)
			}
		})
	}
}

// TestDormantTable: a table that sleeps is a difference, and the next Apply wakes it.
func TestDormantTable(t *testing.T) {
	ns := sandbox.Namespace(t)
	r, s := openTestRuleset(t, ns), testState(1, 8080)
	mustApply(t, r, s)
	nftProgram(t, ns, "add table inet cleat { flags dormant; }\n", "-f", "-")
	wantDiff(t, r, s, `host nft table inet cleat: "host nft table inet cleat flags dormant"`)
	mustApply(t, openTestRuleset(t, ns), testState(2, 8081))
	wantDiff(t, r, s)
}

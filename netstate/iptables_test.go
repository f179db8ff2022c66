package netstate_test

import (
	"testing"

	"github.com/cleat-cni/cleat/netstate"
)

func TestLeadsTo(t *testing.T) {
	chain := netstate.IptablesChain{Family: "ip", Table: "nat", Name: "CLEAT-MASQ"}
	for _, tc := range []struct {
		name, family, rule string
		want               bool
	}{
		{"alone", "ip", "-j CLEAT-MASQ", true},
		{"after-matches", "ip", "-p tcp -m tcp --dport 80 -j CLEAT-MASQ", true},
		{"longer-name", "ip", "-p tcp -j CLEAT-MASQ-2", false},
		{"target-with-options", "ip", "-p tcp -j DNAT --to-destination 10.0.0.1:80", false},
		{"other-family", "ip6", "-j CLEAT-MASQ", false},
		{"no-target", "ip", "-p tcp", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := netstate.IptablesRule{Family: tc.family, Table: "nat", Chain: "POSTROUTING", Rule: tc.rule}
			if got := r.LeadsTo(chain); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestIptablesWord(t *testing.T) {
	for word, want := range map[string]string{
		"-s": "-s", "!": "!", "10.88.0.0/16": "10.88.0.0/16", "[fd00::5]:80": "[fd00::5]:80",
		"": `""`, "two words": `"two words"`, `a"b\c`: `"a\"b\\c"`, "#x": `"#x"`,
	} {
		if got := netstate.IptablesWord(word); got != want {
			t.Errorf("%q is written %s, want %s", word, got, want)
		}
	}
}

package kernel

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseRule(t *testing.T) {
	for _, tc := range []struct {
		name, rule string
		want       []ruleStmt
	}{
		{"verdict", "accept", []ruleStmt{verdictStmt{verdict: "accept"}}},
		{"jump", "jump aside", []ruleStmt{verdictStmt{verdict: "jump", chain: "aside"}}},
		{"value", "ip saddr 10.0.0.1 drop", []ruleStmt{
			matchStmt{fields: []ruleField{{name: "ip saddr"}}, values: []string{"10.0.0.1"}},
			verdictStmt{verdict: "drop"},
		}},
		{"bare-iifname", `iifname != "lo"`, []ruleStmt{
			matchStmt{fields: []ruleField{{name: "meta iifname"}}, op: "!=", values: []string{"lo"}},
		}},
		{"set", "ip saddr & 255.255.0.0 . th dport != @x", []ruleStmt{
			matchStmt{fields: []ruleField{{"ip saddr", "255.255.0.0"}, {name: "th dport"}}, op: "!=", set: "x"},
		}},
		{"braces-without-blanks", "meta l4proto {tcp,udp}", []ruleStmt{
			matchStmt{fields: []ruleField{{name: "meta l4proto"}}, values: []string{"tcp", "udp"}, list: true},
		}},
		{"flags", "ct state established,related", []ruleStmt{
			matchStmt{fields: []ruleField{{name: "ct state"}}, flags: []string{"established", "related"}},
		}},
		{"masked-mark", "meta mark & 0x2000==0x2000", []ruleStmt{
			matchStmt{fields: []ruleField{{"meta mark", "0x2000"}}, op: "==", values: []string{"0x2000"}},
		}},
		{"set-mark", "meta mark set ct mark | 1 counter", []ruleStmt{
			markStmt{key: "meta mark", from: "ct mark", op: "|", mask: "1"}, counterStmt{},
		}},
		{"dnat-map", "dnat ip addr . port to ip daddr . th dport map @m", []ruleStmt{
			natStmt{kind: "dnat", family: "ip", fields: []ruleField{{name: "ip daddr"}, {name: "th dport"}}, set: "m"},
		}},
		{"dnat-address", "dnat ip6 to [fd00::1]:80 persistent", []ruleStmt{
			natStmt{kind: "dnat", family: "ip6", addr: "fd00::1", port: "80", flags: []string{"persistent"}},
		}},
		{"snat-letters", "snat to fd00::1", []ruleStmt{natStmt{kind: "snat", addr: "fd00::1"}}},
		{"masquerade", "masquerade random,persistent", []ruleStmt{masqueradeStmt{flags: []string{"random", "persistent"}}}},
		{"quoted-keyword", `iifname "accept" accept`, []ruleStmt{
			matchStmt{fields: []ruleField{{name: "meta iifname"}}, values: []string{"accept"}},
			verdictStmt{verdict: "accept"},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			have, err := parseRule(tc.rule)
			if err != nil {
				t.Fatal(err)
			}
			allow := cmp.AllowUnexported(matchStmt{}, ruleField{}, verdictStmt{}, markStmt{}, natStmt{}, masqueradeStmt{}, counterStmt{})
			if diff := cmp.Diff(tc.want, have, allow); diff != "" {
				t.Errorf("statements (-want +got):\n%s", diff)
			}
		})
	}
}

// badRules are rules with what their error names.
var badRules = []struct{ name, rule, want string }{
	{"empty", "", "no statement"},
	{"blank", " \t", "no statement"},
	{"unknown-word", "ip saddr 10.0.0.1 reject", `unexpected "reject"`},
	{"unknown-field", "ip ttl 1", `unknown field "ip ttl"`},
	{"no-value", "ip saddr", "unexpected end"},
	{"no-field", "ip", "unexpected end"},
	{"open-quote", `iifname "lo`, `no closing quote after "lo`},
	{"open-brace", "meta l4proto {tcp,udp", "unexpected end: want }"},
	{"empty-braces", "meta l4proto {}", `unexpected "}": want a value`},
	{"concat-without-set", "ip saddr . ip daddr 10.0.0.1", `unexpected "10.0.0.1": a concatenation is looked up in a @set`},
	{"dangling-dot", "ip saddr . @x", `unexpected "@x"`},
	{"empty-set-name", "ip saddr @", `unexpected "@"`},
	{"mask-without-value", "meta mark & == 1", `unexpected "=="`},
	{"set-field", "ip saddr set 10.0.0.1", `unexpected "set": ip saddr can't be set`},
	{"single-equals", "meta mark = 1", `unexpected "="`},
	{"nat-without-to", "dnat ip 10.0.0.1", `unexpected "10.0.0.1": want to`},
	{"nat-without-target", "dnat ip to", "unexpected end"},
	{"nat-half-family", "dnat ip addr to 10.0.0.1", `unexpected "to": want .`},
	{"map-without-name", "dnat ip to ip daddr map", "unexpected end: want @set"},
	{"bad-bracket", "dnat ip6 to [fd00::1", "no closing bracket"},
	{"bad-port", "dnat ip6 to [fd00::1]80", "want [address]:port"},
	{"empty-port", "dnat ip to 10.0.0.1:", "want address:port"},
	{"fib", "fib saddr type local", `unexpected "saddr": want daddr`},
	{"list-of-no-bits", "meta l4proto tcp,udp", ""}, // only its meaning is wrong
}

func TestParseRuleRefuses(t *testing.T) {
	for _, tc := range badRules {
		t.Run(tc.name, func(t *testing.T) {
			_, err := parseRule(tc.rule)
			if tc.want == "" {
				if err != nil {
					t.Errorf("error %v", err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.HasPrefix(err.Error(), "parse rule ") {
				t.Errorf("error %v, want one that says %s", err, tc.want)
			}
		})
	}
}

func FuzzParseRule(f *testing.F) {
	for _, tc := range badRules {
		f.Add(tc.rule)
	}
	for _, rule := range []string{
		"fib daddr type local dnat ip addr . port to meta l4proto . th dport map @m",
		"ip6 daddr != ::1 fib daddr type local dnat ip6 addr . port to ip6 daddr . meta l4proto . th dport map @m",
		"ip saddr & 255.255.0.0 . ip daddr @x meta mark set meta mark | 0x2000",
		`iifname "veth*" ct state established,related counter accept`,
		"meta l4proto { tcp, udp } masquerade fully-random",
	} {
		f.Add(rule)
	}
	f.Fuzz(func(t *testing.T, rule string) {
		stmts, err := parseRule(rule)
		if (err == nil) != (len(stmts) > 0) {
			t.Errorf("%d statements and error %v", len(stmts), err)
		}
	})
}

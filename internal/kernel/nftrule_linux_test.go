package kernel

import (
	"errors"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/internal/netns"
	"github.com/cleat-cni/cleat/internal/sandbox"
	"github.com/cleat-cni/cleat/netstate"
)

// nftProgram runs nft's own program in a namespace and returns what it prints.
func nftProgram(t testing.TB, ns *netns.Handle, stdin string, args ...string) string {
	t.Helper()
	path, err := exec.LookPath("nft")
	if err != nil {
		sandbox.Need(t, "nft-program", err.Error())
	}
	var out []byte
	err = ns.Do(func() error {
		cmd := exec.CommandContext(t.Context(), path, args...)
		cmd.Stdin = strings.NewReader(stdin)
		var err error
		out, err = cmd.CombinedOutput()
		return err
	})
	if err != nil {
		t.Fatalf("nft %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// openTestRuleset opens a ruleset, on a kernel that has all that tables of ours need.
func openTestRuleset(t testing.TB, ns *netns.Handle) *ruleset {
	t.Helper()
	probe, err := openRuleset(&space{ns: sandbox.Namespace(t)})
	if err == nil {
		_, err = probe.apply(t.Context(), testState(1), nobodyLives)
		err = errors.Join(err, probe.close())
	}
	if errors.Is(err, netstate.ErrUnsupported) {
		sandbox.Need(t, "nft", err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	r, err := openRuleset(&space{ns: ns})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// ruleTestSets are sets and maps of all types that the rules of this test name.
func ruleTestSets() []netstate.Set {
	return []netstate.Set{
		{Name: "ports4", Key: []string{"inet_proto", "inet_service"}, Data: []string{"ipv4_addr", "inet_service"}},
		{Name: "ports6", Key: []string{"ipv6_addr", "inet_proto", "inet_service"}, Data: []string{"ipv6_addr", "inet_service"}},
		{Name: "hosts4", Key: []string{"ipv4_addr"}, Data: []string{"ipv4_addr"}},
		{Name: "hosts6", Key: []string{"ipv6_addr"}, Data: []string{"ipv6_addr"}},
		{Name: "pods4", Key: []string{"ipv4_addr"}},
		{Name: "pods6", Key: []string{"ipv6_addr"}},
		{Name: "pairs4", Key: []string{"ipv4_addr", "ipv4_addr"}},
		{Name: "pairs6", Key: []string{"ipv6_addr", "ipv6_addr"}},
		{Name: "macs", Key: []string{"ifname", "ether_addr"}},
		{Name: "nics", Key: []string{"ifname"}},
		{Name: "stations", Key: []string{"ether_addr"}},
		{Name: "protocols", Key: []string{"inet_proto"}},
		{Name: "services", Key: []string{"inet_service"}},
		{Name: "marks", Key: []string{"mark"}},
	}
}

// Rules for the inet family, one chain a hook. What nft's program lists of a rule and the rule itself
// must be the same but for a few spellings, which respell evens out.
var inetRules = map[string][]string{
	"prerouting": {
		`fib daddr type local dnat ip addr . port to meta l4proto . th dport map @ports4`,
		`meta nfproto ipv4 fib daddr type local dnat ip addr . port to meta l4proto . th dport map @ports4`,
		`ip6 daddr != ::1 fib daddr type local dnat ip6 addr . port to ip6 daddr . meta l4proto . th dport map @ports6`,
		`dnat ip to ip daddr map @hosts4`,
		`dnat ip6 to ip6 daddr map @hosts6`,
		`dnat ip to 10.0.0.1`,
		`dnat ip6 to fd00::1`,
		`meta l4proto tcp dnat ip to 10.0.0.1:80`,
		`meta l4proto tcp dnat ip6 to [fd00::1]:80`,
		`ip saddr 10.1.2.3 accept`,
		`ip saddr != 10.1.2.3 accept`,
		`ip saddr 10.0.0.0/8 return`,
		`ip daddr != 10.64.0.0/11 return`,
		`ip saddr & 0.0.255.255 == 0.0.0.5 return`,
		`ip saddr @pods4 drop`,
		`ip saddr != @pods4 drop`,
		`ip6 saddr fd00::/61 return`,
		`ip6 daddr fd00::/64 return`,
		`ip6 daddr != @pods6 counter return`,
		`ip saddr . ip daddr @pairs4 return`,
		`ip6 saddr . ip6 daddr != @pairs6 return`,
		`ip protocol tcp return`,
		`meta l4proto tcp return`,
		`meta l4proto != tcp return`,
		`meta l4proto { tcp, udp, sctp } return`,
		`meta l4proto != { tcp, udp } return`,
		`meta l4proto @protocols return`,
		`meta l4proto tcp th dport 80 return`,
		`th dport @services return`,
		`iifname "veth0" drop`,
		`meta iifname != "lo" drop`,
		`iifname "veth*" return`,
		`iifname @nics return`,
		`iifname { "eth0", "eth1" } return`,
		`iifname . ether saddr != @macs drop`,
		`ether saddr 02:00:00:00:00:01 accept`,
		`ether saddr @stations accept`,
		`meta mark 0x00000005 return`,
		`meta mark & 0x00004000 == 0x00004000 accept`,
		`meta mark & 0x00004000 != 0x00000000 accept`,
		`meta mark @marks accept`,
		`meta mark set 0x00000007`,
		`meta mark set meta mark | 0x00004000`,
		`meta mark set meta mark & 0x0000ffff`,
		`meta mark set ct mark`,
		`ct mark set meta mark`,
		`ct mark 0x00000005 return`,
		`ct mark & 0x000000ff == 0x00000005 return`,
		`ct state established,related accept`,
		`ct state new accept`,
		`ct state != new accept`,
		`ct status dnat accept`,
		`icmp type echo-request accept`,
		`icmpv6 type nd-router-advert drop`,
		`icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } accept`,
		`jump aside`,
		`iifname "lo" goto aside`,
		`drop`,
	},
	"postrouting": {
		`oifname != "lo" ip saddr 127.0.0.0/8 ct status dnat masquerade`,
		`oifname "eth0" masquerade random,persistent`,
		`masquerade fully-random`,
		`ip saddr @pods4 snat ip to 192.0.2.1`,
		`meta l4proto udp snat ip to 192.0.2.1:5000 fully-random`,
	},
}

var bridgeRules = []string{
	`iifname . ether saddr @macs return`,
	`iifname @nics drop`,
	`ip saddr 10.1.2.3 accept`,
	`ip6 saddr @pods6 accept`,
	`ether daddr 02:00:00:00:00:02 drop`,
	`iifname @nics meta protocol != arp drop`,
	`meta protocol ip accept`,
	`meta protocol { ip6, arp } return`,
	`iifname @nics meta mark set meta mark | 0x02000000`,
}

func ruleTestTables() []netstate.Table {
	return []netstate.Table{
		{Family: "inet", Name: "rules", Sets: ruleTestSets(), Chains: []netstate.Chain{
			{Name: "aside", Rules: []string{"return"}},
			{Name: "prerouting", Type: "nat", Hook: "prerouting", Priority: -100, Rules: inetRules["prerouting"]},
			{Name: "postrouting", Type: "nat", Hook: "postrouting", Priority: 100, Rules: inetRules["postrouting"]},
		}},
		{Family: "bridge", Name: "rules", Sets: ruleTestSets(), Chains: []netstate.Chain{
			{Name: "prerouting", Type: "filter", Hook: "prerouting", Priority: -300, Rules: bridgeRules},
		}},
	}
}

// nftText is tables in the syntax of nft's program.
func nftText(tables []netstate.Table) string {
	var b strings.Builder
	for _, t := range tables {
		b.WriteString("table " + t.Family + " " + t.Name + " {\n")
		for _, s := range t.Sets {
			kind, data := "set", ""
			if len(s.Data) > 0 {
				kind, data = "map", " : "+strings.Join(s.Data, " . ")
			}
			b.WriteString(kind + " " + s.Name + " { type " + strings.Join(s.Key, " . ") + data + "; }\n")
		}
		for _, c := range t.Chains {
			b.WriteString("chain " + c.Name + " {\n")
			if c.Hook != "" {
				b.WriteString(" type " + c.Type + " hook " + c.Hook + " priority " + map[int]string{-300: "-300", -100: "-100", 100: "100"}[c.Priority] + ";\n")
			}
			for _, r := range c.Rules {
				b.WriteString(" " + r + "\n")
			}
			b.WriteString("}\n")
		}
		b.WriteString("}\n")
	}
	return b.String()
}

// TestRulesAreNfts loads tables twice, by ourselves and by nft's program, and has the
// program list both: the expressions are the same.
func TestRulesAreNfts(t *testing.T) {
	ours, theirs := sandbox.Namespace(t), sandbox.Namespace(t)
	tables := ruleTestTables()
	mustApply(t, openTestRuleset(t, ours), netstate.State{Tables: tables})
	nftProgram(t, theirs, nftText(tables), "-f", "-")
	comment := regexp.MustCompile(` comment "cleat [0-9a-f]{16}"`)
	have := comment.ReplaceAllString(nftProgram(t, ours, "", "list", "ruleset"), "")
	if diff := cmp.Diff(nftProgram(t, theirs, "", "list", "ruleset"), have); diff != "" {
		t.Errorf("listed (-nft +ours):\n%s", diff)
	}
	if diff := cmp.Diff(expressions(nftProgram(t, theirs, "", "--debug=netlink", "list", "ruleset")),
		expressions(nftProgram(t, ours, "", "--debug=netlink", "list", "ruleset"))); diff != "" {
		t.Errorf("expressions (-nft +ours):\n%s", diff)
	}
}

// expressions keeps the lines of nft's debugging output that show expressions.
func expressions(debug string) []string {
	var lines []string
	for l := range strings.Lines(debug) {
		if l = strings.TrimSpace(l); strings.HasPrefix(l, "[ ") {
			// Flags of a lookup that has none are shown only if they come from the kernel.
			lines = append(lines, strings.Replace(l, " 0x0 ]", " ]", 1))
		}
	}
	return lines
}

// TestMaskedConcatenation is apart because the program of 2022 can load such a rule but not
// tell its mask when it lists it.
func TestMaskedConcatenation(t *testing.T) {
	ours, theirs := sandbox.Namespace(t), sandbox.Namespace(t)
	tables := []netstate.Table{{Family: "inet", Name: "rules", Sets: ruleTestSets(), Chains: []netstate.Chain{
		{Name: "postrouting", Type: "nat", Hook: "postrouting", Priority: 100, Rules: []string{
			`ip saddr . ip daddr & 255.255.0.0 @pairs4 return`,
			`ip6 saddr . ip6 daddr & ffff:ffff:ffff:ffff:: @pairs6 return`,
			`ip saddr & 255.255.255.0 . ip daddr @pairs4 return`,
		}},
	}}}
	mustApply(t, openTestRuleset(t, ours), netstate.State{Tables: tables})
	want := expressions(nftProgram(t, theirs, nftText(tables), "--debug=netlink", "-f", "-"))
	if diff := cmp.Diff(want, expressions(nftProgram(t, ours, "", "--debug=netlink", "list", "ruleset"))); diff != "" {
		t.Errorf("expressions (-nft +ours):\n%s", diff)
	}
}

func TestCompileRuleRefuses(t *testing.T) {
	table := ruleTestTables()[0]
	for _, tc := range []struct{ name, rule, want string }{
		{"undeclared-set", "ip saddr @none", "set @none is not declared in table rules"},
		{"undeclared-chain", "jump none", "chain none is not declared in table rules"},
		{"another-type", "ip saddr @pods6", "@pods6 has key type ipv6_addr, not ipv4_addr"},
		{"another-concatenation", "ip saddr . th dport @pairs4", "@pairs4 has key type ipv4_addr . ipv4_addr, not ipv4_addr . inet_service"},
		{"map-as-set", "ip saddr @hosts4", "@hosts4 is a map"},
		{"set-as-map", "dnat ip to ip saddr map @pods4", "@pods4 is no map"},
		{"family", "dnat ip6 to 10.0.0.1", "dnat ip6 to an address of ip"},
		{"family-of-map", "dnat ip6 addr . port to meta l4proto . th dport map @ports4", "dnat ip6 to an address of ip"},
		{"bad-address", "ip saddr 10.0.0", `"10.0.0" is no IPv4 address`},
		{"bad-prefix", "ip saddr 10.0.0.0/33", `"10.0.0.0/33" is no prefix of ipv4_addr`},
		{"prefix-of-another-family", "ip saddr fd00::/8", `"fd00::/8" is no prefix of ipv4_addr`},
		{"bad-mask", "ip saddr & 0xff == 1", "mask of ip saddr"},
		{"bad-state", "ct state open", `"open" is no ct_state`},
		{"list-without-braces", "meta l4proto tcp,udp", `unexpected "udp"`},
		{"bad-nat-address", "dnat ip to 10.0.0.x", `"10.0.0.x" is no address`},
		{"bad-nat-port", "dnat ip to 10.0.0.1:99999", `"99999" is no port`},
		{"bad-mark", "meta mark set five", `"five" is no mark`},
		{"long-name", `iifname "sixteen-bytes-xx"`, "is no interface name"},
		{"too-long", "ip6 saddr . ip6 saddr . ip6 saddr . ip6 saddr . th dport @x", "longer than 64 bytes"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := compileRule(table, tc.rule)
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.HasPrefix(err.Error(), "compile rule ") {
				t.Errorf("error %v, want one that says %s", err, tc.want)
			}
		})
	}
}

// FuzzCompileRule has the kernel's form made of whatever parses.
func FuzzCompileRule(f *testing.F) {
	for _, t := range ruleTestTables() {
		for _, c := range t.Chains {
			for _, rule := range c.Rules {
				f.Add(rule)
			}
		}
	}
	table := ruleTestTables()[0]
	f.Fuzz(func(t *testing.T, text string) {
		rule, err := compileRule(table, text)
		if err != nil {
			return
		}
		if _, err := newRuleMessage(newRule{family: 1, exprs: rule.exprs}); err != nil {
			t.Error(err)
		}
	})
}

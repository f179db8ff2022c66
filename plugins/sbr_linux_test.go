package plugins_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/cni"
)

// mediaNetwork is a pod's second network, whose addresses are routed over its own interface. OPTIONS are those of sbr.
const mediaNetwork = `{"cniVersion":"1.1.0","name":"media","plugins":[
  {"type":"bridge","bridge":"media0","isDefaultGateway":true,
   "ipam":{"type":"numbered","subnets":["10.20.0.0/16","fd20::/64"],"routes":["203.0.113.0/24"]}},
  {"type":"sbr"OPTIONS}]}`

// twoNetworks makes a pod with two networks, of which the second has sbr.
func (m *machine) twoNetworks(t *testing.T, options string, add func(*testing.T, *attachment)) (p, media *pod) {
	t.Helper()
	p = m.newPod(2, `{"cniVersion":"1.1.0","name":"plain","plugins":[{"type":"bridge","isDefaultGateway":true,
	  "ipam":{"type":"numbered","subnets":["10.88.0.0/16","fd00:88::/64"]}}]}`)
	m.add(t, p.attachment)
	media = &pod{&attachment{network: strings.Replace(mediaNetwork, "OPTIONS", options, 1), pod: 2, ifName: "net1", netns: p.netns}, p.ns}
	add(t, media.attachment)
	return p, media
}

// way is what the kernel says of the way to an address from another: the gateway and the interface.
func (m *machine) way(p *pod, to, from string) string {
	m.t.Helper()
	line := "ip route get " + to
	if from != "" {
		line += " from " + from
	}
	words := strings.Fields(m.Run(p.ns, line))
	var way []string
	for i, w := range words {
		if w == "via" || w == "dev" {
			way = append(way, words[i+1])
		}
	}
	return strings.Join(way, " ")
}

// TestB052SourceRouting: what comes from the addresses of an interface leaves through it, by the default route of each family, and all else
// as before.
func TestB052SourceRouting(t *testing.T) {
	for name, add := range map[string]func(m *machine) func(*testing.T, *attachment){
		"one-pass":         func(m *machine) func(*testing.T, *attachment) { return m.add },
		"plugin-by-plugin": func(m *machine) func(*testing.T, *attachment) { return m.addByPlugin },
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			p, media := m.twoNetworks(t, "", add(m))
			for _, tc := range []struct{ to, from, want string }{
				{"198.51.100.1", "", "10.88.0.1 eth0"},
				{"198.51.100.1", "10.88.0.2", "10.88.0.1 eth0"},
				{"198.51.100.1", "10.20.0.102", "10.20.0.1 net1"},
				{"203.0.113.7", "10.20.0.102", "10.20.0.1 net1"},
				{"203.0.113.7", "10.88.0.2", "10.88.0.1 eth0"},
				{"10.20.0.7", "10.20.0.102", "net1"},
				{"10.20.0.7", "10.88.0.2", "10.88.0.1 eth0"},
				{"2001:db8::9", "fd00:88::2", "fd00:88::1 eth0"},
				{"2001:db8::9", "fd20::66", "fd20::1 net1"},
				{"fd20::7", "fd20::66", "net1"},
				{"fd20::7", "fd00:88::2", "fd00:88::1 eth0"},
			} {
				if got := m.way(p, tc.to, tc.from); got != tc.want {
					t.Errorf("to %s from %q: %q, want %q", tc.to, tc.from, got, tc.want)
				}
			}
			if !strings.Contains(m.Run(p.ns, "ip -6 route show dev net1"), "fe80::/64") {
				t.Error("the way to link-local addresses is gone")
			}
			for _, a := range []*pod{p, media} {
				if found := m.check(t, a.attachment); found != "" {
					t.Errorf("CHECK of %s: %s", a.network, found)
				}
			}
			m.del(t, media.attachment)
			m.del(t, media.attachment)
			if rules := m.Run(p.ns, "ip rule") + m.Run(p.ns, "ip -6 rule"); strings.Contains(rules, "10") {
				t.Errorf("rules after DEL:\n%s", rules)
			}
			if found := m.check(t, p.attachment); found != "" {
				t.Errorf("CHECK of the other network: %s", found)
			}
		})
	}
}

// TestSourceRoutingRepair: CHECK finds what is missing, and what came back into the main table; repair puts it right.
func TestSourceRoutingRepair(t *testing.T) {
	m := newMachine(t)
	p, media := m.twoNetworks(t, "", m.add)
	routing := func() string {
		return m.Run(p.ns, "ip rule") + m.Run(p.ns, "ip -6 rule") + m.Run(p.ns, "ip route show table all") + m.Run(p.ns, "ip -6 route show table all")
	}
	before := routing()
	for _, tc := range []struct {
		name  string
		do    []string
		finds []string
	}{
		{"rule", []string{"ip rule del from 10.20.0.102 table 100"}, []string{"rule from 10.20.0.102/32 table 100"}},
		{"rules", []string{"ip rule del from 10.20.0.102 table 100", "ip -6 rule del from fd20::66 table 101"},
			[]string{"rule from 10.20.0.102/32 table 100", "rule from fd20::66/128 table 101"}},
		{"table", []string{"ip route flush table 100"},
			[]string{"route 10.20.0.0/16 dev net1", "route 0.0.0.0/0 via 10.20.0.1 dev net1", "route 203.0.113.0/24 via 10.20.0.1 dev net1"}},
		{"ipv6-default", []string{"ip -6 route del default table 101"}, []string{"route ::/0 via fd20::1 dev net1 table 101"}},
		{"main", []string{"ip route add 10.20.0.0/16 dev net1", "ip route add 203.0.113.0/24 dev net1"},
			[]string{"route 10.20.0.0/16 dev net1", "route 203.0.113.0/24 dev net1"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, line := range tc.do {
				m.Run(p.ns, line)
			}
			found := m.check(t, media.attachment)
			for _, want := range tc.finds {
				if !strings.Contains(found, want) {
					t.Errorf("CHECK does not say %q:\n%s", want, found)
				}
			}
			if _, err := m.engine.Repair(t.Context(), media.steps(t, cni.VerbCheck)); err != nil {
				t.Error(err)
			}
			if found := m.check(t, media.attachment); found != "" {
				t.Errorf("CHECK after repair: %s", found)
			}
			if diff := cmp.Diff(sortedLines(before), sortedLines(routing())); diff != "" {
				t.Errorf("after repair (-before +after)\n%s", diff)
			}
		})
	}
}

func sortedLines(text string) []string {
	lines := strings.Split(strings.ReplaceAll(text, " linkdown", ""), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSpace(line)
	}
	slices.Sort(lines)
	return lines
}

// TestSourceRoutingOptions: a table of one's own choice, gateways, and hints, with what CHECK and DEL by the plugin alone make of them.
func TestSourceRoutingOptions(t *testing.T) {
	for _, tc := range []struct {
		options string
		ways    map[string]string // to and from
		main    string            // what leads over net1 in the main table
	}{
		{`,"table":7`, map[string]string{"198.51.100.1 10.20.0.102": "10.88.0.1 eth0"},
			"default via 10.20.0.1, 10.20.0.0/16, 203.0.113.0/24 via 10.20.0.1, fd20::/64"}, // IPv6 has one default with two hops
		{`,"gateways":["10.20.0.9","fe80::9"]`, map[string]string{"198.51.100.1 10.20.0.102": "10.20.0.9 net1", "2001:db8::9 fd20::66": "fe80::9 net1"}, ""},
		{`,"addSourceHints":true`, map[string]string{"10.20.0.7 ": "net1", "fd20::7 ": "net1", "198.51.100.1 10.20.0.102": "10.20.0.1 net1",
			"203.0.113.7 ": "10.88.0.1 eth0"}, "10.20.0.0/16 src 10.20.0.102, fd20::/64 src fd20::66"},
	} {
		for _, pass := range []string{"one-pass", "plugin-by-plugin"} {
			t.Run(fmt.Sprint(tc.options[2:8], "-", pass), func(t *testing.T) {
				m := newMachine(t)
				add := m.add
				if pass != "one-pass" {
					add = m.addByPlugin
				}
				p, media := m.twoNetworks(t, tc.options, add)
				for ends, want := range tc.ways {
					to, from, _ := strings.Cut(ends, " ")
					if strings.Contains(tc.options, "table") {
						want = m.way(p, to, "") // no route is in that table
					}
					if got := m.way(p, to, from); got != want {
						t.Errorf("to %s from %q: %q, want %q", to, from, got, want)
					}
				}
				var routes []string
				for _, family := range []string{"-4", "-6"} {
					for line := range strings.Lines(m.Run(p.ns, "ip "+family+" route show dev net1")) {
						words := strings.Fields(line)
						var route strings.Builder
						route.WriteString(words[0])
						for i, w := range words {
							if w == "via" || w == "src" && strings.Contains(tc.options, "Hints") {
								route.WriteString(" " + w + " " + words[i+1])
							}
						}
						if route.String() != "fe80::/64" {
							routes = append(routes, route.String())
						}
					}
				}
				want := strings.FieldsFunc(tc.main, func(r rune) bool { return r == ',' })
				for i := range want {
					want[i] = strings.TrimSpace(want[i])
				}
				slices.Sort(want)
				slices.Sort(routes)
				if diff := cmp.Diff(strings.Join(want, "\n"), strings.Join(routes, "\n")); diff != "" {
					t.Errorf("main table (-want +got)\n%s", diff)
				}
				if found := m.check(t, media.attachment); found != "" {
					t.Errorf("CHECK: %s", found)
				}
				last := media.steps(t, cni.VerbDel)[1]
				for range 2 {
					if err := m.engine.Plugin(last.Def).Del(t.Context(), last.Req); err != nil {
						t.Error(err)
					}
				}
				var rules strings.Builder
				rules.WriteString(m.Run(p.ns, "ip rule") + m.Run(p.ns, "ip -6 rule"))
				for line := range strings.Lines(m.Run(p.ns, "ip route show table all") + m.Run(p.ns, "ip -6 route show table all")) {
					if strings.Contains(line, "table 10") {
						rules.WriteString(line)
					}
				}
				if strings.Contains(rules.String(), "20") {
					t.Errorf("after DEL of the plugin alone:\n%s", rules.String())
				}
			})
		}
	}
}

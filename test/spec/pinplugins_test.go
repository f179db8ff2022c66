package spec

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/cni"
)

// hostLocal runs f on a machine with a sample of host-local in both forms.
func hostLocal(r ruleTest, ipam string, f func(m *machine, s sample)) {
	pick := func(s sample) bool { return s.typ == "host-local" }
	r.each(pick, func(m *machine, s sample) {
		s.conf = `"ipam":{"type":"host-local","dataDir":"DATA",` + ipam + `}`
		f(m, s)
	})
}

const oneSet = `"ranges":[[{"subnet":"10.1.2.0/29"}]]`

// took are the addresses of a result.
func (m *machine) took(p *pod) []string {
	m.Helper()
	return each(m.decoded(p).IPs, func(ip cni.IP) string { return ip.Address.String() })
}

func (m *machine) expectTook(p *pod, want ...string) {
	m.Helper()
	if diff := cmp.Diff(want, m.took(p)); diff != "" {
		m.Errorf("addresses of %s/%s (-want +got)\n%s", p.id, p.ifName, diff)
	}
}

func pinSets(r ruleTest) {
	const sets = `"ranges":[[{"subnet":"10.1.2.0/29","rangeStart":"10.1.2.2","rangeEnd":"10.1.2.2"},{"subnet":"10.1.3.0/29"}],[{"subnet":"fd00:1::/64"}]]`
	hostLocal(r, sets, func(m *machine, s sample) {
		m.expectTook(m.attach(s, "spec-one"), "10.1.2.2/29", "fd00:1::2/64")
		m.expectTook(m.attach(s, "spec-two"), "10.1.3.2/29", "fd00:1::3/64") // the first range is used up
	})
}

func pinInterfaces(r ruleTest) {
	hostLocal(r, oneSet, func(m *machine, s sample) {
		first, second := m.attach(s, "spec-one"), m.newPod("spec-one")
		second.ifName = "net1"
		m.add(s, second).succeeds(m, "ADD of a second interface")
		if slices.Equal(m.took(first), m.took(second)) {
			m.Errorf("both interfaces have %q", m.took(first))
		}
		m.del(s, second).succeeds(m, "DEL of the second interface")
		m.check(s, first).succeeds(m, "CHECK of the first")
		m.del(s, first).succeeds(m, "DEL")
		m.gone(first)
	})
}

func pinSecondLease(r ruleTest) {
	hostLocal(r, oneSet, func(m *machine, s sample) {
		p := m.attach(s, "spec-one")
		m.add(s, p).fails(m, 0)
		m.expectTook(p, "10.1.2.2/29")
		m.check(s, p).succeeds(m, "CHECK")
		if got := len(m.leases()); got != 1 {
			m.Errorf("%d leases", got)
		}
	})
}

// lease writes a file of the store.
func (m *machine) lease(addr, content string) {
	m.Helper()
	dir := filepath.Join(m.data, network)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		m.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, addr), []byte(content), 0o644); err != nil {
		m.Fatal(err)
	}
}

// held are the addresses that have a file.
func (m *machine) held() []string { return each(m.leases(), filepath.Base) }

// pinLegacyLease: the first versions wrote the ID alone, and some wrote white space around it.
func pinLegacyLease(r ruleTest) {
	hostLocal(r, oneSet, func(m *machine, s sample) {
		for i, content := range []string{"spec-one", "spec-one\n", " spec-one \r\n", "spec-one\r\neth0", "spec-one\r\neth0\r\n"} {
			addr := fmt.Sprintf("10.1.2.%d", i+2)
			m.lease(addr, content)
			p := &pod{id: "spec-one", ifName: "eth0"}
			other := m.newPod("spec-two")
			m.add(s, other).succeeds(m, "ADD of another")
			if slices.Contains(m.took(other), addr+"/29") {
				m.Errorf("%q: %s was given again", content, addr)
			}
			m.del(s, other).succeeds(m, "DEL of another")
			m.del(s, p).succeeds(m, "DEL")
			if got := m.held(); len(got) > 0 {
				m.Errorf("%q: DEL left %q", content, got)
			}
		}
	})
}

// asked runs ADD with further members or CNI_ARGS.
func (m *machine) asked(s sample, p *pod, args string, members ...string) answer {
	m.Helper()
	env := m.env(cni.VerbAdd, p)
	env["CNI_ARGS"] = args
	a := m.call(s.typ, env, m.conf(s.typ, s.conf, members...))
	p.result = []byte(a.stdout)
	return a
}

func pinAskedFor(r ruleTest) {
	const sets = `"ranges":[[{"subnet":"10.1.2.0/24"},{"subnet":"10.1.3.0/24"}],[{"subnet":"fd00:1::/64"}]]`
	hostLocal(r, sets, func(m *machine, s sample) {
		for i, tc := range []struct {
			args, members string
			want          []string
		}{
			{"IP=10.1.2.88", "", []string{"10.1.2.88/24", "fd00:1::2/64"}},
			{"", `"args":{"cni":{"ips":["10.1.2.89/24"]}}`, []string{"10.1.2.89/24", "fd00:1::3/64"}},
			{"", `"runtimeConfig":{"ips":["10.1.3.90","fd00:1::90"]}`, []string{"10.1.3.90/24", "fd00:1::90/64"}},
			{"IP=10.1.2.91", `"args":{"cni":{"ips":["10.1.3.92"]}}`, []string{"10.1.3.92/24", "fd00:1::91/64"}},
		} {
			p := m.newPod(fmt.Sprintf("spec-%d", i))
			m.asked(s, p, tc.args, tc.members).succeeds(m, "ADD")
			m.expectTook(p, tc.want...)
		}
	})
}

func pinAskedInVain(r ruleTest) {
	hostLocal(r, oneSet, func(m *machine, s sample) {
		p := m.attach(s, "spec-one")
		for _, ip := range []string{"10.99.0.1", "10.1.2.2", "fd00::5", "10.1.2.1", "10.1.2.7"} {
			late := m.newPod("spec-two")
			m.asked(s, late, "IP="+ip).fails(m, 0, ip)
			m.gone(late)
		}
		m.check(s, p).succeeds(m, "CHECK")
	})
}

func pinGCByInterface(r ruleTest) {
	hostLocal(r, oneSet, func(m *machine, s sample) {
		first, second := m.attach(s, "spec-one"), m.newPod("spec-one")
		second.ifName = "net1"
		m.add(s, second).succeeds(m, "ADD")
		m.gc(s, second).succeeds(m, "GC")
		if diff := cmp.Diff([]string{strings.TrimSuffix(m.took(second)[0], "/29")}, m.held()); diff != "" {
			m.Errorf("leases (-want +got)\n%s", diff)
		}
		m.check(s, second).succeeds(m, "CHECK")
		m.check(s, first).fails(m, 0)
	})
}

func pinGCAll(r ruleTest) {
	hostLocal(r, oneSet, func(m *machine, s sample) {
		for _, id := range []string{"spec-one", "spec-two"} {
			m.attach(s, id)
		}
		m.gc(s).succeeds(m, "GC")
		if got := m.held(); len(got) > 0 {
			m.Errorf("leases %q", got)
		}
		for _, book := range []string{"lock", "last_reserved_ip.0"} {
			if !exists(m, filepath.Join(m.data, network, book)) {
				m.Errorf("GC removed %s", book)
			}
		}
		// The books say where it went on: the address given first is not the one given next.
		m.expectTook(m.attach(s, "spec-three"), "10.1.2.4/29")
	})
}

func pinGCLegacy(r ruleTest) {
	hostLocal(r, oneSet, func(m *machine, s sample) {
		m.lease("10.1.2.4", "spec-stale")
		m.lease("10.1.2.5", "spec-valid")
		// Which interface an old file is of is not known: it is kept for any of its container.
		m.gc(s, &pod{id: "spec-valid", ifName: "net1"}).succeeds(m, "GC")
		if diff := cmp.Diff([]string{"10.1.2.5"}, m.held()); diff != "" {
			m.Errorf("leases (-want +got)\n%s", diff)
		}
	})
}

// onBridge runs f with bridge's sample in both forms.
func onBridge(r ruleTest, f func(m *machine, s sample)) {
	r.each(func(s sample) bool { return s.typ == "bridge" }, f)
}

func (m *machine) macOf(name string) string {
	m.Helper()
	words := strings.Fields(m.in(m.host, "ip -o link show "+name))
	return words[slices.Index(words, "link/ether")+1]
}

// pinSteadyMAC: the bridge's MAC does not follow its ports', and is the same when it is made anew.
func pinSteadyMAC(r ruleTest) {
	onBridge(r, func(m *machine, s sample) {
		first := m.attach(s, "spec-one")
		want := m.macOf("cni0")
		check := func(when string) {
			m.Helper()
			if got := m.macOf("cni0"); got != want {
				m.Errorf("%s: %s, was %s", when, got, want)
			}
		}
		second := m.attach(s, "spec-two")
		check("with a second pod")
		m.del(s, first).succeeds(m, "DEL")
		check("without the first")
		m.del(s, second).succeeds(m, "DEL")
		check("without any")
		m.in(m.host, "ip link del cni0")
		m.attach(s, "spec-three")
		check("made anew")
	})
}

func pinMACSources(r ruleTest) {
	onBridge(r, func(m *machine, s sample) {
		for i, tc := range []struct{ args, members, want string }{
			{"MAC=02:00:00:00:01:01", "", "02:00:00:00:01:01"},
			{"MAC=02:00:00:00:02:01", `"args":{"cni":{"mac":"02:00:00:00:02:02"}}`, "02:00:00:00:02:02"},
			{"MAC=02:00:00:00:03:01", `"args":{"cni":{"mac":"02:00:00:00:03:02"}},"runtimeConfig":{"mac":"02:00:00:00:03:03"}`, "02:00:00:00:03:03"},
		} {
			p := m.newPod(fmt.Sprintf("spec-%d", i))
			m.asked(s, p, tc.args, tc.members).succeeds(m, "ADD")
			if have := m.in(p.ns, "ip -o link show eth0"); !strings.Contains(have, tc.want) || !strings.Contains(string(p.result), tc.want) {
				m.Errorf("want %s: link %s result %s", tc.want, have, p.result)
			}
		}
	})
}

func pinInterfaceDown(r ruleTest) {
	onBridge(r, func(m *machine, s sample) {
		s.conf = `"bridge":"cni0","disableContainerInterface":true`
		p := m.attach(s, "spec-one")
		if have := m.in(p.ns, "ip -o link show eth0"); !strings.Contains(have, "state DOWN") || strings.Contains(have, ",UP") {
			m.Errorf("link %s", have)
		}
		m.check(s, p).succeeds(m, "CHECK")
		m.del(s, p).succeeds(m, "DEL")
		m.gone(p)
	})
}

// pinAddressGivenBack lets ADD fail after it has an address: another bridge's gateway is in the way.
func pinAddressGivenBack(r ruleTest) {
	onBridge(r, func(m *machine, s sample) {
		m.in(m.host, "ip link add cni0 type bridge")
		m.in(m.host, "ip addr add 172.16.0.1/16 dev cni0")
		p := m.newPod("spec-one")
		m.add(s, p).fails(m, cni.CodeInvalidConfig, "172.16.0.1/16")
		if got := m.held(); len(got) > 0 {
			m.Errorf("leases %q", got)
		}
		m.gone(p)
	})
}

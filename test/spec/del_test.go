package spec

import (
	"os"
	"slices"
	"testing"

	"github.com/cleat-cni/cleat/cni"
)

func delTests() map[string]func(ruleTest) {
	return map[string]func(ruleTest){
		"PL8":  func(r ruleTest) { r.versions(cni.Versions(), nil, testDelTakesBack) },
		"PL9":  func(r ruleTest) { r.versions(cni.Versions(), nil, testDelWithoutPrev) },
		"PL10": func(r ruleTest) { r.each(nil, testDelOfWhatIsMissing) },
		"PL11": func(r ruleTest) { r.versions(cni.Versions(), nil, testDelRepeats) },
		"PL12": func(r ruleTest) { r.versions([]string{"0.4.0", cni.Current}, nil, testDelWithoutNetNS) },
	}
}

func testDelTakesBack(m *machine, s sample) {
	p := m.newPod("spec-one")
	m.below(s, p)
	before := m.owned(p)
	m.add(s, p).succeeds(m, "ADD")
	m.del(s, p).succeeds(m, "DEL")
	m.leaves(s, p, before, m.delHasPrev())
	m.delBelow(s, p)
	m.gone(p)
}

// leaves checks that DEL left what was there before ADD. What loopback adjusts stays: lo is every namespace's own, and another
// attachment may use it. A chained plugin that had no prevResult finds its rules by their owner alone, and may take those of the
// plugin below, whose DEL follows.
func (m *machine) leaves(s sample, p *pod, before []string, hadPrev bool) {
	m.Helper()
	want, got := slices.Clone(before), m.owned(p)
	if s.role == adjuster {
		want = append(want, "pod link lo")
	}
	if s.role == chained && !hadPrev {
		isRule := func(line string) bool { return line == "rule" }
		want, got = slices.DeleteFunc(want, isRule), slices.DeleteFunc(got, isRule)
	}
	if diff := compare(want, got); diff != "" {
		m.Errorf("after DEL (-want +got)\n%s", diff)
	}
}

func testDelWithoutPrev(m *machine, s sample) {
	p := m.newPod("spec-one")
	m.below(s, p)
	before := m.owned(p)
	m.add(s, p).succeeds(m, "ADD")
	m.call(s.typ, m.env(cni.VerbDel, p), m.conf(s.typ, s.confOf(p))).succeeds(m, "DEL")
	m.leaves(s, p, before, false)
	m.delBelow(s, p)
	m.gone(p)
}

func testDelOfWhatIsMissing(m *machine, s sample) {
	breaks := map[string]func(p *pod){
		"namespace-gone": func(p *pod) { p.unmount(m) },
		"no-namespace": func(p *pod) {
			p.unmount(m)
			if err := os.WriteFile(p.netns, nil, 0o600); err != nil {
				m.Fatal(err)
			}
		},
		"rules-gone":  func(*pod) { m.in(m.host, "nft flush ruleset") },
		"leases-gone": func(p *pod) { m.do(p, []string{"rm leases"}) },
		"interface-gone": func(p *pod) {
			if s.role == maker || s.role == chained {
				m.in(p.ns, "ip link del "+p.ifName)
			}
		},
		"bridge-gone": func(p *pod) {
			if s.typ == "bridge" || s.role == chained {
				m.in(m.host, "ip link del cni0")
			}
		},
		"never-added": nil,
	}
	if s.invalid != "" {
		breaks["configuration-invalid-by-now"] = func(*pod) {}
	}
	for name, broken := range breaks {
		m.Run(name, func(t *testing.T) {
			m := m.of(t)
			p := m.newPod("c-" + name)
			members := s.confOf(p)
			if broken != nil {
				m.add(s, p).succeeds(m, "ADD")
				broken(p)
			}
			if name == "configuration-invalid-by-now" {
				members = s.invalid
				if s.role == ipam && !s.fixed {
					members = `"ipam":{"type":"host-local","dataDir":"DATA"}` // where the leases lie has to be there
				}
			}
			m.call(s.typ, m.env(cni.VerbDel, p), m.conf(s.typ, members, prevResult(p.prev(s)))).succeeds(m, "DEL")
			m.delBelow(s, p)
			m.gone(p)
		})
	}
}

// of is the machine in a subtest.
func (m *machine) of(t *testing.T) *machine {
	sub := *m
	sub.T = t
	return &sub
}

func testDelRepeats(m *machine, s sample) {
	p := m.attach(s, "spec-one")
	for range 3 {
		m.del(s, p).succeeds(m, "DEL")
	}
	m.delBelow(s, p)
	m.del(s, p).succeeds(m, "DEL when all is gone")
	m.gone(p)
}

func testDelWithoutNetNS(m *machine, s sample) {
	p := m.newPod("spec-one")
	m.below(s, p)
	m.add(s, p).succeeds(m, "ADD")
	env := m.env(cni.VerbDel, p)
	delete(env, "CNI_NETNS")
	m.call(s.typ, env, m.conf(s.typ, s.confOf(p), prevResult(p.prev(s)))).succeeds(m, "DEL")
	if s.role == chained {
		below := sampleOf(m.T, "bridge")
		m.call(below.typ, env, m.conf(below.typ, below.conf)).succeeds(m, "DEL of "+below.typ)
	}
	m.goneUntold(p) // the pod's end goes with the host's
}

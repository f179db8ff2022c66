package spec

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cleat-cni/cleat/cni"
)

func compare(want, got []string) string {
	return cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.SortSlices(strings.Compare))
}

func checkTests() map[string]func(ruleTest) {
	has := func(rule string) func(sample) bool {
		return func(s sample) bool {
			return slices.ContainsFunc(s.damage, func(d damage) bool { return d.rule == rule })
		}
	}
	finds := func(rule string) func(ruleTest) {
		return func(r ruleTest) {
			r.versions([]string{"0.4.0", cni.Current}, has(rule), func(m *machine, s sample) { testCheckFinds(m, s, rule) })
		}
	}
	return map[string]func(ruleTest){
		"PL14": func(r ruleTest) { r.versions(since("0.4.0"), interfacePlugin, testCheckAllowsChanges) },
		"PL15": finds("PL15"),
		"PL16": finds("PL16"),
		"PL17": finds("PL17"),
		"PL18": func(r ruleTest) {
			r.versions(since("0.4.0"), nil, func(m *machine, s sample) {
				p := m.attach(s, "spec-one")
				m.check(s, p).succeeds(m, "CHECK")
				m.check(s, p).succeeds(m, "CHECK again")
			})
		},
		"PL19": func(r ruleTest) { r.each(delegating, testCheckIsDelegated) },
	}
}

// testCheckFinds breaks an attachment in each way of a rule. Every one is of an attachment of its own, and a neighbour that is
// whole tells that CHECK is not only shy.
func testCheckFinds(m *machine, s sample, rule string) {
	if s.damaged != "" {
		s.conf = s.damaged
	}
	for _, d := range s.damage {
		if d.rule != rule {
			continue
		}
		m.Run(d.name, func(t *testing.T) {
			m := newMachine(t, m.version, m.form)
			p := m.attach(s, "spec-one")
			m.check(s, p).succeeds(m, "CHECK before")
			m.do(p, d.do)
			m.check(s, p).fails(m, 0)
			m.del(s, p).succeeds(m, "DEL")
		})
	}
}

func testCheckAllowsChanges(m *machine, s sample) {
	p := m.attach(s, "spec-one")
	m.do(p, s.changes)
	m.check(s, p).succeeds(m, "CHECK after "+strings.Join(s.changes, ", "))
	if s.role != maker {
		return
	}
	// A later plugin changed the interface and said so in its result.
	for _, line := range []string{"pod ip link set IF address 02:00:00:00:00:42", "pod ip link set IF mtu 1300", "pod ip route flush 192.0.2.0/24", "pod ip route flush default"} {
		m.do(p, []string{line})
	}
	r, err := cni.DecodeResult(p.result, "")
	if err != nil {
		m.Fatal(err)
	}
	for i, dev := range r.Interfaces {
		if dev.Name == p.ifName {
			r.Interfaces[i].MAC, r.Interfaces[i].MTU = "02:00:00:00:00:42", 1300
		}
	}
	r.Routes = slices.DeleteFunc(r.Routes, func(route cni.Route) bool { return route.Dst.Addr().Is4() })
	r.Interfaces = append(r.Interfaces, cni.Interface{Name: "other0", Sandbox: p.netns})
	if p.result, err = r.Encode(m.version); err != nil {
		m.Fatal(err)
	}
	if !cni.AtLeast(m.version, "1.0.0") { // older results have no MTU: what ADD gave counts
		m.do(p, []string{"pod ip link set IF mtu 1400"})
	}
	m.check(s, p).succeeds(m, "CHECK after a later plugin changed MAC, MTU and routes")
}

func testCheckIsDelegated(m *machine, s sample) {
	f := m.fakeIPAM()
	fake := s.withIPAM("FAKE")
	p := m.attach(fake, "spec-one")
	m.check(fake, p).succeeds(m, "CHECK")
	if got := f.lines(); !slices.Contains(got, "CHECK fake-ipam") {
		m.Errorf("the delegate was called for %q", got)
	}
	f.answer("fake-ipam", map[string]behaviour{"CHECK": failing(142, "lease is lost"), "ADD": {Stdout: fakeAddress(m.version)}})
	m.check(fake, p).fails(m, 142, "lease is lost")
}

// withIPAM is the sample with another ipam section.
func (s sample) withIPAM(word string) sample {
	s.conf = strings.ReplaceAll(s.conf, "IPAM", word)
	return s
}

// fakeIPAM installs the plugin fake-ipam.
func (m *machine) fakeIPAM() *fakes {
	m.Helper()
	f := &fakes{m.T, m.path}
	f.install("fake-ipam")
	f.answer("fake-ipam", map[string]behaviour{"ADD": {Stdout: fakeAddress(m.version)}})
	return f
}

// fakeAddress is the result of fake-ipam.
func fakeAddress(version string) string {
	r := cni.Result{
		IPs:    []cni.IP{{Address: netip.MustParsePrefix("10.99.0.7/16"), Gateway: netip.MustParseAddr("10.99.0.1")}},
		Routes: []cni.Route{{Dst: netip.MustParsePrefix("198.51.100.0/24"), GW: netip.MustParseAddr("10.99.0.1")}},
	}
	out, err := r.Encode(version)
	if err != nil {
		return err.Error()
	}
	return string(out)
}

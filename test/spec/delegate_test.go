package spec

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/cni"
)

func delegateTests() map[string]func(ruleTest) {
	return map[string]func(ruleTest){
		"DP1": func(r ruleTest) { r.each(delegating, testDelegateInPath) },
		"DP2": func(r ruleTest) { r.programs(delegating, testDelegateGetsAll) },
		"DP3": func(r ruleTest) { r.programs(delegating, testDelegateStderr) },
		"DP4": func(r ruleTest) { r.each(delegating, testDelegateErrors) },
		"DP5": func(r ruleTest) { r.each(delegating, testDelegateUndone) },
		"DP6": func(r ruleTest) { r.each(delegating, testDelegateApplied) },
		"DP7": func(r ruleTest) {
			r.versions(since("0.3.0"), func(s sample) bool { return s.role == ipam }, testAbbreviatedResult)
		},
	}
}

// testDelegateInPath: the first folder that has it counts, also for a type that is built in: what the administrator installed.
func testDelegateInPath(m *machine, s sample) {
	p := m.newPod("spec-one")
	fake := s.withIPAM("FAKE")
	m.call(fake.typ, m.env(cni.VerbAdd, p), m.conf(fake.typ, fake.conf)).fails(m, 0, "fake-ipam")
	m.gone(p)
	f := newFakes(m, "host-local")
	f.answer("host-local", map[string]behaviour{"ADD": {Stdout: fakeAddress(m.version)}})
	m.path = strings.Join([]string{filepath.Join(m.data, "not-there"), f.dir, m.path}, string(os.PathListSeparator))
	m.add(s, p).succeeds(m, "ADD")
	if got := f.lines(); !slices.Equal(got, []string{"ADD host-local"}) {
		m.Errorf("the program in CNI_PATH was called for %q", got)
	}
	if !strings.Contains(string(p.result), "10.99.0.7/16") {
		m.Errorf("result %s", p.result)
	}
}

func testDelegateGetsAll(m *machine, s sample) {
	f := m.fakeIPAM()
	s = s.withIPAM("FAKE")
	p := m.newPod("spec-one")
	env := m.env(cni.VerbAdd, p)
	env["CNI_ARGS"], env["OTHER_VARIABLE"] = "IgnoreUnknown=1;A=b=c", "passed on"
	conf := m.conf(s.typ, s.conf, `"unknown":{"b":1e2,"a":9007199254740993,"html":"<&>"}`, `"args":{"cni":{"x":1}}`)
	m.start(s.typ, env, conf).succeeds(m, "ADD")
	n := f.only()
	for name, value := range env {
		if got := n.Env[name]; got != value {
			m.Errorf("%s=%q, want %q", name, got, value)
		}
	}
	if n.Stdin != conf {
		m.Errorf("configuration (-want +got)\n%s", cmp.Diff(conf, n.Stdin))
	}
}

func testDelegateStderr(m *machine, s sample) {
	f := m.fakeIPAM()
	s = s.withIPAM("FAKE")
	f.answer("fake-ipam", map[string]behaviour{"ADD": {Stdout: fakeAddress(m.version), Stderr: "a word from the delegate\n"}})
	if a := m.add(s, m.newPod("spec-one")).succeeds(m, "ADD"); !strings.Contains(a.stderr, "a word from the delegate") {
		m.Errorf("standard error %q", a.stderr)
	}
}

func testDelegateErrors(m *machine, s sample) {
	f := m.fakeIPAM()
	s = s.withIPAM("FAKE")
	p := m.attach(s, "spec-one")
	answers := map[string]behaviour{}
	for _, verb := range []string{"CHECK", "DEL", "GC", "STATUS"} {
		answers[verb] = failing(142, verb+" does not work")
	}
	f.calls()
	f.answer("fake-ipam", answers)
	m.check(s, p).fails(m, 142, "CHECK does not work")
	m.status(s, s.conf).fails(m, cni.CodeNotAvailable, "STATUS does not work")
	m.del(s, p).fails(m, 142, "DEL does not work")
	m.gc(s).fails(m, 142, "GC does not work")
	want := []string{"CHECK fake-ipam", "STATUS fake-ipam", "DEL fake-ipam", "GC fake-ipam"}
	if diff := cmp.Diff(want, f.lines()); diff != "" {
		m.Errorf("delegated (-want +got)\n%s", diff)
	}
	f.answer("fake-ipam", nil)
	m.del(s, p).succeeds(m, "DEL when the delegate works again")
	m.gone(p)
}

func testDelegateUndone(m *machine, s sample) {
	f := m.fakeIPAM()
	s = s.withIPAM("FAKE")
	p := m.newPod("spec-one")
	f.answer("fake-ipam", map[string]behaviour{"ADD": failing(142, "no server")})
	m.add(s, p).fails(m, 142, "no server")
	if diff := cmp.Diff([]string{"ADD fake-ipam", "DEL fake-ipam"}, f.lines()); diff != "" {
		m.Errorf("delegated (-want +got)\n%s", diff)
	}
	m.gone(p)
	// So does an ADD that fails after the delegate succeeded.
	f.answer("fake-ipam", map[string]behaviour{"ADD": {Stdout: `{"cniVersion":"1.1.0"}`}})
	m.add(s, p).fails(m, 0, "fake-ipam")
	if diff := cmp.Diff([]string{"ADD fake-ipam", "DEL fake-ipam"}, f.lines()); diff != "" {
		m.Errorf("delegated when no address came (-want +got)\n%s", diff)
	}
	f.answer("fake-ipam", map[string]behaviour{"ADD": {Stdout: fakeAddress(m.version)}})
	m.in(p.ns, "ip link add eth0 type veth peer name other0")
	m.add(s, p).fails(m, 0)
	if got := f.lines(); len(got) != 0 && !slices.Equal(got, []string{"ADD fake-ipam", "DEL fake-ipam"}) {
		m.Errorf("delegated when the interface is there: %q", got)
	}
}

func testDelegateApplied(m *machine, s sample) {
	m.fakeIPAM()
	s = s.withIPAM("FAKE")
	p := m.attach(s, "spec-one")
	if have := m.in(p.ns, "ip -o -4 addr show dev eth0"); !strings.Contains(have, "10.99.0.7/16") {
		m.Errorf("addresses: %s", have)
	}
	if have := m.in(p.ns, "ip route"); !strings.Contains(have, "198.51.100.0/24 via 10.99.0.1") {
		m.Errorf("routes: %s", have)
	}
	r, err := cni.DecodeResult(p.result, "")
	if err != nil {
		m.Fatal(err)
	}
	if ip := r.IPs[0]; ip.Address.String() != "10.99.0.7/16" || ip.Gateway.String() != "10.99.0.1" || !ip.Interface.Set {
		m.Errorf("result %s", p.result)
	}
}

func testAbbreviatedResult(m *machine, s sample) {
	p := m.newPod("spec-one")
	// The delegate sees what its caller got, and does not hand it on.
	prev := fmt.Sprintf(`"prevResult":{"cniVersion":%q,"interfaces":[{"name":"x"}]}`, m.version)
	a := m.call(s.typ, m.env(cni.VerbAdd, p), m.conf(s.typ, s.conf, prev)).succeeds(m, "ADD")
	var got struct {
		Interfaces json.RawMessage              `json:"interfaces"`
		IPs        []map[string]json.RawMessage `json:"ips"`
	}
	if err := json.Unmarshal([]byte(a.stdout), &got); err != nil {
		m.Fatal(err)
	}
	if got.Interfaces != nil || len(got.IPs) == 0 {
		m.Errorf("result %s", a.stdout)
	}
	for _, ip := range got.IPs {
		if _, there := ip["interface"]; there {
			m.Errorf("an index of an interface in %s", a.stdout)
		}
	}
}

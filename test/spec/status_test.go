package spec

import (
	"slices"

	"github.com/cleat-cni/cleat/cni"
)

func statusTests() map[string]func(ruleTest) {
	full := func(s sample) bool { return s.full != "" }
	return map[string]func(ruleTest){
		"PL20": func(r ruleTest) { r.each(nil, testStatus) },
		"PL21": func(r ruleTest) { r.each(full, testStatusWhenFull) },
		"PL22": func(r ruleTest) { r.each(full, testWorkWithoutStatus) },
		"PL23": func(r ruleTest) { r.each(delegating, testStatusIsDelegated) },
		"PL27": testVersionAlone,
	}
}

func testStatus(m *machine, s sample) {
	m.status(s, s.conf).succeeds(m, "STATUS")
	if s.role != chained {
		p := m.attach(s, "spec-one") // it said that it can
		m.status(s, s.conf).succeeds(m, "STATUS with an attachment")
		m.del(s, p).succeeds(m, "DEL")
	}
	if s.invalid != "" {
		m.status(s, s.invalid).fails(m, cni.CodeInvalidConfig)
	}
	if s.usesIPAM() {
		m.status(s, s.withIPAM("FAKE").conf).fails(m, 0, "fake-ipam") // which is not there
	}
}

// exhausted is the sample with one address, which another container has.
func (m *machine) exhausted(s sample) (sample, *pod) {
	m.Helper()
	s.conf = s.full
	return s, m.attach(s, "spec-holder")
}

func testStatusWhenFull(m *machine, s sample) {
	m.status(s, s.full).succeeds(m, "STATUS while there is one")
	s, holder := m.exhausted(s)
	m.status(s, s.full).fails(m, cni.CodeNotAvailable)
	m.del(s, holder).succeeds(m, "DEL")
	m.status(s, s.full).succeeds(m, "STATUS after DEL")
}

func testWorkWithoutStatus(m *machine, s sample) {
	s, holder := m.exhausted(s)
	m.status(s, s.full).fails(m, cni.CodeNotAvailable)
	m.check(s, holder).succeeds(m, "CHECK")
	p := m.newPod("spec-late")
	m.add(s, p).fails(m, cni.CodeTryAgain)
	m.del(s, p).succeeds(m, "DEL of what was not added")
	m.gone(p)
	m.gc(s, holder).succeeds(m, "GC")
	m.check(s, holder).succeeds(m, "CHECK after GC")
	m.del(s, holder).succeeds(m, "DEL")
	m.gone(holder)
	m.add(s, p).succeeds(m, "ADD without a STATUS before")
}

func testStatusIsDelegated(m *machine, s sample) {
	f := m.fakeIPAM()
	s = s.withIPAM("FAKE")
	m.status(s, s.conf).succeeds(m, "STATUS")
	if got := f.lines(); !slices.Equal(got, []string{"STATUS fake-ipam"}) {
		m.Errorf("the delegate was called for %q", got)
	}
	// What STATUS has no code for is: not available.
	for code, want := range map[cni.Code]cni.Code{
		cni.CodeNotAvailable: cni.CodeNotAvailable, cni.CodeLimitedConnectivity: cni.CodeLimitedConnectivity, 142: cni.CodeNotAvailable,
	} {
		f.answer("fake-ipam", map[string]behaviour{"STATUS": failing(code, "daemon is away")})
		m.status(s, s.conf).fails(m, want, "daemon is away")
	}
}

func testVersionAlone(r ruleTest) {
	r.programs(nil, func(m *machine, s sample) {
		a := m.start(s.typ, map[string]string{"CNI_COMMAND": "VERSION"}, "").succeeds(m, "VERSION")
		info, err := cni.ParseVersionInfo([]byte(a.stdout))
		if err != nil || !slices.Equal(info.Supported, cni.Versions()) {
			m.Errorf("VERSION: %v: %s", err, a.stdout)
		}
	})
}

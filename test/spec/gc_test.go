package spec

import "github.com/cleat-cni/cleat/cni"

func gcTests() map[string]func(ruleTest) {
	return map[string]func(ruleTest){
		"PL24": func(r ruleTest) { r.each(nil, testGCFrees) },
		"PL25": func(r ruleTest) { r.each(delegating, testGCGoesOn) },
		"PL26": func(r ruleTest) { r.each(delegating, testGCIsForwarded) },
		"PL28": func(r ruleTest) { r.programs(nil, testGCEnvironment) },
	}
}

func testGCFrees(m *machine, s sample) {
	stale, valid := m.attach(s, "spec-stale"), m.attach(s, "spec-valid")
	before := m.owned(valid)
	// The stale container's namespace is no longer to be seen, but something keeps it.
	m.gc(s, valid).succeeds(m, "GC")
	if s.role == chained { // the plugin below has objects of the same owner in the same network: it collects them too
		base := sampleOf(m.T, "bridge")
		m.gc(base, valid).succeeds(m, "GC of "+base.typ)
	}
	m.goneUntold(stale)
	if diff := compare(before, m.owned(valid)); diff != "" {
		m.Errorf("GC changed an attachment that is valid (-before +after)\n%s", diff)
	}
	m.check(s, valid).succeeds(m, "CHECK of the valid one")
	valid.unmount(m)
	m.gc(s).succeeds(m, "GC of all, the namespace gone")
	if s.role == chained {
		base := sampleOf(m.T, "bridge")
		m.gc(base).succeeds(m, "GC of "+base.typ)
	}
	m.gone(valid)
	m.gc(s).succeeds(m, "GC of nothing")
}

func testGCGoesOn(m *machine, s sample) {
	f := m.fakeIPAM()
	s = s.withIPAM("FAKE")
	p := m.attach(s, "spec-stale")
	f.answer("fake-ipam", map[string]behaviour{"GC": failing(142, "store is away")})
	m.gc(s).fails(m, 142, "store is away")
	m.gone(p)
}

func testGCIsForwarded(m *machine, s sample) {
	f := m.fakeIPAM()
	s = s.withIPAM("FAKE")
	m.gc(s, &pod{id: "spec-valid", ifName: "net0"}).succeeds(m, "GC")
	n := f.only()
	if n.verb() != "GC" {
		m.Errorf("the delegate was called for %s", n.verb())
	}
	sameJSON(m, "valid attachments", []byte(`[{"containerID":"spec-valid","ifname":"net0"}]`), n.has(m, "cni.dev/valid-attachments"))
}

func testGCEnvironment(m *machine, s sample) {
	conf := m.conf(s.typ, s.conf, `"cni.dev/valid-attachments":[]`)
	a := m.start(s.typ, map[string]string{"CNI_COMMAND": "GC", "CNI_PATH": m.path}, conf).succeeds(m, "GC")
	if a.stdout != "" {
		m.Errorf("GC printed %q", a.stdout)
	}
	m.start(s.typ, map[string]string{"CNI_COMMAND": "GC"}, conf).fails(m, cni.CodeInvalidEnvironment, "CNI_PATH")
	// No list is not an empty list.
	m.start(s.typ, m.env(cni.VerbGC, nil), m.conf(s.typ, s.conf)).fails(m, cni.CodeInvalidConfig, "cni.dev/valid-attachments")
	for _, key := range []string{`"cni.dev/valid-attachments":null`, `"cni.dev/attachments":[]`} {
		m.start(s.typ, m.env(cni.VerbGC, nil), m.conf(s.typ, s.conf, key)).succeeds(m, "GC with "+key)
	}
}

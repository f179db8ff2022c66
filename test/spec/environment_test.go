package spec

import (
	"maps"
	"slices"

	"github.com/cleat-cni/cleat/cni"
)

func environmentTests() map[string]func(ruleTest) {
	return map[string]func(ruleTest){
		"MX1": func(r ruleTest) { r.programs(nil, testMatrix) },
		"MX2": func(r ruleTest) { r.programs(nil, testMinimumVersions) },
		"MX3": func(r ruleTest) { r.programs(nil, testUnknownVerb) },
		"ID1": func(r ruleTest) { r.programs(nil, testContainerIDs) },
		"ID2": func(r ruleTest) { r.programs(nil, testNetworkNames) },
		"AR1": func(r ruleTest) { r.programs(nil, testArgs) },
		"AR2": func(r ruleTest) { r.programs(func(s sample) bool { return s.args != nil }, testUnknownArgs) },
		"AR3": func(r ruleTest) { r.each(nil, testKubernetesArgs) },
	}
}

// matrix says which variables a verb requires (R) besides CNI_COMMAND; it looks at the others if they are there.
func matrix() map[cni.Verb][]string {
	return map[cni.Verb][]string{
		cni.VerbAdd:    {"CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME"},
		cni.VerbDel:    {"CNI_CONTAINERID", "CNI_IFNAME"},
		cni.VerbCheck:  {"CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME"},
		cni.VerbGC:     {"CNI_PATH"},
		cni.VerbStatus: nil,
	}
}

func testMatrix(m *machine, s sample) {
	p := m.newPod("spec-one")
	m.below(s, p)
	conf := m.conf(s.typ, s.confOf(p), prevResult(p.base), `"cni.dev/valid-attachments":[{"containerID":"spec-one","ifname":"eth0"}]`)
	full := m.env(cni.VerbAdd, p)
	full["CNI_ARGS"] = "IgnoreUnknown=1"
	for _, verb := range []cni.Verb{cni.VerbAdd, cni.VerbCheck, cni.VerbStatus, cni.VerbGC, cni.VerbDel} {
		required := matrix()[verb]
		for _, name := range required {
			for _, empty := range []bool{true, false} {
				env := maps.Clone(full)
				env["CNI_COMMAND"] = string(verb)
				if delete(env, name); empty {
					env[name] = ""
				}
				m.start(s.typ, env, conf).fails(m, cni.CodeInvalidEnvironment, name)
			}
		}
		if len(required) > 0 {
			m.start(s.typ, map[string]string{"CNI_COMMAND": string(verb)}, conf).fails(m, cni.CodeInvalidEnvironment, required...)
		}
		// With what is required and nothing else the verb works.
		env := map[string]string{"CNI_COMMAND": string(verb)}
		for _, name := range required {
			env[name] = full[name]
		}
		stdin := conf
		if verb == cni.VerbCheck {
			stdin = m.conf(s.typ, s.confOf(p), prevResult(m.checked(s, p)))
		}
		a := m.start(s.typ, env, stdin).succeeds(m, string(verb)+" with what is required")
		if verb == cni.VerbAdd {
			p.result = []byte(a.stdout)
		}
	}
	m.delBelow(s, p)
	m.goneUntold(p)
}

// checked is the prevResult of a CHECK.
func (m *machine) checked(s sample, p *pod) []byte {
	if s.role == ipam {
		return withInterface(m.T, p.result, p)
	}
	return p.result
}

func testMinimumVersions(m *machine, s sample) {
	p := m.newPod("spec-one")
	for verb, min := range map[cni.Verb]string{cni.VerbCheck: "0.4.0", cni.VerbGC: "1.1.0", cni.VerbStatus: "1.1.0"} {
		for _, v := range cni.Versions() {
			if cni.AtLeast(v, min) {
				continue
			}
			m.version = v
			m.start(s.typ, m.env(verb, p), m.conf(s.typ, s.conf, `"cni.dev/valid-attachments":[]`)).
				fails(m, cni.CodeIncompatibleVersion, string(verb), v)
		}
	}
}

func testUnknownVerb(m *machine, s sample) {
	p := m.newPod("spec-one")
	for _, verb := range []string{"JUMP", "add", " ADD", "UPDATE"} {
		env := m.env(cni.VerbAdd, p)
		env["CNI_COMMAND"] = verb
		m.start(s.typ, env, m.conf(s.typ, s.conf)).fails(m, cni.CodeInvalidEnvironment, verb)
	}
	m.gone(p)
}

// badNames break [A-Za-z0-9][A-Za-z0-9_.-]*.
func badNames() []string {
	return []string{"../x", ".hidden", "-a", "_a", "a/b", "a b", "a\nb", "ä", "a:b", "a\\b"}
}

func testContainerIDs(m *machine, s sample) {
	for _, id := range badNames() {
		p := &pod{id: id, ifName: "eth0", netns: "/no/such/namespace"}
		for _, verb := range []cni.Verb{cni.VerbAdd, cni.VerbDel, cni.VerbCheck} {
			m.start(s.typ, m.env(verb, p), m.conf(s.typ, s.conf)).fails(m, cni.CodeInvalidEnvironment)
		}
	}
	p := m.newPod("0")
	for _, id := range []string{"0", "a.b_c-d", "A"} {
		p.id, p.base = id, nil
		m.add(s, p).succeeds(m, "ADD of "+id)
		m.del(s, p).succeeds(m, "DEL of "+id)
		m.delBelow(s, p)
	}
}

func testNetworkNames(m *machine, s sample) {
	p := m.newPod("spec-one")
	for _, name := range append(badNames(), "") {
		o, err := cni.ParseObject([]byte(m.conf(s.typ, s.conf)))
		if err == nil {
			err = o.SetValue("name", name)
		}
		if err != nil {
			m.Fatal(err)
		}
		for _, verb := range []cni.Verb{cni.VerbAdd, cni.VerbDel, cni.VerbCheck, cni.VerbGC, cni.VerbStatus} {
			m.start(s.typ, m.env(verb, p), string(o.Bytes())).fails(m, cni.CodeInvalidConfig)
		}
	}
}

func (m *machine) startWithArgs(s sample, p *pod, args string) answer {
	env := m.env(cni.VerbAdd, p)
	env["CNI_ARGS"] = args
	return m.call(s.typ, env, m.conf(s.typ, s.confOf(p), prevResult(p.base)))
}

func testArgs(m *machine, s sample) {
	p := m.newPod("spec-one")
	m.below(s, p)
	for _, bad := range []string{"A", "A=1;B", "=x"} {
		m.startWithArgs(s, p, bad).fails(m, cni.CodeInvalidEnvironment)
	}
	// A value may hold =, and a pair may be empty.
	m.startWithArgs(s, p, "IgnoreUnknown=true;FOO=BAR;ABC=1=2;").succeeds(m, "ADD")
	if s.args == nil || !slices.Contains(s.args, "IP") || s.role != ipam {
		return
	}
	m.del(s, p).succeeds(m, "DEL")
	a := m.startWithArgs(s, p, "IP=10.88.0.77/16").succeeds(m, "ADD")
	p.result = []byte(a.stdout)
	if got := m.took(p); !slices.Contains(got, "10.88.0.77/16") {
		m.Errorf("addresses %q", got)
	}
}

func testUnknownArgs(m *machine, s sample) {
	p := m.newPod("spec-one")
	m.below(s, p)
	for _, args := range []string{"FOO=BAR", "IgnoreUnknown=0;FOO=BAR", "IgnoreUnknown=maybe"} {
		a := m.startWithArgs(s, p, args)
		a.fails(m, cni.CodeInvalidEnvironment)
	}
	m.delBelow(s, p)
	m.gone(p)
	for i, args := range []string{"IgnoreUnknown=1;FOO=BAR", "FOO=BAR;IgnoreUnknown=TRUE"} {
		p := m.newPod([]string{"spec-two", "spec-three"}[i])
		m.below(s, p)
		m.startWithArgs(s, p, args).succeeds(m, "ADD with "+args)
	}
}

func testKubernetesArgs(m *machine, s sample) {
	p := m.newPod("spec-one")
	m.below(s, p)
	m.startWithArgs(s, p, "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=web-0;K8S_POD_INFRA_CONTAINER_ID=spec-one;"+
		"K8S_POD_UID=2f0a1e9c-7d5c-4a3e-9a43-8d9b7f1f1c11").succeeds(m, "ADD")
}

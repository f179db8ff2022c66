package spec

import (
	"fmt"
	"strings"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/libcni"
)

func versionTests() map[string]func(ruleTest) {
	return map[string]func(ruleTest){
		"VE1": testHighestVersion,
		"VE2": testValidateVersions,
		"VE3": func(r ruleTest) { r.programs(nil, testSameInEveryVersion) },
		"VE4": testChosenVersionIsSent,
		"VE5": testNoVersion,
		"VE6": func(r ruleTest) { r.programs(nil, testUnknownVersion) },
		"VE7": func(r ruleTest) { r.versions(cni.Versions(), nil, testResultVersion) },
	}
}

func testHighestVersion(r ruleTest) {
	for _, tc := range []struct{ versions, want string }{
		{`"cniVersion":"0.3.1","cniVersions":["0.4.0","1.0.0"]`, "1.0.0"},
		{`"cniVersion":"1.1.0","cniVersions":["0.4.0"]`, "1.1.0"},
		{`"cniVersions":["0.4.0","0.3.0"]`, "0.4.0"},
		{`"cniVersion":"1.0.0","cniVersions":["1.1.0","1.2.0","2.0.0"]`, "1.1.0"},
		{`"cniVersion":"9.9.9","cniVersions":["0.3.1"]`, "0.3.1"},
		{`"cniVersion":"1.0.0","cniVersions":[]`, "1.0.0"},
	} {
		if l := list(r, `{`+tc.versions+`,"name":"n","plugins":[{"type":"fake-a"}]}`); l.CNIVersion != tc.want {
			r.Errorf("%s: chosen %s, want %s", tc.versions, l.CNIVersion, tc.want)
		}
	}
	if _, err := libcni.ConfListFromBytes([]byte(`{"cniVersions":["x"],"name":"n","plugins":[{"type":"a"}]}`)); err == nil {
		r.Error("a version that is none is accepted")
	}
}

func testValidateVersions(r ruleTest) {
	c := newRuntime(r, "fake-a", "fake-b")
	c.answer("fake-b", map[string]behaviour{"VERSION": {Stdout: `{"cniVersion":"1.0.0","supportedVersions":["0.3.1","0.4.0"]}`}})
	if _, err := c.ValidateNetworkList(r.Context(), ofTypes(r, "1.0.0", "fake-a", "fake-b")); cni.CodeOf(err) != cni.CodeIncompatibleVersion {
		r.Errorf("validate: %v", err)
	}
	if _, err := c.ValidateNetworkList(r.Context(), ofTypes(r, "0.4.0", "fake-a", "fake-b")); err != nil {
		r.Error(err)
	}
}

// testSameInEveryVersion: one configuration leads to the same attachment in each version of a major one; 0.x before 0.3.0 results say less.
func testSameInEveryVersion(m *machine, s sample) {
	want := make(map[string]string)
	for _, v := range cni.Versions() {
		m := newMachine(m.T, v, m.form)
		p := m.attach(s, "spec-one")
		got := strings.Join(m.owned(p), "\n")
		major := v[:1]
		if first, ok := want[major]; ok && first != got {
			m.Errorf("version %s makes\n%s\nan older one of major %s made\n%s", v, got, major, first)
		}
		want[major] = got
	}
}

func testChosenVersionIsSent(r ruleTest) {
	c := newRuntime(r, "fake-a", "fake-b")
	l := list(r, `{"cniVersion":"0.4.0","cniVersions":["1.0.0","1.1.0","3.0.0"],"name":"n","plugins":[{"type":"fake-a","cniVersion":"0.2.0"},{"type":"fake-b"}]}`)
	c.add(l, attachment())
	if err := c.CheckNetworkList(r.Context(), l, attachment()); err != nil {
		r.Error(err)
	}
	if err := c.GetStatusNetworkList(r.Context(), l); err != nil {
		r.Error(err)
	}
	c.del(l, attachment())
	if err := c.GCNetworkList(r.Context(), l, &libcni.GCArgs{}); err != nil {
		r.Error(err)
	}
	calls := c.calls()
	if len(calls) != 10 {
		r.Errorf("calls %v", calls)
	}
	for _, n := range calls {
		if got := string(n.has(r, "cniVersion")); got != `"1.1.0"` {
			r.Errorf("%s got cniVersion %s", n, got)
		}
	}
}

func testNoVersion(r ruleTest) {
	l := list(r, `{"name":"n","plugins":[{"type":"fake-a"}]}`)
	if l.CNIVersion != "0.1.0" {
		r.Errorf("cniVersion %q", l.CNIVersion)
	}
	c := newRuntime(r, "fake-a")
	result := c.add(l, attachment())
	if result.CNIVersion != "0.1.0" {
		r.Errorf("result of version %s", result.CNIVersion)
	}
	r.programs(nil, func(m *machine, s sample) {
		p := m.newPod("spec-one")
		m.version = "0.1.0"
		m.below(s, p)
		conf := strings.Replace(m.conf(s.typ, s.confOf(p), prevResult(p.base)), `"cniVersion":"0.1.0",`, "", 1)
		a := m.start(s.typ, m.env(cni.VerbAdd, p), conf).succeeds(m, "ADD without a version")
		if r, err := cni.DecodeResult([]byte(a.stdout), ""); err != nil || r.CNIVersion != "0.1.0" {
			m.Errorf("%v: %s", err, a.stdout)
		}
	})
}

func testUnknownVersion(m *machine, s sample) {
	p := m.newPod("spec-one")
	for _, v := range []string{"0.0.9", "0.5.0", "1.2.0", "2.0.0", "99.0.0"} {
		m.version = v
		for _, verb := range []cni.Verb{cni.VerbAdd, cni.VerbDel} {
			m.start(s.typ, m.env(verb, p), m.conf(s.typ, s.confOf(p))).fails(m, cni.CodeIncompatibleVersion, v)
		}
	}
	m.gone(p)
}

func testResultVersion(m *machine, s sample) {
	p := m.attach(s, "spec-one")
	if want := fmt.Sprintf(`"cniVersion":%q`, m.version); !strings.Contains(string(p.result), want) {
		m.Errorf("want %s in %s", want, p.result)
	}
	// The name is not enough: below 0.3.0 addresses have another form.
	old := strings.Contains(string(p.result), `"ip4"`) || strings.Contains(string(p.result), `"ip6"`)
	if old == cni.AtLeast(m.version, "0.3.0") {
		m.Errorf("form of another version: %s", p.result)
	}
}

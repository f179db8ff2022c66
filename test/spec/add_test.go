package spec

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/cni"
)

func addTests() map[string]func(ruleTest) {
	return map[string]func(ruleTest){
		"PL1": testExitStatus,
		"PL2": testErrorOnStdout,
		"PL3": func(r ruleTest) { r.versions(cni.Versions(), nil, testAddMakes) },
		"PL4": func(r ruleTest) { r.versions(cni.Versions(), nil, testAddPrints) },
		"PL5": func(r ruleTest) { r.versions(since("0.3.0"), interfacePlugin, testPrevResultIsKept) },
		"PL6": func(r ruleTest) { r.each(makes, testInterfaceExists) },
		"PL7": func(r ruleTest) { r.programs(nil, testBadIfName) },
		"PL13": func(r ruleTest) {
			r.programs(nil, testAtOnce)
		},
		"PL29": func(r ruleTest) { r.programs(nil, testStdoutIsTheAnswer) },
	}
}

func testExitStatus(r ruleTest) {
	r.programs(nil, func(m *machine, s sample) {
		p := m.attach(s, "spec-one")
		m.check(s, p).succeeds(m, "CHECK")
		m.status(s, s.conf).succeeds(m, "STATUS")
		m.gc(s, p).succeeds(m, "GC")
		m.del(s, p).succeeds(m, "DEL")
		for _, verb := range []cni.Verb{cni.VerbAdd, cni.VerbDel, cni.VerbCheck, cni.VerbGC, cni.VerbStatus} {
			if a := m.call(s.typ, m.env(verb, p), "no JSON"); a.status == 0 {
				m.Errorf("%s with a broken configuration: exit status 0", verb)
			}
		}
	})
}

func testErrorOnStdout(r ruleTest) {
	r.programs(nil, func(m *machine, s sample) {
		p := m.newPod("spec-one")
		for _, verb := range []cni.Verb{cni.VerbAdd, cni.VerbDel, cni.VerbCheck, cni.VerbGC, cni.VerbStatus} {
			if e := m.call(s.typ, m.env(verb, p), `{"cniVersion":"1.1.0","type":"x"}`).fault(m); e.Msg == "" || e.Code == 0 {
				m.Errorf("%s without a name: %+v", verb, e)
			}
		}
	})
}

func testAddMakes(m *machine, s sample) {
	p := m.newPod("spec-one")
	m.below(s, p)
	before := m.owned(p)
	m.add(s, p).succeeds(m, "ADD")
	after := m.owned(p)
	if slices.Equal(before, after) && !s.fixed {
		m.Errorf("ADD changed nothing: %q", after)
	}
	if wants := "pod link " + p.ifName; s.role == maker && !slices.Contains(after, wants) {
		m.Errorf("want %q in %q", wants, after)
	}
}

func testAddPrints(m *machine, s sample) {
	p := m.attach(s, "spec-one")
	r, err := cni.DecodeResult(p.result, "")
	if err != nil {
		m.Fatalf("%v: %s", err, p.result)
	}
	if r.CNIVersion != m.version || len(r.IPs) == 0 {
		m.Errorf("result %s", p.result)
	}
}

// foreign is a prevResult with an interface, an address and members that nobody here knows.
func foreign(version, sandbox string) string {
	family := ""
	if !cni.AtLeast(version, "1.0.0") {
		family = `"version":"4",`
	}
	return fmt.Sprintf(`{"cniVersion":%q,"interfaces":[{"name":"vethx"},{"name":"other0","sandbox":%q,"x-dev":1}],
	  "ips":[{%s"address":"203.0.113.5/24","interface":1,"x-ip":{"a":[1]}}],"routes":[{"dst":"198.51.100.0/24"}],
	  "dns":{"nameservers":["203.0.113.1"]},"x-top":"kept"}`, version, sandbox, family)
}

// makeForeign makes the interfaces of that result, which p is attached by from now on.
func (m *machine) makeForeign(p *pod) {
	m.Helper()
	p.ifName = "other0"
	m.in(m.host, "ip link add vethx type veth peer name other0 netns "+p.netns)
}

func testPrevResultIsKept(m *machine, s sample) {
	p := m.newPod("spec-one")
	if s.role == chained {
		m.makeForeign(p)
	}
	p.base = json.RawMessage(foreign(m.version, p.netns))
	m.add(s, p).succeeds(m, "ADD")
	var got struct {
		Interfaces []struct {
			Name string
			X    int `json:"x-dev"`
		}
		IPs []struct {
			Address   string
			Interface int
			X         json.RawMessage `json:"x-ip"`
		}
		Routes []struct{ Dst string }
		X      string `json:"x-top"`
	}
	if err := json.Unmarshal(p.result, &got); err != nil {
		m.Fatal(err)
	}
	if len(got.Interfaces) < 2 || got.Interfaces[1].Name != "other0" || got.Interfaces[1].X != 1 ||
		len(got.IPs) < 1 || got.IPs[0].Address != "203.0.113.5/24" || got.IPs[0].Interface != 1 || string(got.IPs[0].X) != `{"a":[1]}` ||
		len(got.Routes) < 1 || got.Routes[0].Dst != "198.51.100.0/24" || got.X != "kept" {
		m.Fatalf("prevResult %s\nbecame %s", p.base, p.result)
	}
	for _, ip := range got.IPs[1:] {
		if ip.Interface < 2 || got.Interfaces[ip.Interface].Name != p.ifName {
			m.Errorf("address %s is of interface %d in %s", ip.Address, ip.Interface, p.result)
		}
	}
}

func testInterfaceExists(m *machine, s sample) {
	p := m.newPod("spec-one")
	m.in(p.ns, "ip link add eth0 type veth peer name other0")
	m.in(p.ns, "ip link set eth0 address 02:00:00:00:00:77")
	m.add(s, p).fails(m, 0, "eth0")
	if have := m.in(p.ns, "ip -o link show eth0"); !strings.Contains(have, "02:00:00:00:00:77") || !strings.Contains(have, "other0") {
		m.Errorf("the interface that was there became %s", have)
	}
	m.in(p.ns, "ip link del eth0")
	m.gone(p)
}

func testBadIfName(m *machine, s sample) {
	p := m.newPod("spec-one")
	for _, name := range []string{"longer-than-15-b", "a/b", "..", ".", "a b", "a:b", "eth%d"} {
		for _, verb := range []cni.Verb{cni.VerbAdd, cni.VerbDel, cni.VerbCheck} {
			env := m.env(verb, p)
			env["CNI_IFNAME"] = name
			m.call(s.typ, env, m.conf(s.typ, s.conf)).fails(m, cni.CodeInvalidEnvironment)
		}
	}
	m.gone(p)
}

func testAtOnce(m *machine, s sample) {
	const n = 6
	var pods []*pod
	for i := range n {
		pods = append(pods, m.newPod(fmt.Sprintf("at-once-%d", i)))
		m.below(s, pods[i])
	}
	together(pods, func(p *pod) { m.add(s, p) })
	taken := make(map[string]string)
	for _, p := range pods {
		if p.result == nil {
			m.Fatalf("ADD of %s did not succeed: %+v", p.id, m.add(s, p))
		}
		r, err := cni.DecodeResult(p.result, "")
		if err != nil {
			m.Fatal(err)
		}
		for _, ip := range r.IPs {
			a := ip.Address.Addr()
			if other, ok := taken[a.String()]; ok && !a.IsLoopback() && !s.fixed {
				m.Errorf("%s and %s have %s", other, p.id, a)
			}
			taken[a.String()] = p.id
		}
	}
	statuses := make([]answer, n)
	together(pods, func(p *pod) { statuses[slices.Index(pods, p)] = m.del(s, p) })
	for i, p := range pods {
		statuses[i].succeeds(m, "DEL")
		m.delBelow(s, p)
		m.gone(p)
	}
}

// together runs f for all pods at once.
func together(pods []*pod, f func(*pod)) {
	var wg sync.WaitGroup
	for _, p := range pods {
		wg.Go(func() { f(p) })
	}
	wg.Wait()
}

// testStdoutIsTheAnswer: verbs without a result print nothing, and what is logged goes to standard error.
func testStdoutIsTheAnswer(m *machine, s sample) {
	p := m.newPod("spec-one")
	m.below(s, p)
	added := m.add(s, p).succeeds(m, "ADD")
	if _, err := cni.ParseObject([]byte(added.stdout)); err != nil {
		m.Errorf("ADD printed %q: %v", added.stdout, err)
	}
	got := map[string]string{
		"CHECK":  m.check(s, p).stdout,
		"STATUS": m.status(s, s.conf).stdout,
		"GC":     m.gc(s, p).stdout,
		"DEL":    m.del(s, p).stdout,
	}
	// A DEL with a configuration that can't be read any more warns.
	if s.invalid != "" {
		got["DEL that warns"] = m.call(s.typ, m.env(cni.VerbDel, p), m.conf(s.typ, s.invalid)).stdout
	}
	for verb, out := range got {
		if out != "" {
			m.Errorf("%s printed %q", verb, out)
		}
	}
}

// sameJSON compares two JSON texts by what they say.
func sameJSON(t testing.TB, what string, want, got []byte) {
	t.Helper()
	var w, g any
	if err := json.Unmarshal(want, &w); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(got, &g); err != nil {
		t.Fatalf("%s: %v: %s", what, err, got)
	}
	if diff := cmp.Diff(w, g); diff != "" {
		t.Errorf("%s (-want +got)\n%s", what, diff)
	}
}

package spec

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/cni"
)

func resultTests() map[string]func(ruleTest) {
	return map[string]func(ruleTest){
		"RS1": func(r ruleTest) { r.versions(cni.Versions(), nil, testResultKeys) },
		"RS2": func(r ruleTest) { r.versions(since("0.3.0"), interfacePlugin, testSandbox) },
		"RS4": func(r ruleTest) { r.each(delegating, testRouteWithoutGateway) },
		"RS5": func(r ruleTest) {
			r.versions(since("0.3.0"), func(s sample) bool { return s.role == chained }, testResultUnchanged)
		},
		"RS6": func(r ruleTest) { r.versions(since("0.3.0"), makes, testAllInterfaces) },
		"RS7": testVersionResult,
		"RS8": testErrorObject,
	}
}

// kind is the JSON type that the specification gives a key.
type kind string

// keysOf are the keys of a result in a version; those of a list's elements as "ips.address".
func keysOf(version string) map[string]kind {
	keys := map[string]kind{
		"cniVersion": "string", "dns": "object", "dns.nameservers": "strings", "dns.domain": "string", "dns.search": "strings", "dns.options": "strings",
	}
	add := func(more map[string]kind) {
		maps.Copy(keys, more)
	}
	if !cni.AtLeast(version, "0.3.0") {
		for _, f := range []string{"ip4", "ip6"} {
			add(map[string]kind{f: "object", f + ".ip": "prefix", f + ".gateway": "address", f + ".routes": "list", f + ".routes.dst": "prefix", f + ".routes.gw": "address"})
		}
		return keys
	}
	add(map[string]kind{
		"interfaces": "list", "interfaces.name": "string", "interfaces.mac": "string", "interfaces.sandbox": "string",
		"ips": "list", "ips.address": "prefix", "ips.gateway": "address", "ips.interface": "uint",
		"routes": "list", "routes.dst": "prefix", "routes.gw": "address", "routes.mtu": "uint", "routes.advmss": "uint", "routes.priority": "uint",
		"routes.table": "uint", "routes.scope": "uint",
	})
	if cni.AtLeast(version, "1.0.0") {
		add(map[string]kind{"interfaces.mtu": "uint", "interfaces.socketPath": "string", "interfaces.pciID": "string"})
	} else {
		add(map[string]kind{"ips.version": "string"})
	}
	return keys
}

func testResultKeys(m *machine, s sample) {
	p := m.attach(s, "spec-one")
	checkKeys(m, keysOf(m.version), "", p.result)
	var top map[string]json.RawMessage
	if err := json.Unmarshal(p.result, &top); err != nil {
		m.Fatal(err)
	}
	if got := string(top["cniVersion"]); got != fmt.Sprintf("%q", m.version) {
		m.Errorf("cniVersion %s in %s", got, p.result)
	}
	if _, there := top["ip"]; there {
		m.Errorf("key ip in %s", p.result)
	}
}

func checkKeys(t testing.TB, keys map[string]kind, path string, raw json.RawMessage) {
	t.Helper()
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	for key, value := range members {
		at := strings.TrimPrefix(path+"."+key, ".")
		k, known := keys[at]
		if !known {
			t.Errorf("%s is no key of this version", at)
			continue
		}
		checkKind(t, keys, at, k, value)
	}
}

func checkKind(t testing.TB, keys map[string]kind, at string, k kind, value json.RawMessage) {
	t.Helper()
	var err error
	switch k {
	case "string", "prefix", "address":
		var text string
		err = json.Unmarshal(value, &text)
		switch {
		case err != nil:
		case k == "prefix":
			_, err = netip.ParsePrefix(text)
		case k == "address":
			_, err = netip.ParseAddr(text)
		}
	case "uint":
		err = json.Unmarshal(value, new(uint))
	case "strings":
		err = json.Unmarshal(value, &[]string{})
	case "object":
		checkKeys(t, keys, at, value)
	case "list":
		var list []json.RawMessage
		err = json.Unmarshal(value, &list)
		for _, element := range list {
			checkKeys(t, keys, at, element)
		}
	}
	if err != nil {
		t.Errorf("%s: %v: %s", at, err, value)
	}
}

func (m *machine) decoded(p *pod) *cni.Result {
	m.Helper()
	r, err := cni.DecodeResult(p.result, m.version)
	if err != nil {
		m.Fatal(err)
	}
	return r
}

func testSandbox(m *machine, s sample) {
	p := m.attach(s, "spec-one")
	for _, dev := range m.decoded(p).Interfaces {
		want := ""
		if dev.Name == p.ifName || dev.Name == "lo" {
			want = p.netns
		}
		if dev.Sandbox != want {
			m.Errorf("interface %s has sandbox %q, want %q", dev.Name, dev.Sandbox, want)
		}
	}
}

func testRouteWithoutGateway(m *machine, s sample) {
	p := m.attach(s, "spec-one")
	if have := m.in(p.ns, "ip route show 192.0.2.0/24"); !strings.Contains(have, "via 10.88.0.1") {
		m.Errorf("the route whose gw is not set: %s", have)
	}
}

func testResultUnchanged(m *machine, s sample) {
	p := m.newPod("spec-one")
	m.makeForeign(p)
	p.base = json.RawMessage(foreign(m.version, p.netns))
	if s.unchanged != "" {
		s.conf = s.unchanged
	}
	m.add(s, p).succeeds(m, "ADD")
	sameJSON(m, "result", p.base, p.result)
}

func testAllInterfaces(m *machine, s sample) {
	before := names(m.in(m.host, "ip -o link"))
	p := m.attach(s, "spec-one")
	var want []string
	for _, name := range names(m.in(m.host, "ip -o link")) {
		if !slices.Contains(before, name) {
			want = append(want, name)
		}
	}
	want = append(want, p.ifName)
	var got []string
	for _, dev := range m.decoded(p).Interfaces {
		got = append(got, dev.Name)
	}
	if diff := compare(want, got); diff != "" {
		m.Errorf("interfaces (-made +listed)\n%s", diff)
	}
}

func names(links string) []string {
	var all []string
	for line := range strings.Lines(links) {
		all = append(all, linkName(line))
	}
	return all
}

func testVersionResult(r ruleTest) {
	for _, v := range cni.Versions() {
		r.programs(nil, func(m *machine, s sample) {
			a := m.start(s.typ, map[string]string{"CNI_COMMAND": "VERSION"}, fmt.Sprintf(`{"cniVersion":%q}`, v)).succeeds(m, "VERSION")
			want := map[string]any{"cniVersion": v, "supportedVersions": toAny(cni.Versions())}
			var got map[string]any
			if err := json.Unmarshal([]byte(a.stdout), &got); err != nil {
				m.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				m.Errorf("VERSION (-want +got)\n%s", diff)
			}
		})
	}
}

func toAny(list []string) []any {
	var all []any
	for _, s := range list {
		all = append(all, s)
	}
	return all
}

func testErrorObject(r ruleTest) {
	r.programs(nil, func(m *machine, s sample) {
		p := m.newPod("spec-one")
		for _, v := range cni.Versions() {
			m.version = v
			env := m.env(cni.VerbAdd, p)
			env["CNI_NETNS"] = "/no/such/namespace"
			a := m.start(s.typ, env, m.conf(s.typ, s.conf))
			a.fails(m, cni.CodeInvalidNetNS, "/no/such/namespace")
			var got map[string]any
			if err := json.Unmarshal([]byte(a.stdout), &got); err != nil {
				m.Fatal(err)
			}
			if got["cniVersion"] != v {
				m.Errorf("cniVersion %v, want %s", got["cniVersion"], v)
			}
			if _, text := got["msg"].(string); !text {
				m.Errorf("msg is no string: %s", a.stdout)
			}
			if d, there := got["details"]; there {
				if _, text := d.(string); !text {
					m.Errorf("details is no string: %s", a.stdout)
				}
			}
		}
	})
}

package spec

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/planned"
)

// codeTests are those of the error codes (specification, section "Error").
func codeTests() map[string]func(ruleTest) {
	return map[string]func(ruleTest){
		"EC2":   testUnsupported,
		"EC3":   testUnknownContainer,
		"EC4":   func(r ruleTest) { r.programs(nil, testVariablesAreNamed) },
		"EC5":   func(r ruleTest) { r.programs(nil, testUnreadable) },
		"EC6":   func(r ruleTest) { r.programs(nil, testNoJSON) },
		"EC7":   func(r ruleTest) { r.each(func(s sample) bool { return s.invalid != "" }, testInvalidConfig) },
		"EC8":   func(r ruleTest) { r.programs(interfacePlugin, testBadNetNS) },
		"EC11":  func(r ruleTest) { r.each(func(s sample) bool { return s.full != "" }, testTryAgain) },
		"EC100": func(r ruleTest) { r.each(func(s sample) bool { return len(s.damage) > 0 }, testDifferent) },
	}
}

// testUnsupported goes through the errors of code 2 that the plugins' golden files have.
func testUnsupported(r ruleTest) {
	files, err := filepath.Glob("../../plugins/*/testdata/*.txtar")
	if err != nil || len(files) == 0 {
		r.Fatalf("no golden files: %v", err)
	}
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			r.Fatal(err)
		}
		var conf, fault string
		for _, f := range archive.Files {
			switch f.Name {
			case "config.json":
				conf = string(f.Data)
			case "want.error":
				fault, _, _ = strings.Cut(string(f.Data), "\n")
			}
		}
		text, unsupported := strings.CutPrefix(fault, "2: ")
		if !unsupported {
			continue
		}
		r.seen.note(caseOf{plugin: filepath.Base(filepath.Dir(filepath.Dir(file)))})
		if !namesField(r, conf, text) {
			r.Errorf("%s: the error does not hold key and value of a field: %s", file, text)
		}
	}
}

// namesField reports whether text holds a key of the configuration and its value as JSON.
func namesField(t testing.TB, conf, text string) bool {
	t.Helper()
	var members map[string]json.RawMessage
	if err := json.Unmarshal([]byte(conf), &members); err != nil {
		t.Fatal(err)
	}
	for key, value := range members {
		var short bytes.Buffer
		if err := json.Compact(&short, value); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(text, key) && strings.Contains(text, short.String()) {
			return true
		}
	}
	return false
}

func testVariablesAreNamed(m *machine, s sample) {
	p := m.newPod("spec-one")
	for name, bad := range map[string]string{"CNI_CONTAINERID": "a/b", "CNI_IFNAME": "a/b", "CNI_ARGS": "no-pair", "CNI_COMMAND": "JUMP"} {
		env := m.env(cni.VerbAdd, p)
		env[name] = bad
		m.start(s.typ, env, m.conf(s.typ, s.conf)).fails(m, cni.CodeInvalidEnvironment, name)
	}
}

// testUnreadable: standard input is a folder, and the store of addresses a file.
func testUnreadable(m *machine, s sample) {
	folder, err := os.Open(m.data)
	if err != nil {
		m.Fatal(err)
	}
	defer folder.Close()
	p := m.newPod("spec-one")
	cmd := exec.Command(program(), s.typ)
	for name, value := range m.env(cni.VerbAdd, p) {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.Stdin = folder
	var stdout strings.Builder
	cmd.Stdout = &stdout
	if err := m.host.Do(cmd.Start); err != nil {
		m.Fatal(err)
	}
	err = cmd.Wait()
	answer{status: cmd.ProcessState.ExitCode(), stdout: stdout.String()}.fails(m, cni.CodeIO)
	if err == nil {
		m.Error("exit status 0")
	}
	if s.full == "" {
		return
	}
	if err := os.WriteFile(filepath.Join(m.data, network), nil, 0o600); err != nil {
		m.Fatal(err)
	}
	m.add(s, p).fails(m, cni.CodeIO, m.data)
	m.gone(p)
}

func testNoJSON(m *machine, s sample) {
	p := m.newPod("spec-one")
	for _, text := range []string{"", "{", "no JSON", `{"cniVersion":"1.1.0",}`, "[]", `"text"`, "{}{}"} {
		for _, verb := range []cni.Verb{cni.VerbAdd, cni.VerbDel, cni.VerbCheck, cni.VerbGC, cni.VerbStatus} {
			m.start(s.typ, m.env(verb, p), text).fails(m, cni.CodeDecode)
		}
	}
}

func testInvalidConfig(m *machine, s sample) {
	p := m.newPod("spec-one")
	m.below(s, p)
	m.call(s.typ, m.env(cni.VerbAdd, p), m.conf(s.typ, s.invalid, prevResult(p.base))).fails(m, cni.CodeInvalidConfig)
	m.call(s.typ, m.env(cni.VerbStatus, p), m.conf(s.typ, s.invalid)).fails(m, cni.CodeInvalidConfig)
	m.delBelow(s, p)
	m.gone(p)
}

func testBadNetNS(m *machine, s sample) {
	p := m.newPod("spec-one")
	file := filepath.Join(m.data, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		m.Fatal(err)
	}
	for _, bad := range []string{"/no/such/namespace", file, m.data, m.host.Path(), "/proc/self/ns/mnt"} {
		for _, verb := range []cni.Verb{cni.VerbAdd, cni.VerbCheck} {
			env := m.env(verb, p)
			env["CNI_NETNS"] = bad
			prev := foreign(m.version, bad)
			m.start(s.typ, env, m.conf(s.typ, s.conf, `"prevResult":`+prev)).fails(m, cni.CodeInvalidNetNS)
		}
		env := m.env(cni.VerbDel, p)
		env["CNI_NETNS"] = bad
		m.start(s.typ, env, m.conf(s.typ, s.conf)).succeeds(m, "DEL with CNI_NETNS="+bad)
	}
	m.gone(p)
}

func testTryAgain(m *machine, s sample) {
	s, _ = m.exhausted(s)
	p := m.newPod("spec-late")
	m.add(s, p).fails(m, cni.CodeTryAgain)
	m.gone(p)
}

func testDifferent(m *machine, s sample) {
	p := m.attach(s, "spec-one")
	m.do(p, s.damage[0].do)
	m.check(s, p).fails(m, planned.CodeDifferent)
}

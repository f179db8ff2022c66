//go:build peers && linux

package peers_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/cni"
)

// recorder is a plugin that notes how it was called and answers what the test says.
const recorder = `#!/bin/sh
{
	echo "== $CNI_COMMAND id=$CNI_CONTAINERID netns=$CNI_NETNS if=$CNI_IFNAME args=$CNI_ARGS"
	cat
	echo
} >>"$RECORDER/calls"
[ ! -e "$RECORDER/$CNI_COMMAND.fail" ] || { cat "$RECORDER/$CNI_COMMAND.fail"; exit 1; }
[ "$CNI_COMMAND" != ADD ] || cat "$RECORDER/result"
`

// run is what a command of cnitool came to.
type run struct {
	Status int
	Stdout string
	Calls  string // what the plugins were called with
}

// tool is a cnitool over the recorder, with folders of its own.
type tool struct {
	t       *testing.T
	program string
	dir     string
}

func newTool(t *testing.T, program string, files map[string]string) *tool {
	t.Helper()
	s := &tool{t, program, t.TempDir()}
	for _, dir := range []string{"net.d", "bin", "record"} {
		if err := os.Mkdir(filepath.Join(s.dir, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(s.dir, "bin", "recorder"), []byte(recorder), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.RemoveAll("/var/lib/cni/results"); err != nil { // the sandbox's own
		t.Fatal(err)
	}
	return s
}

func (s *tool) run(command string, env []string) run {
	s.t.Helper()
	calls := filepath.Join(s.dir, "record", "calls")
	if err := os.WriteFile(calls, nil, 0o644); err != nil {
		s.t.Fatal(err)
	}
	cmd := exec.CommandContext(s.t.Context(), s.program, strings.Fields(command)...)
	cmd.Dir = "/run/netns"
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "NETCONFPATH=" + filepath.Join(s.dir, "net.d"),
		"CNI_PATH=" + filepath.Join(s.dir, "bin"), "RECORDER=" + filepath.Join(s.dir, "record")}, env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	r := run{}
	if err := cmd.Run(); err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			s.t.Fatal(err)
		}
		r.Status = exit.ExitCode()
		s.t.Logf("%s %s: %s", filepath.Base(s.program), command, stderr.String())
	}
	text, err := os.ReadFile(calls)
	if err != nil {
		s.t.Fatal(err)
	}
	r.Stdout, r.Calls = stdout.String(), sameForm(string(text))
	return r
}

// sameForm writes each configuration with its keys in order, in which libraries differ, and without capabilities, which
// the reference hands on against the specification (section 3, "Deriving execution configuration"). The reference writes results
// of plugins anew for prevResult, and then adds an empty dns.
func sameForm(calls string) string {
	var lines []string
	for line := range strings.Lines(calls) {
		var value map[string]any
		if json.Unmarshal([]byte(line), &value) == nil {
			delete(value, "capabilities")
			if prev, ok := value["prevResult"].(map[string]any); ok && len(dnsOf(prev)) == 0 {
				delete(prev, "dns")
			}
			if text, err := json.Marshal(value); err == nil {
				line = string(text) + "\n"
			}
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "")
}

func dnsOf(result map[string]any) map[string]any {
	dns, _ := result["dns"].(map[string]any)
	return dns
}

// cnitoolCase is a network, and commands that both cnitools run.
type cnitoolCase struct {
	name     string
	files    map[string]string
	env      []string
	commands []string
	ours     map[int]string // of commands that are different by design: why
}

const plain = `{"cniVersion":"1.0.0","ips":[{"address":"10.1.2.3/24"}],"routes":[{"dst":"0.0.0.0/0"}]}`

// plainNow is the same in the version that has every verb.
const plainNow = `{"cniVersion":"1.1.0","ips":[{"address":"10.1.2.3/24"}],"routes":[{"dst":"0.0.0.0/0"}]}`

// recorded is a network of two recorders, or one that takes capabilities.
func recorded(version string) string {
	return `{"cniVersion":"` + version + `","name":"rec","plugins":[
	 {"type":"recorder","keep":{"b":1,"a":[12345678901234567,"<&>"]},"capabilities":{"portMappings":true,"mac":false}},
	 {"type":"recorder","second":true,"capabilities":{"ips":true}}]}`
}

func cnitoolCases() []cnitoolCase {
	files := func(version, result string, more ...string) map[string]string {
		m := map[string]string{"net.d/10-rec.conflist": recorded(version), "record/result": result}
		for i := 0; i < len(more); i += 2 {
			m[more[i]] = more[i+1]
		}
		return m
	}
	life := []string{"add rec /run/netns/tool", "check rec /run/netns/tool", "del rec /run/netns/tool", "del rec /run/netns/tool"}
	fail := func(code string) string {
		return `{"cniVersion":"1.1.0","code":` + code + `,"msg":"no","details":"why"}`
	}
	list := []cnitoolCase{
		{name: "arguments", files: files("1.0.0", plain), commands: life, env: []string{"CNI_ARGS=A=1;B=2",
			`CAP_ARGS={"portMappings":[{"hostPort":80,"containerPort":8080}],"ips":["10.0.0.7"],"mac":"02:00:00:00:00:01","x":1}`}},
		{name: "ifname-environment", files: files("1.0.0", plain), commands: life, env: []string{"CNI_IFNAME=net7"}},
		{name: "ifname-flag", files: files("1.0.0", plain), env: []string{"CNI_IFNAME=net7"},
			commands: []string{"-i net1 add rec /run/netns/tool", "add rec /run/netns/tool --ifname net2", "add rec /run/netns/tool --ifname=", "del -i net1 rec /run/netns/tool"}},
		{name: "relative-path", files: files("1.0.0", plain), commands: []string{"add rec tool", "del rec ./tool", "del rec ../netns/tool"}},
		{name: "wrong", files: files("1.0.0", plain, "net.d/20-none.conflist", `{"cniVersion":"1.0.0","name":"none","plugins":[{"type":"none"}]}`),
			commands: []string{"", "help", "jump", "add", "add rec", "add unknown tool", "check unknown tool", "del unknown tool", "status unknown tool", "gc unknown tool",
				"add none tool", "add rec tool --nope", "add rec tool -i 1234567890123456"}},
		{name: "check-of-nothing", files: files("1.0.0", plain), commands: []string{"check rec tool"},
			ours: map[int]string{0: "the reference calls the plugins without prevResult"}},
		{name: "answers-in-another-version", files: files("1.1.0", plain), commands: []string{"add rec tool"},
			ours: map[int]string{0: "the reference hands on the version that the plugin answered in"}},
		{name: "bad-capabilities", files: files("1.0.0", plain), commands: life[:1], env: []string{"CAP_ARGS={"}},
		{name: "no-object-for-capabilities", files: files("1.0.0", plain), commands: life[:1], env: []string{"CAP_ARGS=[]"}},
		{name: "args-without-value", files: files("1.0.0", plain), commands: life[:1], env: []string{"CNI_ARGS=A="}},
		{name: "args-without-pair", files: files("1.0.0", plain), commands: life[:1], env: []string{"CNI_ARGS=A"}},
		{name: "args-end", files: files("1.0.0", plain), commands: life[:1], env: []string{"CNI_ARGS=A=1;"}},
		{name: "add-fails", files: files("1.1.0", plainNow, "record/ADD.fail", fail("11")), commands: []string{"add rec tool"}, ours: map[int]string{0: "the failed ADD is undone"}},
		{name: "del-fails", files: files("1.1.0", plainNow, "record/DEL.fail", fail("5")), commands: []string{"add rec tool", "del rec tool", "del rec tool"}},
		{name: "check-fails", files: files("1.1.0", plainNow, "record/CHECK.fail", fail("100")), commands: []string{"add rec tool", "check rec tool", "del rec tool"}},
		{name: "status-fails", files: files("1.1.0", plainNow, "record/STATUS.fail", fail("51")), commands: []string{"status rec tool"}},
		{name: "no-result", files: files("1.0.0", "hello"), commands: []string{"add rec tool"}, ours: map[int]string{0: "the failed ADD is undone"}},
		{name: "status-before-it-came", files: files("1.0.0", plain, "record/STATUS.fail", fail("50")), commands: []string{"status rec tool"}},
		{name: "extra-argument", files: files("1.0.0", plain), commands: []string{"add rec tool extra"}, ours: map[int]string{0: "further arguments are refused"}},
		{name: "no-netns", files: files("1.1.0", plainNow), commands: []string{"status rec", "gc rec"}, ours: map[int]string{0: "NETNS is not needed", 1: "NETNS is not needed"}},
		{name: "gc-keeps-what-lives", files: files("1.1.0", plainNow), commands: []string{"add rec tool", "gc rec tool", "check rec tool"}, ours: map[int]string{1: "the reference deletes everything", 2: "so it has nothing to check"}},
		{name: "single-plugin", files: map[string]string{"net.d/10-one.conf": `{"cniVersion":"1.0.0","name":"one","type":"recorder"}`, "record/result": plain},
			commands: []string{"add one tool", "check one tool", "del one tool"}},
		{name: "rich-result", files: files("1.1.0", `{"cniVersion":"1.1.0","interfaces":[{"name":"eth0","mac":"0a:00:00:00:00:01","mtu":1400,"sandbox":"/run/netns/tool","socketPath":"/s","pciID":"p"}],`+
			`"ips":[{"interface":0,"address":"10.1.2.3/24","gateway":"10.1.2.1"},{"address":"fd00::2/64"}],"routes":[{"dst":"10.0.0.0/8","gw":"10.1.2.1","mtu":1300,"advmss":1200,"priority":5,"table":7,"scope":253},{"dst":"::/0"}],`+
			`"dns":{"nameservers":["1.1.1.1"],"domain":"d","search":["s"],"options":["o"]}}`), commands: life},
	}
	for _, v := range cni.Versions() {
		result := `{"cniVersion":"` + v + `","interfaces":[{"name":"eth0","sandbox":"/run/netns/tool"}],"ips":[{"version":"4","interface":0,"address":"10.1.2.3/24","gateway":"10.1.2.1"}],"routes":[{"dst":"0.0.0.0/0"}]}`
		if cni.AtLeast(v, "1.0.0") {
			result = strings.Replace(result, `"version":"4",`, "", 1)
		}
		if !cni.AtLeast(v, "0.3.0") {
			result = `{"cniVersion":"` + v + `","ip4":{"ip":"10.1.2.3/24","gateway":"10.1.2.1","routes":[{"dst":"0.0.0.0/0"}]}}`
		}
		list = append(list,
			cnitoolCase{name: "version-" + v, files: files(v, result), commands: append(slices.Clone(life), "status rec tool")},
			cnitoolCase{name: "no-version-in-result-" + v, files: files(v, strings.Replace(result, `"cniVersion":"`+v+`",`, "", 1)), commands: life[:1]})
	}
	return list
}

// TestCnitoolLikeTheReference: cleat called as cnitool calls the plugins as the reference does, prints what it prints and ends as it ends.
func TestCnitoolLikeTheReference(t *testing.T) {
	p := build(t)
	namespace(t, "tool")
	ours := filepath.Join(t.TempDir(), "cnitool")
	if err := os.Symlink(p.cleat, ours); err != nil {
		t.Fatal(err)
	}
	for _, tc := range cnitoolCases() {
		t.Run(tc.name, func(t *testing.T) {
			var got, want []run
			for _, program := range []string{p.cnitool, ours} {
				s := newTool(t, program, tc.files)
				var runs []run
				for _, command := range tc.commands {
					runs = append(runs, s.run(command, tc.env))
				}
				if program == ours {
					got = runs
				} else {
					want = runs
				}
			}
			for i, command := range tc.commands {
				if why, differs := tc.ours[i]; differs {
					if got[i] == want[i] {
						t.Errorf("%s: no difference, though %s", command, why)
					}
					continue
				}
				if want[i].Stdout != "" && !strings.HasPrefix(want[i].Stdout, "{") {
					want[i].Stdout, got[i].Stdout = "", "" // help, in words of its own
				}
				if diff := cmp.Diff(want[i], got[i]); diff != "" {
					t.Errorf("%s (-reference +ours):\n%s", command, diff)
				}
			}
		})
	}
}

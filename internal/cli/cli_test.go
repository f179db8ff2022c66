package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/builtin"
	"github.com/cleat-cni/cleat/internal/kernel/kerneltest"
	"github.com/cleat-cni/cleat/libcni"
	"github.com/cleat-cni/cleat/netstate"
	"github.com/cleat-cni/cleat/planned"
	"github.com/cleat-cni/cleat/plugin"
)

var update = flag.Bool("update", false, "rewrite golden files")

// pair is a plugin that makes a veth pair.
func pair() planned.Definition {
	return planned.Define(planned.Spec[struct{}]{
		Info:  plugin.Info{Type: "pair"},
		Parse: func(*plugin.Request) (struct{}, error) { return struct{}{}, nil },
		Profile: planned.Profile{Makes: "veth", Conf: struct {
			MTU int `json:"mtu" schema:"min=0"`
		}{}},
		Plan: func(_ struct{}, in planned.Input, _ netstate.Facts) (planned.Plan, error) {
			host := in.Owner().HostName("veth")
			return planned.Plan{
				State: netstate.State{Links: []netstate.Link{
					{Place: netstate.Host, Name: host, Kind: "veth", Peer: in.IfName, PeerPlace: netstate.Pod},
					{Place: netstate.Pod, Name: in.IfName, Kind: "veth", MAC: "0a:00:00:00:00:01", Peer: host, PeerPlace: netstate.Host},
				}},
				Result: &cni.Result{Interfaces: []cni.Interface{{Name: in.IfName, MAC: "0a:00:00:00:00:01", Sandbox: in.NetNS}}},
			}, nil
		},
	})
}

// stage is a command line over a kernel in memory.
type stage struct {
	t      *testing.T
	dir    string
	kernel *kerneltest.Memory
	env    map[string]string
	tool   bool // as cnitool
	euid   int
}

func newStage(t *testing.T, files map[string]string) *stage {
	s := &stage{t: t, dir: t.TempDir(), kernel: kerneltest.NewMemory(kerneltest.Config{}), env: map[string]string{}}
	for name, text := range files {
		path := filepath.Join(s.dir, "net.d", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// run runs a command and returns its exit status and output.
func (s *stage) run(ctx context.Context, args ...string) (status int, stdout, stderr string) {
	s.t.Helper()
	var out, errs bytes.Buffer
	env := map[string]string{"NETCONFPATH": filepath.Join(s.dir, "net.d"), "CNI_PATH": filepath.Join(s.dir, "plugins")}
	maps.Copy(env, s.env)
	status = Main(ctx, Config{
		Args:   append(args, "--state-dir", filepath.Join(s.dir, "state")),
		Env:    func(name string) string { return env[name] },
		Stdout: &out, Stderr: &errs, Version: "v1.2.3", Cnitool: s.tool,
		Root: filepath.Join(s.dir, "root"), EUID: s.euid,
		NetNSDir: filepath.Join(s.dir, "netns"), LockDir: filepath.Join(s.dir, "lock"),
		Now:       func() time.Time { return time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC) },
		NewRunner: s.newRunner,
	})
	return status, out.String(), errs.String()
}

func (s *stage) newRunner(o RunnerOptions) (*builtin.Runner, error) {
	return builtin.New(builtin.Config{
		Plugins: []planned.Definition{pair()}, Kernel: s.kernel, Mode: o.Mode,
		Programs: libcni.NewExecRunner(nil, o.Stderr), Log: o.Log,
	}), nil
}

// mustRun runs a command that is to succeed.
func (s *stage) mustRun(args ...string) string {
	s.t.Helper()
	status, out, errs := s.run(s.t.Context(), args...)
	if status != 0 {
		s.t.Fatalf("%v: status %d\n%s%s", args, status, out, errs)
	}
	return out
}

// program puts a program into the folder of plugins.
func (s *stage) program(name, text string) {
	s.t.Helper()
	path := filepath.Join(s.dir, "plugins", name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		s.t.Fatal(err)
	}
}

const pairNet = `{"cniVersion": "1.1.0", "name": "mynet", "plugins": [{"type": "pair"}]}`

// TestHelp keeps the help of each command as it was agreed on. -update rewrites the files.
func TestHelp(t *testing.T) {
	s := newStage(t, nil)
	s.env["NETCONFPATH"], s.env["CNI_PATH"] = "", ""
	for _, command := range []string{"", "add", "check", "del", "demo", "doctor", "gc", "install", "lint", "ls", "networks", "plan", "repair", "schema", "show", "status", "version"} {
		name := command
		if name == "" {
			name = "cleat"
		}
		t.Run(name, func(t *testing.T) {
			args := []string{"--help"}
			if command != "" {
				args = []string{command, "--help"}
			}
			status, got, stderr := s.run(t.Context(), args...)
			if status != 0 || stderr != "" {
				t.Fatalf("status %d, stderr %q", status, stderr)
			}
			if !strings.Contains(got, "Examples:\n") {
				t.Error("no example")
			}
			golden := filepath.Join("testdata", "help", name+".txt")
			if *update {
				if err := os.MkdirAll(filepath.Dir(golden), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// TestFlagsMeanTheSame holds all commands to the premise of commandFirst.
func TestFlagsMeanTheSame(t *testing.T) {
	root := (&app{cfg: Config{Env: func(string) string { return "" }}}).root()
	kinds := map[string]bool{}
	check := func(f *pflag.Flag) {
		takesValue := f.NoOptDefVal == ""
		for _, name := range []string{f.Name, f.Shorthand} {
			if was, ok := kinds[name]; ok && was != takesValue && name != "" {
				t.Errorf("flag %s takes a value in one command and none in another", name)
			}
			kinds[name] = takesValue
		}
	}
	root.PersistentFlags().VisitAll(check)
	for _, c := range root.Commands() {
		c.Flags().VisitAll(check)
	}
}

func TestCommandFirst(t *testing.T) {
	root := (&app{cfg: Config{Env: func(string) string { return "" }}}).root()
	for _, tc := range []struct{ name, in, want string }{
		{"already", "add n ns --id x", "add n ns --id x"},
		{"global-before", "-o json add n ns", "add -o json n ns"},
		{"attached-value", "-ojson --timeout=3s add n", "add -ojson --timeout=3s n"},
		{"bool-before", "--all --dry-run del n", "del --all --dry-run n"},
		{"command-flag-before", "--id x -i net1 add n ns", "add --id x -i net1 n ns"},
		{"shorthands-joined", "-vo json ls", "ls -vo json"},
		{"no-command", "-v", "-v"},
		{"end-of-flags", "-- add", "-- add"},
		{"value-looks-like-command", "--id add del n ns", "del --id add n ns"},
		{"value-missing", "--id", "--id"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := strings.Join(commandFirst(root, strings.Fields(tc.in)), " ")
			if got != tc.want {
				t.Errorf("commandFirst(%q) = %q, want %q", tc.in, got, tc.want)
			}
		})
	}
}

func FuzzCommandFirst(f *testing.F) {
	for _, s := range []string{"-o json add n", "-vo=json ls", "-- x", "-", "--", "-oo x", "--id= y"} {
		f.Add(s)
	}
	root := (&app{cfg: Config{Env: func(string) string { return "" }}}).root()
	f.Fuzz(func(t *testing.T, s string) {
		args := strings.Fields(s)
		got := commandFirst(root, args)
		count := map[string]int{}
		for _, a := range args {
			count[a]++
		}
		for _, a := range got {
			count[a]--
		}
		for a, n := range count {
			if n != 0 {
				t.Fatalf("%q: argument %q lost or doubled in %q", args, a, got)
			}
		}
	})
}

func TestLife(t *testing.T) {
	s := newStage(t, map[string]string{"10-mynet.conflist": pairNet})
	ns := s.kernel.NewPod()
	before := s.kernel.Dump()
	if status, out, errs := s.run(t.Context(), "plan", "mynet", ns); status != 0 || !strings.Contains(out, "# pair: built in\n") {
		t.Fatalf("plan: status %d\n%s%s", status, out, errs)
	}
	if diff := cmp.Diff(before, s.kernel.Dump()); diff != "" {
		t.Errorf("plan changed something (-before +after)\n%s", diff)
	}
	status, out, errs := s.run(t.Context(), "-o", "json", "add", "mynet", ns, "--id", "c1")
	if status != 0 || errs != "" {
		t.Fatalf("add: status %d\n%s", status, errs)
	}
	var result struct {
		CNIVersion string
		Interfaces []struct{ Name string }
	}
	if err := json.Unmarshal([]byte(out), &result); err != nil || result.CNIVersion != "1.1.0" || result.Interfaces[0].Name != "eth0" {
		t.Errorf("result %s (%v)", out, err)
	}
	if status, out, errs := s.run(t.Context(), "check", "mynet", ns, "--id", "c1"); status != 0 || out != "" {
		t.Errorf("check: status %d\n%s%s", status, out, errs)
	}
	if status, out, errs := s.run(t.Context(), "show", "c1"); status != 0 || !strings.Contains(out, "MAC        0a:00:00:00:00:01\n") {
		t.Errorf("show: status %d\n%s%s", status, out, errs)
	}
	if status, out, errs := s.run(t.Context(), "del", "--id", "c1", "--dry-run"); status != 0 || !strings.Contains(out, "# mynet/c1/eth0\nhost link veth") {
		t.Errorf("del --dry-run: status %d\n%s%s", status, out, errs)
	}
	for range 2 {
		if status, out, errs := s.run(t.Context(), "del", "--id", "c1"); status != 0 || out+errs != "" {
			t.Errorf("del: status %d\n%s%s", status, out, errs)
		}
	}
	if diff := cmp.Diff(before, s.kernel.Dump()); diff != "" {
		t.Errorf("left after del (-before +after)\n%s", diff)
	}
	if _, out, _ := s.run(t.Context(), "ls"); out != "nothing is attached\n" {
		t.Errorf("ls after del:\n%s", out)
	}
}

// TestDelUnreadableRecord: a record that names nothing is not taken for nothing attached.
func TestDelUnreadableRecord(t *testing.T) {
	s := newStage(t, map[string]string{"10-mynet.conflist": pairNet})
	ns := s.kernel.NewPod()
	before := s.kernel.Dump()
	if status, _, errs := s.run(t.Context(), "add", "mynet", ns, "--id", "c1"); status != 0 {
		t.Fatalf("add: status %d\n%s", status, errs)
	}
	record := filepath.Join(s.dir, "state", "results", "mynet-c1-eth0")
	if err := os.WriteFile(record, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"del", "--id", "c1"}, {"del", "mynet", "--id", "c1"}, {"del", "--all", "mynet"}, {"del", "--all", "mynet", "--dry-run"},
	} {
		status, _, errs := s.run(t.Context(), args...)
		if status != 1 || !strings.Contains(errs, record) || !strings.Contains(errs, "hint: cleat del NETWORK NETNS --id ID") {
			t.Errorf("%v: status %d\n%s", args, status, errs)
		}
	}
	for _, args := range [][]string{{"del", "--id", "c2"}, {"del", "--id", "1"}, {"del", "mynet", ns, "--id", "c1"}, {"del", "--id", "c1"}} {
		if status, _, errs := s.run(t.Context(), args...); status != 0 {
			t.Errorf("%v: status %d\n%s", args, status, errs)
		}
	}
	if diff := cmp.Diff(before, s.kernel.Dump()); diff != "" {
		t.Errorf("left after del (-before +after)\n%s", diff)
	}
}

func TestExitStatus(t *testing.T) {
	files := map[string]string{"10-mynet.conflist": pairNet, "20-bad.conflist": "{\n  \"name\": 7,\n}"}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tc := range []struct {
		name   string
		args   string
		ctx    context.Context
		status int
		stderr string // a part; "" is nothing at all
	}{
		{"done", "version", nil, 0, ""},
		{"unknown-command", "ad", nil, 2, "hint: did you mean add?\n"},
		{"unknown-flag", "add --nope n ns", nil, 2, "unknown flag: --nope\n"},
		{"missing-argument", "add mynet", nil, 2, "cleat: NETNS is missing\nhint: usage: cleat add NETWORK NETNS [flags]\n"},
		{"extra-argument", "ls x", nil, 2, `unexpected argument "x"`},
		{"bad-output", "ls -o xml", nil, 2, `"xml" is not json, yaml, table or wide`},
		{"exclusive", "ls --builtin --exec-only", nil, 2, "exclude each other"},
		{"negative-timeout", "ls --timeout -1s", nil, 2, "negative"},
		{"bad-publish", "add mynet ns --publish 80", nil, 2, "8080:80"},
		{"bad-mac", "add mynet ns --mac 01:00:00:00:00:00", nil, 2, "group address"},
		{"bad-ip", "add mynet ns --ip 10.0.0.300", nil, 2, "not an IP address"},
		{"bad-arg", "add mynet ns --arg K", nil, 2, "not KEY=VALUE"},
		{"unknown-network", "add mynte ns", nil, 1, "20-bad.conflist:2:"},
		{"unserved-publish", "add mynet ns --publish 80:80", nil, 1, `hint: add {"type": "portmap", "capabilities": {"portMappings": true}}`},
		{"unserved-ip", "add mynet ns --ip 10.0.0.1", nil, 1, "does not serve --ip"},
		{"no-namespace", "add mynet /none", nil, 1, "does not exist"},
		{"no-attachment", "show x", nil, 1, "container x is not attached to anything"},
		{"del-nothing", "del --id x", nil, 0, ""},
		{"del-all-nothing", "del --all mynet", nil, 0, ""},
		{"del-all-unknown", "del --all myne", nil, 1, "hint: did you mean mynet?"},
		{"del-all-and-id", "del --all mynet --id x", nil, 2, "exclude each other"},
		{"interrupted", "add mynet /none", done, 130, "interrupted"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ctx := tc.ctx
			if ctx == nil {
				ctx = t.Context()
			}
			status, _, stderr := newStage(t, files).run(ctx, strings.Fields(tc.args)...)
			if status != tc.status || !strings.Contains(stderr, tc.stderr) || tc.stderr == "" && stderr != "" {
				t.Errorf("status %d, want %d; stderr, want %q:\n%s", status, tc.status, tc.stderr, stderr)
			}
		})
	}
}

// TestFailureAsJSON proves that a program finds all keys, and nothing on standard error.
func TestFailureAsJSON(t *testing.T) {
	s := newStage(t, map[string]string{"10-mynet.conflist": pairNet})
	for _, tc := range []struct {
		name, args string
		want       failure
	}{
		{"usage", "-o json add mynet", failure{Code: 4, Msg: "NETNS is missing", Hint: "usage: cleat add NETWORK NETNS [flags]"}},
		{"usage-before-parsing", "add --nope -o json", failure{Code: 4, Msg: "unknown flag: --nope", Hint: "see cleat add --help"}},
		{"plugin", "add mynet /none --id c1 --output=json", failure{
			Code: 8, Msg: "add c1/eth0 in network mynet: CNI_NETNS: open namespace /none: does not exist", Plugin: "pair", Verb: "ADD", Step: "open",
			Hint: "the runtime makes the namespace before ADD; ip netns list shows the named ones",
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, out, errs := s.run(t.Context(), strings.Fields(tc.args)...)
			if errs != "" {
				t.Errorf("stderr: %s", errs)
			}
			dec := json.NewDecoder(strings.NewReader(out))
			dec.DisallowUnknownFields()
			var got failure
			if err := dec.Decode(&got); err != nil {
				t.Fatalf("%v in %s", err, out)
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(failure{})); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			for _, key := range []string{"code", "msg", "details", "plugin", "verb", "step", "hint"} {
				if !strings.Contains(out, `"`+key+`":`) {
					t.Errorf("no %s in %s", key, out)
				}
			}
		})
	}
}

// TestCheckFindings proves the exit status and both forms of what check found.
func TestCheckFindings(t *testing.T) {
	s := newStage(t, map[string]string{"10-mynet.conflist": pairNet})
	ns := s.kernel.NewPod()
	if status, _, errs := s.run(t.Context(), "add", "mynet", ns, "--id", "c1"); status != 0 {
		t.Fatal(errs)
	}
	// Another pod under the same path's name: nothing of the attachment is in it.
	other := s.kernel.NewPod()
	status, out, errs := s.run(t.Context(), "check", "mynet", other, "--id", "c1")
	if status != 3 || errs != "" || !strings.Contains(out, "missing:    pod  link eth0") {
		t.Errorf("status %d\n%s%s", status, out, errs)
	}
	status, out, errs = s.run(t.Context(), "check", "mynet", other, "--id", "c1", "-o", "json")
	var list []struct{ Object, Want, Have string }
	if err := json.Unmarshal([]byte(out), &list); err != nil || status != 3 || errs != "" || len(list) == 0 {
		t.Errorf("status %d, %v\n%s%s", status, err, out, errs)
	}
}

func TestNetworks(t *testing.T) {
	s := newStage(t, map[string]string{
		"10-mynet.conflist": pairNet,
		"20-bad.conflist":   "{\n  \"cniVersion\": \"1.0.0\",\n}",
		"30-other.conflist": `{"cniVersion":"1.0.0","name":"other","plugins":[{"type":"nowhere"}]}`,
		"40-twice.conflist": pairNet,
	})
	status, out, errs := s.run(t.Context(), "networks", "-o", "json")
	if status != 0 {
		t.Fatal(errs)
	}
	var views []networkView
	if err := json.Unmarshal([]byte(out), &views); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, v := range views {
		line := v.Name + " " + filepath.Base(v.File)
		if v.Default {
			line += " default"
		}
		if v.Ignored != "" {
			line += " ignored"
		}
		got = append(got, line)
	}
	want := []string{
		"mynet 10-mynet.conflist default", "other 30-other.conflist",
		" 20-bad.conflist ignored", " 40-twice.conflist ignored",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if !strings.Contains(views[2].Ignored, "20-bad.conflist:2:24: trailing comma") {
		t.Errorf("no place in %q", views[2].Ignored)
	}
	_, out, _ = s.run(t.Context(), "networks")
	for _, part := range []string{"default: its file's name sorts first", "pair: built in", "nowhere: MISSING: find plugin", "Not used:\n  " + s.dir} {
		if !strings.Contains(out, part) {
			t.Errorf("no %q in\n%s", part, out)
		}
	}
}

func TestCompletion(t *testing.T) {
	s := newStage(t, map[string]string{"10-mynet.conflist": pairNet})
	if err := os.MkdirAll(filepath.Join(s.dir, "netns", "web"), 0o755); err != nil {
		t.Fatal(err)
	}
	s.mustRun("add", "mynet", s.kernel.NewPod(), "--id", "c1")
	for _, tc := range []struct{ name, args, want string }{
		{"network", "__complete add ", "mynet\n"},
		{"namespace", "__complete add mynet ", "web\n"},
		{"command", "__complete de", "del\tDetach from a network\ndemo\t"},
		{"format", "__complete ls -o ", "json\nyaml\ntable\nwide\n"},
		{"plugin", "__complete version ", "pair\n"},
		{"schema", "__complete schema ", "pair\n"},
		{"check", "__complete doctor ", "kernel-release\n"},
		{"rule", "__complete lint --why ", "L001\tsyntax\n"},
		{"id-flag", "__complete del --id ", "c1\n"},
		{"id", "__complete show ", "c1\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			args := strings.Split(tc.args, " ")
			args = slices.Insert(args, 1, "--state-dir", filepath.Join(s.dir, "state"))
			if _, out, errs := s.complete(args...); !strings.HasPrefix(out, tc.want) {
				t.Errorf("got %q, want it to begin with %q\n%s", out, tc.want, errs)
			}
		})
	}
}

// complete is run without flags of its own after args, since the last argument is the one completed.
func (s *stage) complete(args ...string) (status int, stdout, stderr string) {
	var out, errs bytes.Buffer
	status = Main(s.t.Context(), Config{
		Args: args, Env: func(name string) string { return map[string]string{"NETCONFPATH": filepath.Join(s.dir, "net.d")}[name] },
		Stdout: &out, Stderr: &errs, NetNSDir: filepath.Join(s.dir, "netns"), NewRunner: s.newRunner,
	})
	return status, out.String(), errs.String()
}

// TestRequest proves which way each wish takes.
func TestRequest(t *testing.T) {
	list := func(text string) *libcni.NetworkConfigList {
		l, err := libcni.ConfListFromBytes([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	capable := list(`{"cniVersion":"1.0.0","name":"n","plugins":[{"type":"a","ipam":{"type":"host-local"},
		"capabilities":{"ips":true,"mac":true,"portMappings":true,"bandwidth":true}}]}`)
	plain := list(`{"cniVersion":"1.0.0","name":"n","plugins":[{"type":"a","ipam":{"type":"host-local"}}]}`)
	for _, tc := range []struct {
		name string
		list *libcni.NetworkConfigList
		r    request
		env  map[string]string
		args string // CNI_ARGS
		caps string
	}{
		{name: "nothing", list: plain, caps: `{}`},
		{name: "by-capability", list: capable, r: request{ips: []string{"10.0.0.5", "fd00::5/64"}, mac: "0A:00:00:00:00:05"},
			caps: `{"ips":["10.0.0.5","fd00::5/64"],"mac":"0a:00:00:00:00:05"}`},
		{name: "by-argument", list: plain, r: request{ips: []string{"10.0.0.5"}, mac: "0a:00:00:00:00:05"},
			args: "MAC=0a:00:00:00:00:05;IgnoreUnknown=1;IP=10.0.0.5", caps: `{}`},
		{name: "ports-and-rates", list: capable, r: request{publish: []string{"8080:80"}, ingress: "10M"},
			caps: `{"bandwidth":{"ingressRate":10000000,"ingressBurst":1000000},"portMappings":[{"hostPort":8080,"containerPort":80,"protocol":"tcp"}]}`},
		{name: "environment", list: capable, env: map[string]string{"CNI_ARGS": "A=1;B=2", "CAP_ARGS": `{"mac":"x","other":[1]}`},
			r: request{args: []string{"A=3"}}, args: "B=2;A=3", caps: `{"mac":"x","other":[1]}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := &app{cfg: Config{Env: func(name string) string { return tc.env[name] }}}
			p, err := a.parse(tc.r)
			if err != nil {
				t.Fatal(err)
			}
			var rt libcni.RuntimeConf
			if err := p.apply(tc.list, &rt); err != nil {
				t.Fatal(err)
			}
			caps, err := json.Marshal(rt.CapabilityArgs)
			if err != nil {
				t.Fatal(err)
			}
			if got := rt.Args.String(); got != tc.args {
				t.Errorf("args %q, want %q", got, tc.args)
			}
			if string(caps) != tc.caps {
				t.Errorf("capabilities %s, want %s", caps, tc.caps)
			}
		})
	}
}

// TestContainerID holds the derived ID to the reference cnitool's.
func TestContainerID(t *testing.T) {
	var d target
	if got, want := d.containerID("/var/run/netns/testing"), "cnitool-77383ca0a0715733ca6f"; got != want {
		t.Errorf("containerID = %s, want %s", got, want)
	}
}

func TestParseTraffic(t *testing.T) {
	const text = "Inter-|   Receive\n face |bytes\n    lo: 1 2 3 4 5 6 7 8 9 10\n  eth0:  1500 2 3 4 5 6 7 8   42 10 11\n"
	for _, tc := range []struct {
		name, ifName string
		rx, tx       uint64
		ok           bool
	}{
		{"there", "eth0", 1500, 42, true},
		{"missing", "eth1", 0, 0, false},
		{"heading", "face |bytes", 0, 0, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if rx, tx, ok := parseTraffic(text, tc.ifName); rx != tc.rx || tx != tc.tx || ok != tc.ok {
				t.Errorf("parseTraffic = %d, %d, %v", rx, tx, ok)
			}
		})
	}
}

func TestBytesText(t *testing.T) {
	for n, want := range map[uint64]string{0: "0 B", 1023: "1023 B", 1536: "1.5 KiB", 5 << 30: "5.0 GiB"} {
		if got := bytesText(&n); got != want {
			t.Errorf("bytesText(%d) = %q, want %q", n, got, want)
		}
	}
}

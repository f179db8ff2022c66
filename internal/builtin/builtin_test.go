package builtin_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/builtin"
	"github.com/cleat-cni/cleat/internal/kernel/kerneltest"
	"github.com/cleat-cni/cleat/libcni"
	"github.com/cleat-cni/cleat/netstate"
	"github.com/cleat-cni/cleat/planned"
	"github.com/cleat-cni/cleat/plugin"
)

// wire makes a veth pair with the address that its configuration names. It panics if told to.
func wire() planned.Definition {
	type config struct{ Address netip.Prefix }
	return planned.Define(planned.Spec[config]{
		Info: plugin.Info{Type: "wire"},
		Parse: func(req *plugin.Request) (c config, err error) {
			if _, bad := req.Conf.Raw.Get("panic"); bad {
				panic("as asked")
			}
			_, err = req.Conf.Raw.Decode("address", &c.Address)
			return c, err
		},
		IPAM: func(config) planned.IPAMUse { return planned.OptionalIPAM },
		Plan: func(c config, in planned.Input, _ netstate.Facts) (planned.Plan, error) {
			host := in.Owner().HostName("veth")
			p := planned.Plan{
				State: netstate.State{Links: []netstate.Link{
					{Place: netstate.Host, Name: host, Kind: "veth", Peer: in.IfName, PeerPlace: netstate.Pod},
					{Place: netstate.Pod, Name: in.IfName, Kind: "veth", Peer: host, PeerPlace: netstate.Host},
				}},
				Result: &cni.Result{Interfaces: []cni.Interface{{Name: in.IfName, Sandbox: in.NetNS}}},
			}
			addrs := []netip.Prefix{c.Address}
			if in.IPAM != nil {
				addrs = nil
				for _, ip := range in.IPAM.IPs {
					addrs = append(addrs, ip.Address)
				}
			}
			for _, a := range addrs {
				p.State.Addrs = append(p.State.Addrs, netstate.Addr{Place: netstate.Pod, Dev: in.IfName, Prefix: a})
				p.Result.IPs = append(p.Result.IPs, cni.IP{Interface: cni.Some(0), Address: a})
			}
			return p, nil
		},
	})
}

// route is a chained plugin: a route through the first address's interface.
func route() planned.Definition {
	return planned.Define(planned.Spec[struct{}]{
		Info:    plugin.Info{Type: "route"},
		Chained: true,
		Parse:   func(*plugin.Request) (struct{}, error) { return struct{}{}, nil },
		Plan: func(_ struct{}, in planned.Input, _ netstate.Facts) (planned.Plan, error) {
			return planned.Plan{State: netstate.State{Routes: []netstate.Route{
				{Place: netstate.Pod, Dst: netip.MustParsePrefix("10.9.0.0/16"), Dev: in.IfName},
			}}}, nil
		},
	})
}

// programs is a runner of programs that notes the calls and answers ADD with an address.
type programs struct {
	calls []string
	last  libcni.Call
}

func (p *programs) Find(typ string, dirs []string) (string, error) {
	return "", errors.New("not used: the runner looks itself")
}

func (p *programs) Run(_ context.Context, calls []libcni.Call) ([][]byte, error) {
	out := make([][]byte, len(calls))
	for i, c := range calls {
		note := string(c.Verb) + " " + c.Type
		if c.Prev != nil {
			note += " prev"
		}
		p.calls, p.last = append(p.calls, note), c
		out[i] = []byte(`{"cniVersion":"1.1.0","ips":[{"address":"10.1.0.9/24"}]}`)
	}
	return out, nil
}

type world struct {
	*builtin.Runner
	kernel   *kerneltest.Memory
	programs *programs
}

func newWorld(mode builtin.Mode, build *debug.BuildInfo) world {
	w := world{kernel: kerneltest.NewMemory(kerneltest.Config{}), programs: &programs{}}
	w.Runner = builtin.New(builtin.Config{
		Plugins: []planned.Definition{wire(), route()}, Kernel: w.kernel, Programs: w.programs,
		Mode: mode, Build: build, Env: os.Environ(),
	})
	return w
}

func call(t *testing.T, verb cni.Verb, ns, typ, conf string, dirs ...string) libcni.Call {
	t.Helper()
	o, err := cni.ParseObject([]byte(conf))
	if err != nil {
		t.Fatal(err)
	}
	o.Set("cniVersion", json.RawMessage(`"1.1.0"`))
	o.Set("name", json.RawMessage(`"n"`))
	o.Set("type", json.RawMessage(`"`+typ+`"`))
	return libcni.Call{Verb: verb, Type: typ, ContainerID: "c1", NetNS: ns, IfName: "eth0", Dirs: dirs, Conf: o}
}

// program puts an executable file into a new folder and returns the folder.
func program(t *testing.T, name, text string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestListInProcess(t *testing.T) {
	w := newWorld(builtin.Auto, nil)
	ns := w.kernel.NewPod()
	before := w.kernel.Dump()
	list := func(verb cni.Verb) []libcni.Call {
		return []libcni.Call{
			call(t, verb, ns, "wire", `{"address":"10.1.0.2/24"}`), call(t, verb, ns, "route", `{}`),
		}
	}
	plans, err := w.Plan(t.Context(), list(cni.VerbAdd))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, w.kernel.Dump()); diff != "" {
		t.Errorf("a plan changed something (-before +after)\n%s", diff)
	}
	if got := plans[1].Plan.State.String(); !strings.Contains(got, "route 10.9.0.0/16 dev eth0") {
		t.Errorf("plan of the second plugin:\n%s", got)
	}

	out, err := w.Run(t.Context(), list(cni.VerbAdd))
	if err != nil {
		t.Fatal(err)
	}
	if len(out) != 2 {
		t.Fatalf("%d results of 2 calls", len(out))
	}
	res, err := cni.DecodeResult(out[1], "1.1.0")
	if err != nil {
		t.Fatal(err)
	}
	if got := res.IPs[0].Address.String(); got != "10.1.0.2/24" || res.CNIVersion != "1.1.0" {
		t.Errorf("result of the last: %s", out[1])
	}
	owned, err := w.Owned(t.Context(), "n")
	if err != nil || len(owned) == 0 {
		t.Errorf("Owned = %v, %v; want the pair", owned, err)
	}

	check := list(cni.VerbCheck)
	for i := range check {
		check[i].Prev = out[1]
	}
	if _, err := w.Run(t.Context(), check); err != nil {
		t.Errorf("CHECK right after ADD: %v", err)
	}
	del := list(cni.VerbDel)
	del[0], del[1] = del[1], del[0]
	for range 2 {
		if _, err := w.Run(t.Context(), del); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(before, w.kernel.Dump()); diff != "" {
		t.Errorf("left after DEL (-before +after)\n%s", diff)
	}
	if len(w.programs.calls) > 0 {
		t.Errorf("programs were run: %v", w.programs.calls)
	}
}

// TestCheckGathers proves that the differences of several plugins come at once.
func TestCheckGathers(t *testing.T) {
	w := newWorld(builtin.Auto, nil)
	ns := w.kernel.NewPod()
	check := []libcni.Call{
		call(t, cni.VerbCheck, ns, "wire", `{"address":"10.1.0.2/24"}`), call(t, cni.VerbCheck, ns, "route", `{}`),
	}
	for i := range check {
		check[i].Prev = json.RawMessage(`{"cniVersion":"1.1.0","ips":[{"address":"10.1.0.2/24"}]}`)
	}
	_, err := w.Run(t.Context(), check)
	diff, ok := errors.AsType[*planned.DifferencesError](err)
	if !ok {
		t.Fatalf("CHECK of nothing: %v", err)
	}
	var objects []string
	for _, d := range diff.Differences {
		objects = append(objects, d.Object)
	}
	got := strings.Join(objects, "\n")
	for _, want := range []string{"link eth0", "addr 10.1.0.2/24", "route 10.9.0.0/16"} {
		if !strings.Contains(got, want) {
			t.Errorf("no difference for %s in:\n%s", want, got)
		}
	}
	if e, ok := errors.AsType[*cni.Error](err); !ok || e.Plugin != "wire" || e.Verb != cni.VerbCheck || e.Code != planned.CodeDifferent {
		t.Errorf("error %+v", e)
	}
}

// steps is an observer that keeps which steps there were.
type steps struct{ names []string }

func (s *steps) Begin(ctx context.Context, _ planned.Action) context.Context { return ctx }

func (s *steps) End(_ context.Context, a planned.Action, _ error) {
	s.names = append(s.names, a.Plugin+" "+a.Step)
}

// TestCut proves that programs cut a list into runs, and that an observer hears of each.
func TestCut(t *testing.T) {
	seen := &steps{}
	ctx := planned.WithObserver(t.Context(), seen)
	w := newWorld(builtin.Auto, nil)
	ns := w.kernel.NewPod()
	dir := program(t, "other", "#!/bin/sh\n")
	calls := []libcni.Call{
		call(t, cni.VerbAdd, ns, "wire", `{"address":"10.1.0.2/24"}`, dir),
		call(t, cni.VerbAdd, ns, "other", `{}`, dir),
		call(t, cni.VerbAdd, ns, "other", `{}`, dir),
		call(t, cni.VerbAdd, ns, "route", `{}`, dir),
	}
	for _, want := range []int{1, 1, 1, 1} {
		out, err := w.Run(ctx, calls)
		if err != nil {
			t.Fatal(err)
		}
		if len(out) != want {
			t.Fatalf("ran %d calls of %d, want %d", len(out), len(calls), want)
		}
		calls = calls[want:]
		if len(calls) > 0 {
			calls[0].Prev = out[want-1]
		}
	}
	if diff := cmp.Diff([]string{"ADD other prev", "ADD other prev"}, w.programs.calls); diff != "" {
		t.Errorf("programs run (-want +got)\n%s", diff)
	}
	want := []string{"wire observe", "wire plan", "wire apply", "other exec", "other exec", "route observe", "route plan", "route apply"}
	if diff := cmp.Diff(want, seen.names); diff != "" {
		t.Errorf("steps (-want +got)\n%s", diff)
	}
}

func TestErrorsNameThePlugin(t *testing.T) {
	w := newWorld(builtin.Auto, nil)
	ns := w.kernel.NewPod()
	for _, tc := range []struct {
		name string
		call libcni.Call
		code cni.Code
	}{
		{"chained-first", call(t, cni.VerbAdd, ns, "route", `{}`), cni.CodeInvalidConfig},
		{"bad-value", call(t, cni.VerbAdd, ns, "wire", `{"address":7}`), cni.CodeInvalidConfig},
		{"no-namespace", call(t, cni.VerbAdd, "/none", "wire", `{"address":"10.1.0.2/24"}`), cni.CodeInvalidNetNS},
		{"no-netns", call(t, cni.VerbAdd, "", "wire", `{}`), cni.CodeInvalidEnvironment},
		{"panic", call(t, cni.VerbAdd, ns, "wire", `{"panic":true}`), cni.CodeInternal},
		{"not-installed", call(t, cni.VerbAdd, ns, "missing", `{}`, t.TempDir()), cni.CodeInvalidEnvironment},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := w.Run(t.Context(), []libcni.Call{tc.call})
			e, ok := errors.AsType[*cni.Error](err)
			if !ok {
				t.Fatalf("error %v", err)
			}
			if e.Code != tc.code || e.Plugin != tc.call.Type || e.Verb != cni.VerbAdd {
				t.Errorf("error %d of %s %s (%v), want %d", e.Code, e.Plugin, e.Verb, e, tc.code)
			}
		})
	}
}

// A failed ADD says whether its runner has undone it, so that nobody deletes what was there before.
func TestFailedAddIsUndone(t *testing.T) {
	w := newWorld(builtin.Auto, nil)
	ns := w.kernel.NewPod()
	if err := w.kernel.AddLink(ns, netstate.Link{Name: "eth0", Kind: "dummy"}); err != nil {
		t.Fatal(err)
	}
	before := w.kernel.Dump()
	for name, c := range map[string]libcni.Call{
		"exists":  call(t, cni.VerbAdd, ns, "wire", `{}`),
		"invalid": call(t, cni.VerbAdd, ns, "wire", `{"mtu":"x"}`),
	} {
		_, err := w.Run(t.Context(), []libcni.Call{c})
		if _, undone := errors.AsType[*libcni.UndoneError](err); !undone {
			t.Errorf("%s: %v", name, err)
		}
	}
	if diff := cmp.Diff(before, w.kernel.Dump()); diff != "" {
		t.Errorf("(-before +after)\n%s", diff)
	}
}

func TestVersion(t *testing.T) {
	w := newWorld(builtin.Auto, nil)
	c := call(t, cni.VerbVersion, "", "wire", `{}`)
	out, err := w.Run(t.Context(), []libcni.Call{c})
	if err != nil {
		t.Fatal(err)
	}
	info, err := cni.ParseVersionInfo(out[0])
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(cni.VersionInfo{CNIVersion: "1.1.0", Supported: cni.Versions()}, info); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// buildProgram builds a main package of the given path, as a stand-in for cleat-cni.
func buildProgram(t *testing.T, module, pkg, out string) *debug.BuildInfo {
	t.Helper()
	dir := t.TempDir()
	src := filepath.Join(dir, pkg)
	if err := os.MkdirAll(src, 0o755); err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{
		filepath.Join(dir, "go.mod"):  "module " + module + "\n\ngo 1.26\n",
		filepath.Join(src, "main.go"): "package main\n\nfunc main() {}\n",
	} {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", out, "./"+pkg)
	cmd.Dir = dir
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, text)
	}
	return &debug.BuildInfo{Main: debug.Module{Path: module, Version: "(devel)"}}
}

func TestWhere(t *testing.T) {
	ours := t.TempDir()
	build := buildProgram(t, "github.com/cleat-cni/cleat", "cmd/cleat-cni", filepath.Join(ours, "cleat-cni"))
	if err := os.Symlink("cleat-cni", filepath.Join(ours, "wire")); err != nil {
		t.Fatal(err)
	}
	otherBuild := *build
	otherBuild.Main.Version = "v9.9.9"
	foreign := t.TempDir()
	buildProgram(t, "example.com/other", "wire", filepath.Join(foreign, "wire"))
	script := program(t, "wire", "#!/bin/sh\n")
	notExecutable := t.TempDir()
	if err := os.WriteFile(filepath.Join(notExecutable, "wire"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name  string
		mode  builtin.Mode
		build *debug.BuildInfo
		typ   string
		dirs  []string
		want  string // "" is an error
	}{
		{"nothing-installed", builtin.Auto, build, "wire", []string{t.TempDir()}, "built in"},
		{"no-folders", builtin.Auto, build, "wire", nil, "built in"},
		{"ours", builtin.Auto, build, "wire", []string{ours}, "built in (" + ours + "/wire is this build's cleat-cni)"},
		{"ours-other-build", builtin.Auto, &otherBuild, "wire", []string{ours},
			ours + "/wire (cleat-cni of another build, github.com/cleat-cni/cleat (devel); it wins over the built-in)"},
		{"foreign", builtin.Auto, build, "wire", []string{foreign},
			foreign + "/wire (a program of example.com/other (devel); it wins over the built-in)"},
		{"script", builtin.Auto, build, "wire", []string{script}, script + "/wire (not a Go program; it wins over the built-in)"},
		{"first-folder-decides", builtin.Auto, build, "wire", []string{ours, script}, "built in (" + ours + "/wire is this build's cleat-cni)"},
		{"not-executable", builtin.Auto, build, "wire", []string{notExecutable}, "built in"},
		{"exec-only", builtin.ExecOnly, build, "wire", []string{ours}, ours + "/wire (--exec-only)"},
		{"exec-only-missing", builtin.ExecOnly, build, "wire", []string{t.TempDir()}, ""},
		{"builtin-only", builtin.BuiltinOnly, build, "wire", []string{script}, "built in (--builtin)"},
		{"builtin-only-unknown", builtin.BuiltinOnly, build, "other", []string{program(t, "other", "#!/bin/sh\n")}, ""},
		{"not-built-in", builtin.Auto, build, "other", []string{script}, ""},
		{"path-for-type", builtin.Auto, build, "../wire", []string{script}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := newWorld(tc.mode, tc.build).Find(tc.typ, tc.dirs)
			if got != tc.want || (err == nil) != (tc.want != "") {
				t.Errorf("Find = %q, %v, want %q", got, err, tc.want)
			}
		})
	}
}

// TestWhereAfterReplacement proves that a file that changed is looked at again.
func TestWhereAfterReplacement(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "wire")
	build := buildProgram(t, "github.com/cleat-cni/cleat", "cmd/cleat-cni", path)
	w := newWorld(builtin.Auto, build)
	for _, want := range []bool{true, false} {
		l, err := w.Where("wire", []string{dir})
		if err != nil || l.BuiltIn != want {
			t.Fatalf("Where = %+v, %v; want built in %v", l, err, want)
		}
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// TestForeignIPAM proves that a built-in plugin delegates to a program.
func TestForeignIPAM(t *testing.T) {
	w := newWorld(builtin.Auto, nil)
	ns := w.kernel.NewPod()
	dir := program(t, "addresses", "#!/bin/sh\ncat >/dev/null\n[ $CNI_COMMAND = ADD ] && echo '{\"cniVersion\":\"1.1.0\",\"ips\":[{\"address\":\"10.1.0.7/24\"}]}'\nexit 0\n")
	out, err := w.Run(t.Context(), []libcni.Call{call(t, cni.VerbAdd, ns, "wire", `{"ipam":{"type":"addresses"}}`, dir)})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(out[0]), "10.1.0.7/24") {
		t.Errorf("result %s", out[0])
	}
}

// TestPlanAroundPrograms proves that a plan says what it can't tell.
func TestPlanAroundPrograms(t *testing.T) {
	w := newWorld(builtin.Auto, nil)
	dir := program(t, "other", "#!/bin/sh\n")
	other := call(t, cni.VerbAdd, "", "other", `{}`, dir)
	wired := call(t, cni.VerbAdd, "", "wire", `{"address":"10.1.0.2/24"}`, dir)
	for _, tc := range []struct {
		name  string
		calls []libcni.Call
		notes []int // how many notes each has
	}{
		{"after", []libcni.Call{wired, other, call(t, cni.VerbAdd, "", "route", `{}`, dir)}, []int{0, 1, 0}},
		{"before", []libcni.Call{other, call(t, cni.VerbAdd, "", "route", `{}`, dir)}, []int{1, 1}},
		{"alone", []libcni.Call{other}, []int{1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			plans, err := w.Plan(t.Context(), tc.calls)
			if err != nil {
				t.Fatal(err)
			}
			var notes []int
			for _, p := range plans {
				notes = append(notes, len(p.Plan.Notes))
			}
			if diff := cmp.Diff(tc.notes, notes); diff != "" {
				t.Errorf("notes (-want +got)\n%s", diff)
			}
		})
	}
}

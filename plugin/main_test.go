package plugin_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/plugin"
)

// fake is a plugin that notes what it was asked.
type fake struct {
	called *plugin.Request
	err    error
	panics bool
}

func (f *fake) note(req *plugin.Request) error {
	f.called = req
	if f.panics {
		panic("out of rope")
	}
	return f.err
}

func (f *fake) Add(_ context.Context, req *plugin.Request) (*cni.Result, error) {
	return &cni.Result{IPs: []cni.IP{{Address: netip.MustParsePrefix("10.1.0.2/24")}}}, f.note(req)
}
func (f *fake) Del(_ context.Context, req *plugin.Request) error    { return f.note(req) }
func (f *fake) Check(_ context.Context, req *plugin.Request) error  { return f.note(req) }
func (f *fake) GC(_ context.Context, req *plugin.Request) error     { return f.note(req) }
func (f *fake) Status(_ context.Context, req *plugin.Request) error { return f.note(req) }

func call(t *testing.T, p plugin.Plugin, info plugin.Info, env map[string]string, stdin string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = plugin.Process{
		Env:    func(k string) string { return env[k] },
		Stdin:  strings.NewReader(stdin),
		Stdout: &out,
		Stderr: &errs,
	}.Serve(t.Context(), info, p)
	return code, out.String(), errs.String()
}

const conf = `{"cniVersion":"1.1.0","name":"n","type":"fake"}`

func env(verb string, more ...string) map[string]string {
	e := map[string]string{"CNI_COMMAND": verb, "CNI_CONTAINERID": "c1", "CNI_NETNS": "", "CNI_IFNAME": "eth0", "CNI_PATH": "/opt/cni/bin"}
	for i := 0; i < len(more); i += 2 {
		e[more[i]] = more[i+1]
	}
	return e
}

func TestServeRefuses(t *testing.T) {
	for _, tc := range []struct {
		name  string
		env   map[string]string
		stdin string
		code  cni.Code
		text  string
	}{
		{"all-missing-at-once", map[string]string{"CNI_COMMAND": "ADD"}, conf, 4, "CNI_CONTAINERID,CNI_NETNS,CNI_IFNAME"},
		{"del-needs-no-netns", env("DEL", "CNI_IFNAME", ""), conf, 4, "[CNI_IFNAME] missing"},
		{"gc-needs-a-path", map[string]string{"CNI_COMMAND": "GC"}, conf, 4, "CNI_PATH"},
		{"unknown-verb", env("JUMP"), conf, 4, "JUMP"},
		{"id-with-slash", env("DEL", "CNI_CONTAINERID", "../x"), conf, 4, `CNI_CONTAINERID: container ID "../x"`},
		{"ifname-too-long", env("DEL", "CNI_IFNAME", "interface-name-16"), conf, 4, `CNI_IFNAME: interface name "interface-name-16"`},
		{"args-without-value", env("DEL", "CNI_ARGS", "A"), conf, 4, "A"},
		{"not-json", env("DEL"), "{", 6, "1:"},
		{"no-name", env("DEL"), `{"cniVersion":"1.0.0","type":"fake"}`, 7, "name"},
		{"bad-name", env("DEL"), `{"cniVersion":"1.0.0","name":"a/b","type":"fake"}`, 7, "a/b"},
		{"version-unknown", env("DEL"), `{"cniVersion":"9.0.0","name":"n","type":"fake"}`, 1, "9.0.0"},
		{"version-is-none", env("DEL"), `{"cniVersion":"x","name":"n","type":"fake"}`, 7, `cniVersion "x" is no version`},
		{"nothing-on-standard-input", env("DEL"), "", 6, "the text is empty"},
		{"check-before-it-came", env("CHECK", "CNI_NETNS", "/x"), `{"cniVersion":"0.3.1","name":"n","type":"fake"}`, 1, "CHECK"},
		{"gc-before-it-came", env("GC"), `{"cniVersion":"1.0.0","name":"n","type":"fake"}`, 1, "GC"},
		{"bad-prev-result", env("CHECK", "CNI_NETNS", "/x"), `{"cniVersion":"1.0.0","name":"n","type":"fake","prevResult":{"ips":[{"address":"x"}]}}`, 0, "address"},
		{"missing-netns", env("ADD", "CNI_NETNS", "/no/such/ns"), conf, 8, "/no/such/ns"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := &fake{}
			code, stdout, _ := call(t, p, plugin.Info{Type: "fake"}, tc.env, tc.stdin)
			if code != 1 {
				t.Errorf("exit status %d, want 1", code)
			}
			var e cni.Error
			if err := json.Unmarshal([]byte(stdout), &e); err != nil {
				t.Fatalf("standard output %q: %v", stdout, err)
			}
			if tc.code != 0 && e.Code != tc.code {
				t.Errorf("code %d, want %d (%s)", e.Code, tc.code, e.Msg)
			}
			if !strings.Contains(e.Msg+e.Details, tc.text) {
				t.Errorf("message %q does not name %q", e.Msg+e.Details, tc.text)
			}
			if p.called != nil {
				t.Error("the plugin was called")
			}
		})
	}
}

func TestServeAdd(t *testing.T) {
	p := &fake{}
	stdin := `{"cniVersion":"0.4.0","name":"n","type":"fake","big":12345678901234567890}`
	e := env("ADD", "CNI_NETNS", "/proc/self/ns/net", "CNI_NETNS_OVERRIDE", "1", "CNI_ARGS", "IgnoreUnknown=1;IP=10.1.0.2", "CNI_PATH", "/a::/b")
	code, stdout, stderr := call(t, p, plugin.Info{Type: "fake"}, e, stdin)
	if code != 0 {
		t.Fatalf("exit status %d: %s%s", code, stdout, stderr)
	}
	res, err := cni.DecodeResult([]byte(stdout), "")
	if err != nil {
		t.Fatal(err)
	}
	if res.CNIVersion != "0.4.0" {
		t.Errorf("result in version %s, asked in 0.4.0", res.CNIVersion)
	}
	if diff := cmp.Diff([]string{"/a", "/b"}, p.called.Path); diff != "" {
		t.Errorf("path (-want +got)\n%s", diff)
	}
	if ip, _ := p.called.Args.Get("IP"); ip != "10.1.0.2" {
		t.Errorf("args %v", p.called.Args)
	}
	if raw, _ := p.called.Conf.Raw.Get("big"); string(raw) != "12345678901234567890" {
		t.Errorf("a large number became %s", raw)
	}
}

func TestServeOwnNetNS(t *testing.T) {
	p := &fake{}
	code, stdout, _ := call(t, p, plugin.Info{Type: "fake"}, env("ADD", "CNI_NETNS", "/proc/thread-self/ns/net"), conf)
	if code != 1 || p.called != nil || !strings.Contains(stdout, `"code":8`) {
		t.Errorf("status %d, called %v, output %s", code, p.called != nil, stdout)
	}
	code, stdout, _ = call(t, p, plugin.Info{Type: "fake"}, env("DEL", "CNI_NETNS", "/proc/thread-self/ns/net"), conf)
	if code != 0 || p.called == nil || p.called.NetNS != "" {
		t.Errorf("DEL with the host's namespace: status %d, output %s, request %+v", code, stdout, p.called)
	}
}

func TestServeStatusLooksAtNoNetNS(t *testing.T) {
	p := &fake{}
	code, stdout, _ := call(t, p, plugin.Info{Type: "fake"}, env("STATUS", "CNI_NETNS", "/no/such/ns"), conf)
	if code != 0 || p.called == nil {
		t.Errorf("status %d, output %s", code, stdout)
	}
}

func TestServePanic(t *testing.T) {
	code, stdout, stderr := call(t, &fake{panics: true}, plugin.Info{Type: "fake"}, env("DEL"), conf)
	var e cni.Error
	if err := json.Unmarshal([]byte(stdout), &e); err != nil {
		t.Fatal(err)
	}
	if code != 1 || e.Code != cni.CodeInternal || !strings.Contains(e.Msg, "out of rope") || e.Plugin != "fake" || e.Verb != cni.VerbDel {
		t.Errorf("status %d, error %+v", code, e)
	}
	if !strings.Contains(stderr, "goroutine") {
		t.Error("standard error has no stack")
	}
}

func TestServeVersion(t *testing.T) {
	for _, tc := range []struct{ name, stdin, want string }{
		{"as-asked", `{"cniVersion":"0.3.1"}`, "0.3.1"},
		{"nothing-on-stdin", "", cni.Current},
		{"garbage", "{{", cni.Current},
	} {
		t.Run(tc.name, func(t *testing.T) {
			info := plugin.Info{Type: "fake", Versions: []string{"0.4.0", "1.0.0"}}
			code, stdout, _ := call(t, &fake{}, info, map[string]string{"CNI_COMMAND": "VERSION"}, tc.stdin)
			got, err := cni.ParseVersionInfo([]byte(stdout))
			if err != nil || code != 0 {
				t.Fatal(code, err, stdout)
			}
			if diff := cmp.Diff(cni.VersionInfo{CNIVersion: tc.want, Supported: info.Versions}, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestServeByHand(t *testing.T) {
	code, stdout, stderr := call(t, &fake{}, plugin.Info{Type: "fake", About: "does nothing"}, nil, "")
	if code != 0 || stdout != "" || !strings.Contains(stderr, "does nothing") || !strings.Contains(stderr, "1.1.0") {
		t.Errorf("status %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

func FuzzNewRequest(f *testing.F) {
	for _, v := range cni.Versions() {
		f.Add("ADD", "c1", "/x", "eth0", "A=b", `{"cniVersion":"`+v+`","name":"n","type":"fake"}`)
	}
	f.Add("GC", "", "", "", "", `{"cniVersion":"1.1.0","name":"n","type":"fake","cni.dev/valid-attachments":null}`)
	f.Fuzz(func(t *testing.T, verb, id, ns, ifname, args, stdin string) {
		e := plugin.Env{Command: verb, ContainerID: id, NetNS: ns, IfName: ifname, Args: args, Path: "/p"}
		req, err := plugin.NewRequest(plugin.Info{Type: "fake"}, e, []byte(stdin))
		if (req == nil) == (err == nil) {
			t.Errorf("request %v, error %v", req, err)
		}
		if err != nil && cni.CodeOf(err) == cni.CodeInternal {
			t.Errorf("an error without a code: %v", err)
		}
		conf, bad := cni.ParseObject([]byte(stdin))
		if bad != nil {
			return
		}
		if of, failed := plugin.NewRequestOf(plugin.Info{Type: "fake"}, e, conf, nil); (failed == nil) != (err == nil) || fmt.Sprint(failed) != fmt.Sprint(err) {
			t.Errorf("request %v, error %v; of what was read %v, %v", req, err, of, failed)
		}
	})
}

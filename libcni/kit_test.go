package libcni_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/libcni"
)

// verbs are what a fake plugin does for each verb; nil does nothing and, for ADD, answers one address.
type verbs map[cni.Verb]func(call libcni.Call) ([]byte, error)

// fakeRunner is a Runner in this process. It knows only the plugins it was given, and can run several calls at once.
type fakeRunner struct {
	batch  int                                // calls that one Run takes at most; 0 is 1
	during func(context.Context, libcni.Call) // sees each call, before it runs

	mu      sync.Mutex
	plugins map[string]verbs
	ran     []libcni.Call
}

func (r *fakeRunner) Find(typ string, dirs []string) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.plugins[typ]; !ok {
		return "", &cni.Error{Code: cni.CodeInvalidEnvironment, Msg: "find " + typ, Plugin: typ, Err: fs.ErrNotExist}
	}
	return "/fake/" + typ, nil
}

func (r *fakeRunner) Run(ctx context.Context, calls []libcni.Call) ([][]byte, error) {
	var outs [][]byte
	for i, call := range calls[:min(max(r.batch, 1), len(calls))] {
		if i > 0 && call.Verb == cni.VerbAdd {
			call.Prev = outs[i-1]
		}
		if err := ctx.Err(); err != nil {
			return outs, err
		}
		if _, err := r.Find(call.Type, call.Dirs); err != nil {
			return outs, err
		}
		if r.during != nil {
			r.during(ctx, call)
		}
		r.mu.Lock()
		r.ran = append(r.ran, call)
		f := r.plugins[call.Type][call.Verb]
		r.mu.Unlock()
		if f == nil {
			f = silent
		}
		out, err := f(call)
		if err != nil {
			var e *cni.Error
			if errors.As(err, &e) && e.Plugin == "" {
				e.Plugin = call.Type
			}
			return outs, err
		}
		outs = append(outs, out)
	}
	return outs, nil
}

// silent is the plugin that does nothing but what its verb must print.
func silent(call libcni.Call) ([]byte, error) {
	switch call.Verb {
	case cni.VerbAdd:
		if call.Prev != nil {
			return call.Prev, nil
		}
		version, _ := call.Conf.Get("cniVersion")
		return fmt.Appendf(nil, `{"cniVersion":%s,"ips":[{"version":"4","address":"10.1.0.5/16"}],"dns":{}}`, version), nil
	case cni.VerbVersion:
		return json.Marshal(cni.VersionInfo{CNIVersion: cni.Current, Supported: cni.Versions()})
	}
	return nil, nil
}

// answers makes a plugin's verb that answers always the same.
func answers(out string, err error) func(libcni.Call) ([]byte, error) {
	return func(libcni.Call) ([]byte, error) { return []byte(out), err }
}

func pluginError(code cni.Code, msg string) *cni.Error { return &cni.Error{Code: code, Msg: msg} }

// lines gives the calls that ran as "VERB type", and forgets them.
func (r *fakeRunner) lines() []string {
	var text []string
	for _, call := range r.calls() {
		text = append(text, string(call.Verb)+" "+call.Type)
	}
	return text
}

func (r *fakeRunner) calls() []libcni.Call {
	r.mu.Lock()
	defer r.mu.Unlock()
	ran := r.ran
	r.ran = nil
	return ran
}

// kit is a CNI on folders of its own with plugins a, b and c.
type kit struct {
	*libcni.CNI
	*fakeRunner
	state string
	log   *bytes.Buffer
}

func newKit(t testing.TB, change ...func(*libcni.Config)) *kit {
	t.Helper()
	k := &kit{
		fakeRunner: &fakeRunner{plugins: map[string]verbs{"a": {}, "b": {}, "c": {}}},
		state:      t.TempDir(), log: new(bytes.Buffer),
	}
	cfg := libcni.Config{
		PluginDirs: []string{"/fake"}, StateDir: k.state, LockDir: filepath.Join(k.state, "lock"), Runner: k.fakeRunner,
		Log: slog.New(slog.NewTextHandler(k.log, nil)),
	}
	for _, f := range change {
		f(&cfg)
	}
	var err error
	if k.CNI, err = libcni.New(cfg); err != nil {
		t.Fatal(err)
	}
	return k
}

// attachment is the same one in all tests; its namespace is this process's, which lives.
func attachment() *libcni.RuntimeConf {
	return &libcni.RuntimeConf{ContainerID: "c1", NetNS: "/proc/self/ns/net", IfName: "eth0"}
}

// network makes a list of plugins of these types.
func network(t *testing.T, version string, types ...string) *libcni.NetworkConfigList {
	t.Helper()
	var plugins []string
	for _, typ := range types {
		plugins = append(plugins, fmt.Sprintf(`{"type":%q}`, typ))
	}
	return parse(t, fmt.Sprintf(`{"cniVersion":%q,"name":"net1","plugins":[%s]}`, version, join(plugins)))
}

func join(items []string) string {
	var b bytes.Buffer
	for i, s := range items {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(s)
	}
	return b.String()
}

func parse(t *testing.T, conf string) *libcni.NetworkConfigList {
	t.Helper()
	list, err := libcni.ConfListFromBytes([]byte(conf))
	if err != nil {
		t.Fatalf("parse %s: %v", conf, err)
	}
	return list
}

func (k *kit) mustAdd(t *testing.T, list *libcni.NetworkConfigList, rt *libcni.RuntimeConf) *cni.Result {
	t.Helper()
	result, err := k.AddNetworkList(t.Context(), list, rt)
	if err != nil {
		t.Fatalf("add: %v", err)
	}
	return result
}

func (k *kit) mustDel(t *testing.T, list *libcni.NetworkConfigList, rt *libcni.RuntimeConf) {
	t.Helper()
	if err := k.DelNetworkList(t.Context(), list, rt); err != nil {
		t.Fatalf("del: %v", err)
	}
}

// stored lists the records and the intents.
func (k *kit) stored(t *testing.T) (records, intents []string) {
	t.Helper()
	return names(t, filepath.Join(k.state, "results")), names(t, filepath.Join(k.state, "cleat", "adding"))
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	var list []string
	for _, e := range entries {
		list = append(list, e.Name())
	}
	slices.Sort(list)
	return list
}

func (k *kit) recordPath() string { return filepath.Join(k.state, "results", "net1-c1-eth0") }

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

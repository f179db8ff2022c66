package spec

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/libcni"
)

func configTests() map[string]func(ruleTest) {
	return map[string]func(ruleTest){
		"CF1":  testKeys,
		"CF2":  testNameTwice,
		"CF3":  testNetworkNameAtLoad,
		"CF4":  testDisableCheck,
		"CF5":  testDisableGC,
		"CF6":  func(r ruleTest) { testSources(r, "false", []string{"fake-a", "fake-b", "fake-c"}) },
		"CF7":  func(r ruleTest) { testSources(r, "true", []string{"fake-a"}) },
		"CF8":  testOnlyInlinedWithoutPlugins,
		"CF9":  func(r ruleTest) { testSources(r, "true", []string{"fake-a"}) },
		"CF10": testSourceOfOneNetwork,
		"CF11": testSourcesAreValidated,
		"CF12": testType,
		"CF13": testCapabilitiesMember,
		"CF14": testReservedKeys,
		"CF15": testUnknownFields,
		"CF16": func(r ruleTest) { r.each(delegating, testWellKnownKeys) },
		"CF18": testFlagsAsText,
	}
}

// runtime is libcni on folders of its own with fake plugins.
type runtime struct {
	*fakes
	*libcni.CNI
	state string
}

func newRuntime(t testing.TB, types ...string) *runtime {
	t.Helper()
	return runtimeOn(newFakes(t, types...), t.TempDir())
}

func runtimeOn(f *fakes, state string, dirs ...string) *runtime {
	f.Helper()
	c, err := libcni.New(libcni.Config{
		PluginDirs: append(dirs, f.dir), StateDir: state, LockDir: filepath.Join(state, "lock"), Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		f.Fatal(err)
	}
	return &runtime{f, c, state}
}

// list parses a network.
func list(t testing.TB, text string) *libcni.NetworkConfigList {
	t.Helper()
	l, err := libcni.ConfListFromBytes([]byte(text))
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return l
}

// ofTypes is a network of plugins that have nothing but a type.
func ofTypes(t testing.TB, version string, types ...string) *libcni.NetworkConfigList {
	t.Helper()
	var all []string
	for _, typ := range types {
		all = append(all, fmt.Sprintf(`{"type":%q}`, typ))
	}
	return list(t, fmt.Sprintf(`{"cniVersion":%q,"name":%q,"plugins":[%s]}`, version, network, strings.Join(all, ",")))
}

// attachment is the same in all tests of the runtime; its namespace is this process's.
func attachment() *libcni.RuntimeConf {
	return &libcni.RuntimeConf{ContainerID: "spec-one", NetNS: "/proc/self/ns/net", IfName: "eth0"}
}

func (r *runtime) add(l *libcni.NetworkConfigList, rt *libcni.RuntimeConf) *cni.Result {
	r.Helper()
	result, err := r.AddNetworkList(r.Context(), l, rt)
	if err != nil {
		r.Fatal(err)
	}
	return result
}

func (r *runtime) del(l *libcni.NetworkConfigList, rt *libcni.RuntimeConf) {
	r.Helper()
	if err := r.DelNetworkList(r.Context(), l, rt); err != nil {
		r.Fatal(err)
	}
}

// ran checks which calls there were since the last look.
func (r *runtime) ran(what string, want ...string) {
	r.Helper()
	if diff := cmp.Diff(want, r.lines()); diff != "" {
		r.Errorf("%s ran (-want +got)\n%s", what, diff)
	}
}

func types(l *libcni.NetworkConfigList) []string {
	var all []string
	for _, p := range l.Plugins {
		all = append(all, p.Network.Type)
	}
	return all
}

func testKeys(r ruleTest) {
	l := list(r, `{"cniVersion":"0.4.0","cniVersions":["1.0.0"],"name":"n","disableCheck":true,"disableGC":true,"loadOnlyInlinedPlugins":true,
	  "plugins":[{"type":"fake-a"}]}`)
	if l.Name != "n" || l.CNIVersion != "1.0.0" || !l.DisableCheck || !l.DisableGC || !l.LoadOnlyInlinedPlugins || len(l.Plugins) != 1 {
		r.Errorf("list %+v", l)
	}
	for _, bad := range []string{
		"", "[]", "null", `"x"`, `{"name":"n","plugins":[{"type":"a"}]}{}`, `{"cniVersion":1,"name":"n","plugins":[{"type":"a"}]}`,
		`{"cniVersions":"1.0.0","name":"n","plugins":[{"type":"a"}]}`, `{"name":5,"plugins":[{"type":"a"}]}`, `{"name":"n","plugins":{}}`,
		`{"name":"n","disableCheck":5,"plugins":[{"type":"a"}]}`, `{"name":"n","plugins":["a"]}`,
	} {
		if _, err := libcni.ConfListFromBytes([]byte(bad)); err == nil {
			r.Errorf("accepted: %s", bad)
		}
	}
}

func testNameTwice(r ruleTest) {
	f := &fakes{r, r.TempDir()}
	for _, name := range []string{"1.conflist", "2.conflist"} {
		f.write(filepath.Join(f.dir, name), `{"cniVersion":"1.1.0","name":"n","plugins":[{"type":"fake-a"}]}`)
	}
	d, err := libcni.LoadDir(f.dir)
	if err != nil {
		r.Fatal(err)
	}
	if len(d.Networks) != 1 || filepath.Base(d.Networks[0].Source) != "1.conflist" || len(d.Ignored) != 1 || filepath.Base(d.Ignored[0].File) != "2.conflist" {
		r.Errorf("networks %v, ignored %v", d.Networks, d.Ignored)
	}
}

func testNetworkNameAtLoad(r ruleTest) {
	for _, name := range append(badNames(), "") {
		text, err := json.Marshal(map[string]any{"cniVersion": "1.1.0", "name": name, "plugins": []any{map[string]string{"type": "fake-a"}}})
		if err != nil {
			r.Fatal(err)
		}
		if _, err := libcni.ConfListFromBytes(text); err == nil {
			r.Errorf("name %q is accepted", name)
		}
	}
	for _, name := range []string{"0", "a.b_c-d"} {
		list(r, fmt.Sprintf(`{"cniVersion":"1.1.0","name":%q,"plugins":[{"type":"fake-a"}]}`, name))
	}
}

func testDisableCheck(r ruleTest) {
	c := newRuntime(r, "fake-a")
	c.answer("fake-a", map[string]behaviour{"CHECK": failing(100, "no")})
	l := list(r, `{"cniVersion":"1.1.0","name":"n","disableCheck":true,"plugins":[{"type":"fake-a"}]}`)
	c.add(l, attachment())
	if err := c.CheckNetworkList(r.Context(), l, attachment()); err != nil {
		r.Error(err)
	}
	c.ran("CHECK", "ADD fake-a")
}

func testDisableGC(r ruleTest) {
	c := newRuntime(r, "fake-a")
	l := list(r, `{"cniVersion":"1.1.0","name":"n","disableGC":true,"plugins":[{"type":"fake-a"}]}`)
	c.add(l, attachment())
	if err := c.GCNetworkList(r.Context(), l, &libcni.GCArgs{}); err != nil {
		r.Error(err)
	}
	c.ran("GC", "ADD fake-a")
}

// sources writes a network with plugins in files of their own.
func sources(f *fakes, main string) string {
	f.write(filepath.Join(f.dir, "n.conflist"), main)
	f.write(filepath.Join(f.dir, "n", "10-b.conf"), `{"type":"fake-b"}`)
	f.write(filepath.Join(f.dir, "n", "20-c.conf"), `{"type":"fake-c"}`)
	return f.dir
}

func testSources(r ruleTest, only string, want []string) {
	dir := sources(&fakes{r, r.TempDir()}, `{"cniVersion":"1.1.0","name":"n","loadOnlyInlinedPlugins":`+only+`,"plugins":[{"type":"fake-a"}]}`)
	l, err := libcni.LoadConfList(dir, "n")
	if err != nil {
		r.Fatal(err)
	}
	if diff := cmp.Diff(want, types(l)); diff != "" {
		r.Errorf("plugins (-want +got)\n%s", diff)
	}
}

func testOnlyInlinedWithoutPlugins(r ruleTest) {
	const text = `{"cniVersion":"1.1.0","name":"n","loadOnlyInlinedPlugins":true}`
	if _, err := libcni.ConfListFromBytes([]byte(text)); cni.CodeOf(err) != cni.CodeInvalidConfig {
		r.Errorf("error %v", err)
	}
	dir := sources(&fakes{r, r.TempDir()}, text)
	if l, err := libcni.ConfListFromFile(filepath.Join(dir, "n.conflist")); err == nil {
		r.Errorf("plugins %q", types(l))
	}
	// Without the flag the plugins of the folder are the network.
	dir = sources(&fakes{r, r.TempDir()}, `{"cniVersion":"1.1.0","name":"n"}`)
	if l, err := libcni.LoadConfList(dir, "n"); err != nil || !slices.Equal(types(l), []string{"fake-b", "fake-c"}) {
		r.Errorf("a network with no inlined plugin: %v", err)
	}
}

func testSourceOfOneNetwork(r ruleTest) {
	f := &fakes{r, r.TempDir()}
	sources(f, `{"cniVersion":"1.1.0","name":"n","plugins":[{"type":"fake-a"}]}`)
	f.write(filepath.Join(f.dir, "m.conflist"), `{"cniVersion":"1.1.0","name":"m","plugins":[{"type":"fake-a"}]}`)
	// Plugins of a folder do not name the network again; what they say does not count.
	f.write(filepath.Join(f.dir, "n", "30-d.conf"), `{"type":"fake-d","name":"m"}`)
	for name, want := range map[string][]string{"n": {"fake-a", "fake-b", "fake-c", "fake-d"}, "m": {"fake-a"}} {
		l, err := libcni.LoadConfList(f.dir, name)
		if err != nil {
			r.Fatal(err)
		}
		if diff := cmp.Diff(want, types(l)); diff != "" {
			r.Errorf("plugins of %s (-want +got)\n%s", name, diff)
		}
	}
	c := newRuntime(r, "fake-a", "fake-b", "fake-c", "fake-d")
	l, err := libcni.LoadConfList(f.dir, "n")
	if err != nil {
		r.Fatal(err)
	}
	c.add(l, attachment())
	for _, n := range c.calls() {
		if got := string(n.has(r, "name")); got != `"n"` {
			r.Errorf("%s got the name %s", n, got)
		}
	}
}

func testSourcesAreValidated(r ruleTest) {
	f := newFakes(r, "fake-a", "fake-b", "fake-c")
	dir := sources(f, `{"cniVersion":"1.1.0","name":"n","plugins":[{"type":"fake-a"}]}`)
	f.write(filepath.Join(dir, "n", "15-bad.conf"), `{"type":"fake-x",}`)
	f.write(filepath.Join(dir, "n", "16-bad.conf"), `{"type":"a/b"}`)
	l, err := libcni.LoadConfList(dir, "n")
	if err != nil {
		r.Fatal(err)
	}
	var skipped []string
	for _, s := range l.Skipped {
		skipped = append(skipped, filepath.Base(s.File))
	}
	if diff := cmp.Diff([]string{"15-bad.conf", "16-bad.conf"}, skipped); diff != "" {
		r.Errorf("skipped (-want +got)\n%s", diff)
	}
	c := runtimeOn(f, r.TempDir())
	c.add(l, attachment())
	c.ran("ADD", "ADD fake-a", "ADD fake-b", "ADD fake-c")
}

func testType(r ruleTest) {
	for _, bad := range []string{`{}`, `{"type":""}`, `{"type":"a/b"}`, `{"type":"../a"}`, `{"type":"a\\b"}`, `{"type":".."}`, `{"type":5}`} {
		if _, err := libcni.ConfListFromBytes([]byte(`{"cniVersion":"1.1.0","name":"n","plugins":[` + bad + `]}`)); err == nil {
			r.Errorf("plugin %s is accepted", bad)
		}
		if _, err := libcni.ConfFromBytes([]byte(bad)); err == nil {
			r.Errorf("single plugin %s is accepted", bad)
		}
	}
	// The types of delegates are file names too.
	r.programs(delegating, func(m *machine, s sample) {
		conf := strings.Replace(m.conf(s.typ, s.conf), `"type":"host-local"`, `"type":"../host-local"`, 1)
		m.start(s.typ, m.env(cni.VerbAdd, m.newPod("spec-one")), conf).fails(m, 0, "../host-local")
	})
}

func testCapabilitiesMember(r ruleTest) {
	l := list(r, `{"cniVersion":"1.1.0","name":"n","plugins":[{"type":"fake-a","capabilities":{"mac":true,"ips":false}},{"type":"fake-b"}]}`)
	if diff := cmp.Diff(map[string]bool{"mac": true, "ips": false}, l.Plugins[0].Network.Capabilities); diff != "" {
		r.Errorf("capabilities (-want +got)\n%s", diff)
	}
	for _, bad := range []string{`[]`, `{"mac":"yes"}`, `true`} {
		if _, err := libcni.ConfListFromBytes([]byte(`{"cniVersion":"1.1.0","name":"n","plugins":[{"type":"fake-a","capabilities":` + bad + `}]}`)); err == nil {
			r.Errorf("capabilities %s are accepted", bad)
		}
	}
}

// request adds a network of one plugin with members and returns what the plugin got.
func request(t testing.TB, members string, change func(*libcni.RuntimeConf)) noted {
	t.Helper()
	c := newRuntime(t, "fake-a")
	rt := attachment()
	if change != nil {
		change(rt)
	}
	c.add(list(t, `{"cniVersion":"1.1.0","name":"n","plugins":[{"type":"fake-a"`+members+`}]}`), rt)
	return c.only()
}

func testReservedKeys(r ruleTest) {
	got := request(r, `,"runtimeConfig":{"mac":"02:00:00:00:00:01"},"cni.dev/valid-attachments":[],"cni.dev/other":1,"x":1`, nil)
	for _, key := range []string{"runtimeConfig", "cni.dev/valid-attachments", "cni.dev/other"} {
		if value := got.has(r, key); value != nil {
			r.Errorf("%s of the configuration reached the plugin: %s", key, value)
		}
	}
	// args is reserved too, but runtimes and administrators of the field write it: it passes.
	if got := request(r, `,"args":{"cni":{"ips":["10.1.0.9"]}}`, nil); got.has(r, "args") == nil {
		r.Error("args did not reach the plugin")
	}
}

func testUnknownFields(r ruleTest) {
	const members = `"z":9007199254740993,"a":{"y":1e2,"b":0.10,"html":"<&>","u":"\u00e9\/"},"list":[1,{"q":null,"a":-0}],"big":123456789012345678901234567890,"":0,"T":true`
	got := request(r, ","+members, nil)
	if !strings.Contains(got.Stdin, members) {
		r.Errorf("standard input is %s\nand should hold %s", got.Stdin, members)
	}
}

func testWellKnownKeys(m *machine, s sample) {
	p := m.attach(s, "spec-one")
	if rules := m.in(m.host, "nft list ruleset"); !strings.Contains(rules, "masquerade") {
		m.Errorf("ipMasq made no masquerading:\n%s", rules)
	}
	r := m.decoded(p)
	if diff := cmp.Diff(cni.DNS{Nameservers: []string{"10.88.0.1"}, Search: []string{"example.org"}}, r.DNS); diff != "" {
		m.Errorf("dns (-want +got)\n%s", diff)
	}
	if !slices.ContainsFunc(m.owned(p), func(line string) bool { return strings.HasPrefix(line, "lease 10.88.") }) {
		m.Errorf("ipam.type host-local leased nothing: %q", m.owned(p))
	}
	off := s
	off.conf = strings.NewReplacer(`"ipMasq":true`, `"ipMasq":false`).Replace(s.conf)
	other := newMachine(m.T, m.version, m.form)
	other.attach(off, "spec-two")
	if rules := other.in(other.host, "nft list ruleset"); strings.Contains(rules, "masquerade") {
		m.Errorf("without ipMasq there is masquerading:\n%s", rules)
	}
}

func testFlagsAsText(r ruleTest) {
	for text, want := range map[string]bool{`"true"`: true, `"True"`: true, `"FALSE"`: false, `true`: true, `false`: false} {
		l := list(r, `{"cniVersion":"1.1.0","name":"n","disableCheck":`+text+`,"disableGC":`+text+`,"loadOnlyInlinedPlugins":`+text+`,"plugins":[{"type":"a"}]}`)
		if l.DisableCheck != want || l.DisableGC != want || l.LoadOnlyInlinedPlugins != want {
			r.Errorf("%s: %v %v %v", text, l.DisableCheck, l.DisableGC, l.LoadOnlyInlinedPlugins)
		}
	}
	for _, bad := range []string{`"yes"`, `1`, `{}`} {
		if _, err := libcni.ConfListFromBytes([]byte(`{"name":"n","disableCheck":` + bad + `,"plugins":[{"type":"a"}]}`)); err == nil {
			r.Errorf("disableCheck %s is accepted", bad)
		}
	}
}

// exists reports whether a file is there.
func exists(t testing.TB, path string) bool {
	t.Helper()
	_, err := os.Lstat(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return err == nil
}

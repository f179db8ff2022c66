package spec

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/libcni"
)

func (r *runtime) records() []string {
	r.Helper()
	entries, err := os.ReadDir(filepath.Join(r.state, "results"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		r.Fatal(err)
	}
	return each(entries, os.DirEntry.Name)
}

func pinNoRecord(r ruleTest) {
	c := newRuntime(r, "fake-a", "fake-b")
	c.answer("fake-b", map[string]behaviour{"ADD": failing(142, "no")})
	if _, err := c.AddNetworkList(r.Context(), ofTypes(r, cni.Current, "fake-a", "fake-b"), attachment()); err == nil {
		r.Error("ADD succeeded")
	}
	if got := c.records(); len(got) > 0 {
		r.Errorf("records %q", got)
	}
}

func pinCheckVersion(r ruleTest) {
	for _, v := range []string{"0.1.0", "0.2.0", "0.3.0", "0.3.1"} {
		c := newRuntime(r, "fake-a")
		l := ofTypes(r, v, "fake-a")
		c.add(l, attachment())
		if err := c.CheckNetworkList(r.Context(), l, attachment()); !errors.Is(err, libcni.ErrorCheckNotSupp) {
			r.Errorf("version %s: %v", v, err)
		}
		c.ran("CHECK", "ADD fake-a")
	}
}

func pinDelRemovesRecord(r ruleTest) {
	c := newRuntime(r, "fake-a")
	l := ofTypes(r, cni.Current, "fake-a")
	c.add(l, attachment())
	c.answer("fake-a", map[string]behaviour{"DEL": failing(142, "no")})
	if err := c.DelNetworkList(r.Context(), l, attachment()); err == nil || !exists(r, c.record()) {
		r.Errorf("DEL that fails: error %v, record there %v", err, exists(r, c.record()))
	}
	c.answer("fake-a", nil)
	c.del(l, attachment())
	if got := c.records(); len(got) > 0 {
		r.Errorf("records %q", got)
	}
}

func pinRecords(r ruleTest) {
	c := newRuntime(r, "fake-a")
	l := ofTypes(r, cni.Current, "fake-a")
	for _, id := range []string{"c1", "c2"} {
		for _, ifName := range []string{"eth0", "net1"} {
			c.add(l, &libcni.RuntimeConf{ContainerID: id, NetNS: "/proc/self/ns/net", IfName: ifName})
		}
	}
	want := []string{network + "-c1-eth0", network + "-c1-net1", network + "-c2-eth0", network + "-c2-net1"}
	if diff := cmp.Diff(want, c.records()); diff != "" {
		r.Errorf("records (-want +got)\n%s", diff)
	}
	of, err := c.GetCachedAttachments("c2")
	if err != nil {
		r.Fatal(err)
	}
	if got := each(of, func(a *libcni.NetworkAttachment) string { return a.IfName }); !slices.Equal(got, []string{"eth0", "net1"}) {
		r.Errorf("attachments of c2: %q", got)
	}
}

func pinNamesMissing(r ruleTest) {
	c := newRuntime(r, "fake-a")
	l := ofTypes(r, cni.Current, "fake-a")
	for name, spoil := range map[string]func(*libcni.RuntimeConf){
		"container": func(rt *libcni.RuntimeConf) { rt.ContainerID = "" },
		"interface": func(rt *libcni.RuntimeConf) { rt.IfName = "" },
	} {
		rt := attachment()
		spoil(rt)
		if _, err := c.AddNetworkList(r.Context(), l, rt); err == nil {
			r.Errorf("ADD without a name of the %s succeeded", name)
		}
	}
	unnamed := *l
	unnamed.Name = ""
	if _, err := c.AddNetworkList(r.Context(), &unnamed, attachment()); cni.CodeOf(err) != cni.CodeInvalidConfig {
		r.Errorf("ADD without a name of the network: %v", err)
	}
	c.ran("all of it")
}

func pinStatusCode(r ruleTest) {
	c := newRuntime(r, "fake-a", "fake-b", "fake-c")
	l := ofTypes(r, cni.Current, "fake-a", "fake-b", "fake-c")
	for _, code := range []cni.Code{cni.CodeNotAvailable, cni.CodeLimitedConnectivity, 142} {
		c.answer("fake-b", map[string]behaviour{"STATUS": failing(code, "not now")})
		if err := c.GetStatusNetworkList(r.Context(), l); cni.CodeOf(err) != code {
			r.Errorf("error %v, want code %d", err, code)
		}
		c.ran("STATUS", "STATUS fake-a", "STATUS fake-b")
	}
	if err := c.GetStatusNetworkList(r.Context(), ofTypes(r, "1.0.0", "fake-b")); err != nil {
		r.Error(err)
	}
	c.ran("STATUS below 1.1.0")
}

// pinContexts ends the context of each call while the plugin works.
func pinContexts(r ruleTest) {
	l := ofTypes(r, cni.Current, "fake-a")
	for verb, run := range map[string]func(context.Context, *runtime) error{
		"ADD": func(ctx context.Context, c *runtime) error {
			rt := attachment()
			rt.IfName = "net1"
			_, err := c.AddNetworkList(ctx, l, rt)
			return err
		},
		"DEL":   func(ctx context.Context, c *runtime) error { return c.DelNetworkList(ctx, l, attachment()) },
		"CHECK": func(ctx context.Context, c *runtime) error { return c.CheckNetworkList(ctx, l, attachment()) },
		"GC": func(ctx context.Context, c *runtime) error {
			return c.GCNetworkList(ctx, l, &libcni.GCArgs{ValidAttachments: []cni.Attachment{{ContainerID: "spec-one", IfName: "eth0"}}})
		},
		"STATUS": func(ctx context.Context, c *runtime) error { return c.GetStatusNetworkList(ctx, l) },
		"VERSION": func(ctx context.Context, c *runtime) error {
			_, err := c.ValidateNetworkList(ctx, l)
			return err
		},
	} {
		r.Run(verb, func(t *testing.T) {
			t.Parallel()
			c := newRuntime(t, "fake-a")
			c.add(l, attachment())
			b := c.block("fake-a", verb)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			done := make(chan error, 1)
			go func() { done <- run(ctx, c) }()
			b.started()
			cancel()
			select {
			case err := <-done:
				if !errors.Is(err, context.Canceled) {
					t.Errorf("error %v", err)
				}
			case <-time.After(20 * time.Second):
				t.Fatal("the call goes on")
			}
		})
	}
}

func pinFiles(r ruleTest) {
	f := &fakes{r, r.TempDir()}
	for name, text := range map[string]string{
		"10-a.json":              `{"cniVersion":"1.1.0","name":"a","type":"json"}`,
		"20-b.conf":              `{"cniVersion":"1.1.0","name":"b","type":"conf"}`,
		"30-b.conflist":          `{"cniVersion":"1.1.0","name":"b","plugins":[{"type":"list"}]}`,
		"nested/40-c.conflist":   `{"cniVersion":"1.1.0","name":"c","plugins":[{"type":"nested"}]}`,
		"40-d.conflist.bak":      `{"cniVersion":"1.1.0","name":"d","plugins":[{"type":"backup"}]}`,
		"50-e.conflist/x.conf":   `{"cniVersion":"1.1.0","name":"e","type":"folder"}`,
		".60-f.conflist":         `{"cniVersion":"1.1.0","name":"f","plugins":[{"type":"hidden"}]}`,
		"#70-g.conflist#.swp.no": `{`,
	} {
		f.write(filepath.Join(f.dir, name), text)
	}
	got := make(map[string][]string)
	d, err := libcni.LoadDir(f.dir)
	if err != nil {
		r.Fatal(err)
	}
	for _, l := range d.Networks {
		got[l.Name] = types(l)
	}
	if diff := cmp.Diff(map[string][]string{"a": {"json"}, "b": {"list"}}, got); diff != "" {
		r.Errorf("networks (-want +got)\n%s", diff)
	}
	if _, err := libcni.LoadConfList(f.dir, "c"); !isA[libcni.NotFoundError](err) {
		r.Errorf("a network in a nested folder: %v", err)
	}
	if _, err := libcni.LoadConfList(r.TempDir(), "c"); !isA[libcni.NoConfigsFoundError](err) {
		r.Errorf("an empty folder: %v", err)
	}
}

func isA[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

func pinOnlyInlined(r ruleTest) {
	for _, tc := range []struct {
		name, flag, plugins string
		folder              bool
		want                []string // nil: an error
	}{
		{"unset-inlined-and-folder", "", `"plugins":[{"type":"fake-a"}]`, true, []string{"fake-a", "fake-b", "fake-c"}},
		{"unset-folder", "", "", true, []string{"fake-b", "fake-c"}},
		{"unset-inlined", "", `"plugins":[{"type":"fake-a"}]`, false, []string{"fake-a"}},
		{"unset-nothing", "", "", false, nil},
		{"false-inlined-and-folder", `"loadOnlyInlinedPlugins":false`, `"plugins":[{"type":"fake-a"}]`, true, []string{"fake-a", "fake-b", "fake-c"}},
		{"true-inlined-and-folder", `"loadOnlyInlinedPlugins":true`, `"plugins":[{"type":"fake-a"}]`, true, []string{"fake-a"}},
		{"true-folder", `"loadOnlyInlinedPlugins":true`, "", true, nil},
		{"true-empty-and-folder", `"loadOnlyInlinedPlugins":true`, `"plugins":[]`, true, nil},
	} {
		f := &fakes{r, r.TempDir()}
		members := slices.DeleteFunc([]string{`"cniVersion":"1.1.0"`, `"name":"n"`, tc.flag, tc.plugins}, func(m string) bool { return m == "" })
		main := "{" + strings.Join(members, ",") + "}"
		if tc.folder {
			sources(f, main)
		} else {
			f.write(filepath.Join(f.dir, "n.conflist"), main)
		}
		l, err := libcni.ConfListFromFile(filepath.Join(f.dir, "n.conflist"))
		switch {
		case tc.want == nil && err == nil:
			r.Errorf("%s: plugins %q, want an error", tc.name, types(l))
		case tc.want != nil && err != nil:
			r.Errorf("%s: %v", tc.name, err)
		case err == nil:
			if diff := cmp.Diff(tc.want, types(l)); diff != "" {
				r.Errorf("%s: plugins (-want +got)\n%s", tc.name, diff)
			}
		}
	}
}

// pinOldPlugin: plugins of the first versions name no version in the result and know no VERSION.
func pinOldPlugin(r ruleTest) {
	c := newRuntime(r, "fake-a")
	c.answer("fake-a", map[string]behaviour{
		"ADD":     {Stdout: `{"ip4":{"ip":"10.1.0.9/24","gateway":"10.1.0.1","routes":[{"dst":"0.0.0.0/0"}]}}`},
		"VERSION": {Status: 1, Stdout: `{"code":100,"msg":"unknown CNI_COMMAND: VERSION"}`},
	})
	for _, conf := range []string{`{"name":"n","type":"fake-a"}`, `{"cniVersion":"0.1.0","name":"n","type":"fake-a"}`} {
		l := list(r, conf)
		if got := c.add(l, attachment()); got.IPs[0].Address.String() != "10.1.0.9/24" || got.CNIVersion != "0.1.0" {
			r.Errorf("result %+v", got)
		}
		if _, err := c.ValidateNetworkList(r.Context(), l); err != nil {
			r.Error(err)
		}
		c.del(l, attachment())
	}
	// A plugin of today under a configuration of then.
	fake := newRuntime(r, "fake-a")
	if got := fake.add(list(r, `{"name":"n","type":"fake-a"}`), attachment()); got.CNIVersion != "0.1.0" {
		r.Errorf("result %+v", got)
	}
}

// pinVersionWithoutInput asks for VERSION with a standard input that never ends.
func pinVersionWithoutInput(r ruleTest) {
	r.programs(nil, func(m *machine, s sample) {
		in, out, err := os.Pipe()
		if err != nil {
			m.Fatal(err)
		}
		defer in.Close()
		defer out.Close()
		ctx, cancel := context.WithTimeout(m.Context(), 20*time.Second)
		defer cancel()
		cmd := exec.CommandContext(ctx, program(), s.typ)
		cmd.Env, cmd.Stdin = []string{"CNI_COMMAND=VERSION"}, in
		answer, err := cmd.Output()
		if err != nil || !bytes.Contains(answer, []byte("supportedVersions")) {
			m.Errorf("%v: %s", err, answer)
		}
	})
}

func pinAbout(r ruleTest) {
	r.programs(nil, func(m *machine, s sample) {
		a := m.start(s.typ, nil, "")
		if a.status != 0 || a.stdout != "" || !strings.Contains(a.stderr, "CNI protocol versions supported: "+strings.Join(cni.Versions(), ", ")) {
			m.Errorf("%+v", a)
		}
	})
}

// pinOverride: CNI_NETNS_OVERRIDE allows the plugin's own namespace, for those that run nodes in one.
func pinOverride(r ruleTest) {
	r.programs(func(s sample) bool { return s.role == adjuster }, func(m *machine, s sample) {
		p := &pod{id: "spec-one", ifName: "eth0", netns: m.host.Path()}
		env := m.env(cni.VerbAdd, p)
		m.start(s.typ, env, m.conf(s.typ, s.conf)).fails(m, cni.CodeInvalidNetNS)
		for _, value := range []string{"1", "TRUE", "true"} {
			env["CNI_NETNS_OVERRIDE"] = value
			m.start(s.typ, env, m.conf(s.typ, s.conf)).succeeds(m, "ADD with CNI_NETNS_OVERRIDE="+value)
		}
		env["CNI_NETNS_OVERRIDE"] = "0"
		m.start(s.typ, env, m.conf(s.typ, s.conf)).fails(m, cni.CodeInvalidNetNS)
	})
}

func pinStderr(r ruleTest) {
	f := newFakes(r, "fake-a")
	f.answer("fake-a", map[string]behaviour{"ADD": {Stderr: "a word of the plugin\n"}})
	var stderr bytes.Buffer
	state := r.TempDir()
	c, err := libcni.New(libcni.Config{
		PluginDirs: []string{f.dir}, StateDir: state, LockDir: filepath.Join(state, "lock"), Log: slog.New(slog.DiscardHandler), Stderr: &stderr,
	})
	if err != nil {
		r.Fatal(err)
	}
	if _, err := c.AddNetworkList(r.Context(), ofTypes(r, cni.Current, "fake-a"), attachment()); err != nil {
		r.Fatal(err)
	}
	if got := stderr.String(); got != "a word of the plugin\n" {
		r.Errorf("standard error %q", got)
	}
}

// pinGenerations asks plugins of five generations for their versions.
func pinGenerations(r ruleTest) {
	for i, g := range []struct {
		answer behaviour
		want   []string
	}{
		{behaviour{Status: 1, Stdout: `{"cniVersion":"0.1.0","code":100,"msg":"unknown CNI_COMMAND: VERSION"}`}, []string{"0.1.0"}},
		{behaviour{Stdout: `{"cniVersion":"0.2.0","supportedVersions":["0.1.0","0.2.0"]}`}, []string{"0.1.0", "0.2.0"}},
		{behaviour{Stdout: `{"cniVersion":"0.3.1","supportedVersions":["0.1.0","0.2.0","0.3.0","0.3.1"]}`}, []string{"0.1.0", "0.2.0", "0.3.0", "0.3.1"}},
		{behaviour{Stdout: `{"cniVersion":"0.4.0","supportedVersions":["0.3.1","0.4.0"]}`}, []string{"0.3.1", "0.4.0"}},
		{behaviour{Stdout: `{"cniVersion":"1.0.0","supportedVersions":["0.4.0","1.0.0"]}`}, []string{"0.4.0", "1.0.0"}},
	} {
		c := newRuntime(r, "fake-a")
		c.answer("fake-a", map[string]behaviour{"VERSION": g.answer})
		info, err := c.GetVersionInfo(r.Context(), "fake-a")
		if err != nil || !slices.Equal(info.Supported, g.want) {
			r.Errorf("generation %d: %v, %v", i+1, info, err)
		}
	}
	for _, bad := range []behaviour{{Stdout: "0.4.0"}, {Stdout: `{"cniVersion":"1.0.0"}`}, {Status: 1, Stdout: `{"code":7,"msg":"no"}`}} {
		c := newRuntime(r, "fake-a")
		c.answer("fake-a", map[string]behaviour{"VERSION": bad})
		if info, err := c.GetVersionInfo(r.Context(), "fake-a"); err == nil {
			r.Errorf("the answer %q is taken for %v", bad.Stdout, info)
		}
	}
}

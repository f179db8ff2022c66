package libcni_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/libcni"
)

func confDir(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		write(t, filepath.Join(dir, name), text)
	}
	return dir
}

func listOf(name, typ string) string {
	return fmt.Sprintf(`{"cniVersion":"1.0.0","name":%q,"plugins":[{"type":%q}]}`, name, typ)
}

func singleOf(name, typ string) string {
	return fmt.Sprintf(`{"cniVersion":"1.0.0","name":%q,"type":%q}`, name, typ)
}

// TestB014Order: which network is which, from which file, and which files are not used.
func TestB014Order(t *testing.T) {
	dir := confDir(t, map[string]string{
		"10-old.conf":          singleOf("old", "calico"),
		"87-podman.conflist":   listOf("podman", "bridge"),
		"99-new.conflist":      listOf("new", "bridge"),
		"99-new.conf":          singleOf("new", "ptp"),
		"50-other.json":        singleOf("other", "ptp"),
		"20-bad.conflist":      "{\n  \"name\": \"bad\",\n}",
		"30-empty.conflist":    "",
		".hidden.conflist":     listOf("hidden", "bridge"),
		"#emacs.conflist":      listOf("emacs", "bridge"),
		"40-save.conflist~":    listOf("save", "bridge"),
		"40-save.conflist.bak": listOf("save", "bridge"),
		"README":               "text",
		"sub.conf/10-x.conf":   singleOf("nested", "bridge"),
	})
	d, err := libcni.LoadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, list := range d.Networks {
		got = append(got, list.Name+" "+filepath.Base(list.Source))
	}
	want := []string{"podman 87-podman.conflist", "new 99-new.conflist", "old 10-old.conf", "other 50-other.json"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("networks (-want +got):\n%s", diff)
	}
	var ignored []string
	for _, f := range d.Ignored {
		ignored = append(ignored, strings.ReplaceAll(f.String(), dir+"/", ""))
	}
	if len(ignored) != 4 || !strings.HasPrefix(ignored[0], "20-bad.conflist:2:16: ") || !strings.HasPrefix(ignored[1], "30-empty.conflist:1:1: ") ||
		ignored[2] != "sub.conf: a folder, not a file" || ignored[3] != `99-new.conf: network "new" is already configured in 99-new.conflist` {
		t.Errorf("ignored %q", ignored)
	}
	if first := d.Default(); first == nil || first.Name != "old" {
		t.Errorf("default %+v, want old: runtimes take the first file by name", first)
	}
}

// TestB015ContentDecides: list or single plugin, whatever the file's name ends in.
func TestB015ContentDecides(t *testing.T) {
	for _, ext := range []string{".conflist", ".conf", ".json"} {
		for form, text := range map[string]string{"list": listOf("net1", "bridge"), "single": singleOf("net1", "bridge")} {
			dir := confDir(t, map[string]string{"10-x" + ext: text})
			list, err := libcni.LoadConfList(dir, "net1")
			if err != nil {
				t.Errorf("%s in %s: %v", form, ext, err)
				continue
			}
			if list.Single != (form == "single") || len(list.Plugins) != 1 || list.Plugins[0].Network.Type != "bridge" {
				t.Errorf("%s in %s: %+v", form, ext, list)
			}
			if _, err := libcni.LoadConf(dir, "net1"); (err == nil) != (form == "single") {
				t.Errorf("%s in %s as a single plugin: %v", form, ext, err)
			}
		}
	}
}

// TestB016OneBadFileHidesNone, and its place is in the error of the name it may have held.
func TestB016OneBadFileHidesNone(t *testing.T) {
	for name, bad := range map[string]string{
		"comma":         `{"cniVersion":"1.0.0","name":"lost","plugins":[{"type":"bridge",},]}`,
		"quote":         `{"name":"lost,"plugins":[]}`,
		"comment":       "{\n// why\n\"name\":\"lost\"}",
		"single-quotes": `{'name':'lost'}`,
		"bom":           "\ufeff" + listOf("lost", "bridge"),
		"empty":         "",
		"wrong-type":    `{"name":7,"plugins":[]}`,
		"no-plugins":    `{"name":"lost","plugins":[]}`,
		"traversal":     `{"name":"../lost","plugins":[{"type":"bridge"}]}`,
		"type-path":     `{"name":"lost","plugins":[{"type":"../../sbin/reboot"}]}`,
		"version":       `{"name":"lost","cniVersion":"one","plugins":[{"type":"bridge"}]}`,
		"huge":          strings.Repeat(" ", 10<<20) + listOf("lost", "bridge"),
	} {
		t.Run(name, func(t *testing.T) {
			dir := confDir(t, map[string]string{"00-bad.conflist": bad, "10-good.conflist": listOf("good", "bridge")})
			if _, err := libcni.LoadConfList(dir, "good"); err != nil {
				t.Errorf("the good one: %v", err)
			}
			_, err := libcni.LoadConfList(dir, "lost")
			var notFound libcni.NotFoundError
			if !errors.As(err, &notFound) || !strings.Contains(err.Error(), "good") || !strings.Contains(err.Error(), "00-bad.conflist") {
				t.Fatalf("the bad one: %v", err)
			}
			var at *cni.SyntaxError
			if name != "huge" && (!errors.As(notFound.Ignored[0].Err, &at) || at.Line == 0 || at.Column == 0 || at.File != filepath.Join(dir, "00-bad.conflist")) {
				t.Errorf("no place in %v", notFound.Ignored[0].Err)
			}
		})
	}
}

func TestNotFound(t *testing.T) {
	dir := confDir(t, map[string]string{"10-a.conflist": listOf("podman", "bridge")})
	if _, err := libcni.LoadConfList(dir, "podmann"); err == nil || !strings.Contains(err.Error(), "did you mean podman?") {
		t.Errorf("near miss: %v", err)
	}
	for _, dir := range []string{t.TempDir(), "/does/not/exist"} {
		_, err := libcni.LoadConfList(dir, "x")
		if want := (libcni.NoConfigsFoundError{Dir: dir}); !errors.Is(err, want) {
			t.Errorf("empty folder: %v, want %v", err, want)
		}
	}
	if files, err := libcni.ConfFiles("/does/not/exist", []string{".conf"}); files != nil || err != nil {
		t.Errorf("ConfFiles of a missing folder: %v, %v", files, err)
	}
}

// TestB079SiblingFolder: order, what is skipped, what switches it off, and the file that each plugin is from.
func TestB079SiblingFolder(t *testing.T) {
	files := map[string]string{
		"net1/20-b.conf":      `{"type":"b"}`,
		"net1/10-a.conf":      `{"type":"a"}`,
		"net1/.hidden.conf":   `{"type":"hidden"}`,
		"net1/30-c.conf~":     `{"type":"backup"}`,
		"net1/40-d.conflist":  `{"type":"other"}`,
		"net1/50-bad.conf":    `{"type":}`,
		"net1/60-notype.conf": `{}`,
	}
	for _, tc := range []struct {
		name, conf string
		want       []string
		skipped    int
	}{
		{"absent", `{"name":"net1","plugins":[{"type":"x"}]}`, []string{"x", "a 10-a.conf", "b 20-b.conf"}, 2},
		{"false", `{"name":"net1","loadOnlyInlinedPlugins":false,"plugins":[{"type":"x"}]}`, []string{"x", "a 10-a.conf", "b 20-b.conf"}, 2},
		{"true", `{"name":"net1","loadOnlyInlinedPlugins":true,"plugins":[{"type":"x"}]}`, []string{"x"}, 0},
		{"true-as-text", `{"name":"net1","loadOnlyInlinedPlugins":"True","plugins":[{"type":"x"}]}`, []string{"x"}, 0},
		{"no-plugins-key", `{"name":"net1"}`, []string{"a 10-a.conf", "b 20-b.conf"}, 2},
		{"other-name", `{"name":"net2","plugins":[{"type":"x"}]}`, []string{"x"}, 0},
		{"single", `{"name":"net1","type":"x"}`, []string{"x"}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := confDir(t, files)
			write(t, filepath.Join(dir, "net1.conflist"), tc.conf)
			list, err := libcni.ConfListFromFile(filepath.Join(dir, "net1.conflist"))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, p := range list.Plugins {
				line := p.Network.Type
				if p.Source != "" {
					line += " " + filepath.Base(p.Source)
				}
				got = append(got, line)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || len(list.Skipped) != tc.skipped {
				t.Errorf("plugins (-want +got):\n%sskipped %v", diff, list.Skipped)
			}
		})
	}
	dir := confDir(t, files)
	for conf, why := range map[string]string{
		`{"name":"net3","loadOnlyInlinedPlugins":true}`: "plugins",
		`{"name":"net3"}`: "no plugins",
	} {
		write(t, filepath.Join(dir, "x.conflist"), conf)
		if _, err := libcni.ConfListFromFile(filepath.Join(dir, "x.conflist")); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", conf, err)
		}
	}
	if confs, err := libcni.NetworkPluginConfsFromFiles(filepath.Join(dir, "net1"), ".."); err == nil || confs != nil {
		t.Errorf("a name that leads out of the folder: %v, %v", confs, err)
	}
	confs, err := libcni.NetworkPluginConfsFromFiles(dir, "net1")
	if len(confs) != 2 || err == nil || !strings.Contains(err.Error(), "50-bad.conf:1:9") {
		t.Errorf("%d plugins, %v", len(confs), err)
	}
}

// TestSiblingPluginsAreDeleted though the folder is gone by then: the record holds the list as it was run.
func TestSiblingPluginsAreDeleted(t *testing.T) {
	dir := confDir(t, map[string]string{"net1.conflist": listOf("net1", "a"), "net1/10-b.conf": `{"type":"b"}`})
	list, err := libcni.LoadConfList(dir, "net1")
	if err != nil {
		t.Fatal(err)
	}
	k := newKit(t)
	k.mustAdd(t, list, attachment())
	k.lines()
	if err := os.RemoveAll(filepath.Join(dir, "net1")); err != nil {
		t.Fatal(err)
	}
	if list, err = libcni.LoadConfList(dir, "net1"); err != nil {
		t.Fatal(err)
	}
	k.mustDel(t, list, attachment())
	if diff := cmp.Diff([]string{"DEL b", "DEL a"}, k.lines()); diff != "" {
		t.Errorf("ran (-want +got):\n%s", diff)
	}
}

func TestInjectConf(t *testing.T) {
	p, err := libcni.ConfFromBytes([]byte(`{"type":"a","big":9007199254740993,"x":1}`))
	if err != nil {
		t.Fatal(err)
	}
	injected, err := libcni.InjectConf(p, map[string]any{"x": "<new>", "name": "n", "added": []int{1}})
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"type":"a","big":9007199254740993,"x":"<new>","added":[1],"name":"n"}`; string(injected.Bytes) != want {
		t.Errorf("got  %s\nwant %s", injected.Bytes, want)
	}
	if string(p.Bytes) != `{"type":"a","big":9007199254740993,"x":1}` || p.Network.Name != "" {
		t.Errorf("the original changed: %s", p.Bytes)
	}
	for _, values := range []map[string]any{{"": 1}, {"x": nil}, {"type": ""}, {"x": func() {}}} {
		if _, err := libcni.InjectConf(p, values); err == nil {
			t.Errorf("injecting %v succeeds", values)
		}
	}
	list, err := libcni.ConfListFromConf(injected)
	if err != nil || list.Name != "n" || len(list.Plugins) != 1 {
		t.Fatalf("up-converted: %+v, %v", list, err)
	}
	again, err := libcni.ConfListFromBytes(list.Bytes)
	if err != nil || string(again.Plugins[0].Bytes) != string(injected.Bytes) {
		t.Errorf("what it records: %s, %v", list.Bytes, err)
	}
}

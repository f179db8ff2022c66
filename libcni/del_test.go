package libcni_test

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/libcni"
)

// TestB002UnusableRecord: DEL, ADD, CHECK, GC and listing with a record that can't be used.
func TestB002UnusableRecord(t *testing.T) {
	locks := t.TempDir()
	for _, tc := range []struct {
		name  string
		spoil func(t *testing.T, path string)
	}{
		{"empty", func(t *testing.T, path string) { write(t, path, "") }},
		{"half", func(t *testing.T, path string) {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			write(t, path, string(data[:len(data)/2]))
		}},
		{"nuls", func(t *testing.T, path string) { write(t, path, strings.Repeat("\x00", 4096)) }},
		{"noise", func(t *testing.T, path string) { write(t, path, "\xff\x80{]") }},
		{"null", func(t *testing.T, path string) { write(t, path, "null") }},
		{"other-kind", func(t *testing.T, path string) { write(t, path, `{"kind":"cniCacheV9"}`) }},
		{"folder", func(t *testing.T, path string) {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
		}},
		{"dead-link", func(t *testing.T, path string) {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink("nowhere", path); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k := newKit(t, func(cfg *libcni.Config) { cfg.LockDir = locks })
			list := network(t, "1.1.0", "a", "b")
			k.mustAdd(t, list, attachment())
			tc.spoil(t, k.recordPath())
			k.calls()

			if err := k.CheckNetworkList(t.Context(), list, attachment()); err == nil {
				t.Error("CHECK without a record succeeds")
			}
			if err := k.GCNetworkList(t.Context(), list, &libcni.GCArgs{ValidAttachments: []cni.Attachment{{ContainerID: "c1", IfName: "eth0"}}}); err != nil {
				t.Errorf("GC: %v", err)
			}
			all, err := k.Attachments(t.Context())
			if err != nil || len(all) != 1 || all[0].State != libcni.StateBroken || all[0].Err == nil {
				t.Errorf("attachments %+v, %v", all, err)
			}
			if cached, err := k.GetCachedAttachments("c1"); err != nil || len(cached) != 0 {
				t.Errorf("cached attachments %+v, %v", cached, err)
			}
			k.calls()
			k.mustDel(t, list, attachment())
			ran := k.calls()
			if len(ran) != 2 || ran[0].Type != "b" || ran[0].Prev != nil || ran[1].Prev != nil {
				t.Errorf("DEL ran %+v", ran)
			}
			if !strings.Contains(k.log.String(), "record can't be used") {
				t.Errorf("nothing of it in the log:\n%s", k.log)
			}
			if records, _ := k.stored(t); len(records) > 0 {
				t.Errorf("left: %v", records)
			}
		})
	}
}

// TestB002AddOverUnusableRecord: it is of an earlier boot or a killed writer, and void.
func TestB002AddOverUnusableRecord(t *testing.T) {
	k := newKit(t)
	write(t, k.recordPath(), "")
	k.mustAdd(t, network(t, "1.1.0", "a"), attachment())
	if diff := cmp.Diff([]string{"DEL a", "ADD a"}, k.lines()); diff != "" {
		t.Errorf("ran (-want +got):\n%s", diff)
	}
	if a, err := k.GetCachedAttachments("c1"); err != nil || len(a) != 1 {
		t.Errorf("attachments %v, %v", a, err)
	}
}

// TestB010DelStopsAtTheFirstError keeps the record, so that the next DEL does all of it.
func TestB010DelStopsAtTheFirstError(t *testing.T) {
	for _, tc := range []struct {
		name       string
		bestEffort bool
		want       []string
	}{
		{"stops", false, []string{"DEL c", "DEL b"}},
		{"best-effort", true, []string{"DEL c", "DEL b", "DEL a"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k := newKit(t, func(cfg *libcni.Config) { cfg.BestEffort = tc.bestEffort })
			list := network(t, "1.1.0", "a", "b", "c")
			k.mustAdd(t, list, attachment())
			k.lines()
			k.plugins["b"] = verbs{cni.VerbDel: answers("", pluginError(100, "dnsname: no such folder"))}
			err := k.DelNetworkList(t.Context(), list, attachment())
			if cni.CodeOf(err) != 100 || !strings.Contains(err.Error(), "b: dnsname") {
				t.Errorf("error %v", err)
			}
			if diff := cmp.Diff(tc.want, k.lines()); diff != "" {
				t.Errorf("ran (-want +got):\n%s", diff)
			}
			// B071: the record goes only with the last of the attachment.
			if records, _ := k.stored(t); len(records) != 1 {
				t.Fatalf("records %v", records)
			}
			k.plugins["b"] = verbs{}
			k.mustDel(t, list, attachment())
			ran := k.calls()
			if len(ran) != 3 || ran[1].Prev == nil {
				t.Errorf("retry ran %+v", ran)
			}
			if records, _ := k.stored(t); len(records) > 0 {
				t.Errorf("left: %v", records)
			}
		})
	}
}

// TestB071UnknownIsSuccess: plugins run, without prevResult, for what may be there.
func TestB071UnknownIsSuccess(t *testing.T) {
	k := newKit(t)
	k.mustDel(t, network(t, "1.1.0", "a", "b"), attachment())
	if diff := cmp.Diff([]string{"DEL b", "DEL a"}, k.lines()); diff != "" {
		t.Errorf("ran (-want +got):\n%s", diff)
	}
}

// TestB008DelOfUnknownWithMissingPlugin: a retry loop of ADD and DEL over a plugin that isn't installed ends in no deadlock, and
// the plugins that are there are asked. What is recorded needs all of its plugins.
func TestB008DelOfUnknownWithMissingPlugin(t *testing.T) {
	k := newKit(t)
	list := network(t, "1.1.0", "a", "x")
	if _, err := k.AddNetworkList(t.Context(), list, attachment()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("ADD: %v", err)
	}
	k.mustDel(t, list, attachment())
	if diff := cmp.Diff([]string{"DEL a"}, k.lines()); diff != "" || !strings.Contains(k.log.String(), "find x") {
		t.Errorf("ran (-want +got):\n%slog:\n%s", diff, k.log)
	}
	list = network(t, "1.1.0", "a", "b")
	k.mustAdd(t, list, attachment())
	delete(k.plugins, "b")
	if err := k.DelNetworkList(t.Context(), list, attachment()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("DEL of a recorded attachment: %v", err)
	}
	if records, _ := k.stored(t); len(records) != 1 {
		t.Errorf("records %v", records)
	}
}

// TestB104DelOfUnknownWithForeignVersion: nothing was added, so a version nobody speaks is no obstacle.
func TestB104DelOfUnknownWithForeignVersion(t *testing.T) {
	for _, version := range []string{"2.0.0", "1.1.0"} {
		k := newKit(t)
		k.plugins["a"] = verbs{cni.VerbDel: answers("", pluginError(cni.CodeIncompatibleVersion, "incompatible CNI versions"))}
		list := network(t, version, "a")
		if err := k.DelNetworkList(t.Context(), list, attachment()); err != nil {
			t.Errorf("DEL of what was never added, version %s: %v", version, err)
		}
		if _, err := k.AddNetworkList(t.Context(), list, attachment()); version == "2.0.0" && cni.CodeOf(err) != cni.CodeIncompatibleVersion {
			t.Errorf("ADD in version 2.0.0: %v", err)
		}
	}
}

// TestB017DelUsesTheRecordedList: neither a new version nor a new list in the file touches what was added before.
func TestB017DelUsesTheRecordedList(t *testing.T) {
	k := newKit(t)
	k.mustAdd(t, network(t, "0.4.0", "a", "b"), attachment())
	k.calls()
	k.mustDel(t, network(t, "1.1.0", "c"), attachment())
	ran := k.calls()
	if len(ran) != 2 || ran[0].Type != "b" || ran[1].Type != "a" {
		t.Fatalf("ran %+v", ran)
	}
	version, _ := ran[0].Conf.Get("cniVersion")
	if string(version) != `"0.4.0"` || !strings.Contains(string(ran[0].Prev), `"0.4.0"`) {
		t.Errorf("version %s, prevResult %s", version, ran[0].Prev)
	}
}

// TestDelUsesTheGivenListForLostPlugins, and says so.
func TestDelUsesTheGivenListForLostPlugins(t *testing.T) {
	k := newKit(t)
	k.mustAdd(t, network(t, "1.1.0", "a", "b"), attachment())
	k.lines()
	delete(k.plugins, "b")
	k.mustDel(t, network(t, "1.1.0", "a", "c"), attachment())
	if diff := cmp.Diff([]string{"DEL c", "DEL a"}, k.lines()); diff != "" {
		t.Errorf("ran (-want +got):\n%s", diff)
	}
	if !strings.Contains(k.log.String(), "using the configured list") {
		t.Errorf("nothing of it in the log:\n%s", k.log)
	}
}

// TestDelPrevResult: below 0.4.0 DEL gets none, from then on all plugins get the final one.
func TestDelPrevResult(t *testing.T) {
	for version, want := range map[string]bool{"0.1.0": false, "0.3.1": false, "0.4.0": true, "1.0.0": true, "1.1.0": true} {
		k := newKit(t)
		k.plugins["a"] = verbs{cni.VerbAdd: answers(`{"cniVersion":"`+version+`","ip4":{"ip":"10.1.0.5/16"},"ips":[{"version":"4","address":"10.1.0.5/16"}]}`, nil)}
		list := network(t, version, "a", "b")
		k.mustAdd(t, list, attachment())
		k.calls()
		k.mustDel(t, list, attachment())
		for _, call := range k.calls() {
			if got := call.Prev != nil; got != want {
				t.Errorf("version %s: DEL %s has prevResult: %v, want %v", version, call.Type, got, want)
			}
		}
	}
}

// TestB083Names: bad ones are refused before anything happens, but what an older runtime recorded can be deleted.
func TestB083Names(t *testing.T) {
	list := network(t, "1.1.0", "a")
	for _, id := range []string{"", "../../x", "a/b", ".a", "-a", "a b", strings.Repeat("x", 300), "a\x00b"} {
		k := newKit(t)
		rt := attachment()
		rt.ContainerID = id
		if _, err := k.AddNetworkList(t.Context(), list, rt); err == nil {
			t.Errorf("ADD of container %q succeeds", id)
		}
		if err := k.DelNetworkList(t.Context(), list, rt); err == nil {
			t.Errorf("DEL of container %q succeeds", id)
		}
		if err := k.CheckNetworkList(t.Context(), list, rt); err == nil {
			t.Errorf("CHECK of container %q succeeds", id)
		}
		if ran := k.lines(); ran != nil {
			t.Errorf("container %q: ran %v", id, ran)
		}
	}
	k := newKit(t)
	rt := attachment()
	rt.ContainerID = "_old id"
	write(t, k.state+"/results/net1-_old id-eth0", `{"kind":"cniCacheV1","containerId":"_old id","networkName":"net1","ifName":"eth0",`+
		`"config":"eyJjbmlWZXJzaW9uIjoiMS4wLjAiLCJuYW1lIjoibmV0MSIsInBsdWdpbnMiOlt7InR5cGUiOiJhIn1dfQ==","result":{"cniVersion":"1.0.0"}}`)
	k.mustDel(t, list, rt)
	if records, _ := k.stored(t); len(records) > 0 {
		t.Errorf("left: %v", records)
	}
	if _, err := k.AddNetworkList(t.Context(), list, &libcni.RuntimeConf{ContainerID: "x", NetNS: "/proc/self/ns/net", IfName: "eth0"}); err != nil {
		t.Errorf("an ID of one letter: %v", err)
	}
}

// TestB083LongNames: the joined names don't fit into a file name.
func TestB083LongNames(t *testing.T) {
	k := newKit(t)
	list := network(t, "1.1.0", "a")
	rt := attachment()
	rt.ContainerID = strings.Repeat("x", 250)
	other := *rt
	other.ContainerID = strings.Repeat("x", 249) + "y"
	k.mustAdd(t, list, rt)
	k.mustAdd(t, list, &other)
	if records, _ := k.stored(t); len(records) != 2 || len(records[0]) != 255 {
		t.Errorf("records %v", records)
	}
	if a, err := k.GetCachedAttachments(rt.ContainerID); err != nil || len(a) != 1 || a[0].ContainerID != rt.ContainerID {
		t.Errorf("attachments of the long ID: %v, %v", a, err)
	}
	k.mustDel(t, list, rt)
	if a, err := k.GetCachedAttachments(""); err != nil || len(a) != 1 || a[0].ContainerID != other.ContainerID {
		t.Errorf("attachments after DEL: %v, %v", a, err)
	}
}

// TestCollidingNames: ("a-b","c") and ("a","b-c") have one joined name and must not share a record.
func TestCollidingNames(t *testing.T) {
	k := newKit(t)
	first := parse(t, `{"cniVersion":"1.1.0","name":"a-b","plugins":[{"type":"a"}]}`)
	second := parse(t, `{"cniVersion":"1.1.0","name":"a","plugins":[{"type":"b"}]}`)
	rt1 := &libcni.RuntimeConf{ContainerID: "c", NetNS: "/proc/self/ns/net", IfName: "eth0"}
	rt2 := &libcni.RuntimeConf{ContainerID: "b-c", NetNS: "/proc/self/ns/net", IfName: "eth0"}
	k.mustAdd(t, first, rt1)
	k.mustAdd(t, second, rt2)
	records, _ := k.stored(t)
	if len(records) != 2 || records[0] != "a-b-c-eth0" || !strings.HasPrefix(records[1], "a-b-c-eth0~") {
		t.Fatalf("records %v", records)
	}
	k.mustDel(t, first, rt1)
	if err := k.CheckNetworkList(t.Context(), second, rt2); err != nil {
		t.Errorf("CHECK of the second after DEL of the first: %v", err)
	}
	// The plain name is free now, but the record stays where it is and is found there.
	if _, err := k.AddNetworkList(t.Context(), second, rt2); err == nil {
		t.Error("second ADD succeeds")
	}
	k.mustDel(t, second, rt2)
	if records, _ := k.stored(t); len(records) > 0 {
		t.Errorf("left: %v", records)
	}
}

// TestForeignRecords: what the Go library of the field and its first versions wrote.
func TestForeignRecords(t *testing.T) {
	list := parse(t, `{"cniVersion":"1.0.0","name":"net1","plugins":[{"type":"a"}]}`)
	for name, text := range map[string]string{
		"record": `{"kind":"cniCacheV1","containerId":"c1","networkName":"net1","ifName":"eth0","netns":"/proc/self/ns/net",` +
			`"config":"eyJjbmlWZXJzaW9uIjoiMS4wLjAiLCJuYW1lIjoibmV0MSIsInBsdWdpbnMiOlt7InR5cGUiOiJhIn1dfQ==",` +
			`"cniArgs":[["K","V"]],"result":{"cniVersion":"1.0.0","ips":[{"address":"10.1.0.9/16"}]}}`,
		"older-result":    `{"cniVersion":"0.4.0","ips":[{"version":"4","address":"10.1.0.9/16"}],"dns":{}}`,
		"oldest-result":   `{"ip4":{"ip":"10.1.0.9/16"},"dns":{}}`,
		"pretty-printed":  "{\n  \"cniVersion\": \"1.0.0\",\n  \"ips\": [{\"address\": \"10.1.0.9/16\"}]\n}\n",
		"version-unknown": `{"cniVersion":"1.0.0","ips":[{"address":"10.1.0.9/16"}],"future":{"x":1}}`,
	} {
		t.Run(name, func(t *testing.T) {
			k := newKit(t)
			write(t, k.recordPath(), text)
			result, err := k.GetNetworkListCachedResult(list, attachment())
			if err != nil || len(result.IPs) != 1 || result.IPs[0].Address.String() != "10.1.0.9/16" {
				t.Fatalf("cached result %+v, %v", result, err)
			}
			if err := k.CheckNetworkList(t.Context(), list, attachment()); err != nil {
				t.Errorf("CHECK: %v", err)
			}
			k.calls()
			k.mustDel(t, list, attachment())
			ran := k.calls()
			if len(ran) != 1 || !strings.Contains(string(ran[0].Prev), "10.1.0.9/16") {
				t.Errorf("DEL ran %+v", ran)
			}
			if want := name == "record"; (len(ran[0].Args) == 1) != want {
				t.Errorf("arguments %v", ran[0].Args)
			}
			if records, _ := k.stored(t); len(records) > 0 {
				t.Errorf("left: %v", records)
			}
		})
	}
}

// TestInconvertibleRecord: DEL goes on without prevResult.
func TestInconvertibleRecord(t *testing.T) {
	k := newKit(t)
	write(t, k.recordPath(), `{"cniVersion":"9.9.9","ips":[{"address":"10.1.0.9/16"}]}`)
	k.mustDel(t, network(t, "1.1.0", "a"), attachment())
	if ran := k.calls(); len(ran) != 1 || ran[0].Prev != nil {
		t.Errorf("ran %+v", ran)
	}
	if records, _ := k.stored(t); len(records) > 0 {
		t.Errorf("left: %v", records)
	}
}

package libcni_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/libcni"
)

// TestBytesPassThrough: what a plugin says and what is configured for it arrives as it was written.
func TestBytesPassThrough(t *testing.T) {
	const (
		conf   = `{"cniVersion":"1.1.0","name":"net1","plugins":[{"type":"a"},{"z":1e2,"type":"b","big":9007199254740993,"html":"<&>","capabilities":{"mac":true},"cni.dev/x":1}]}`
		result = `{"z":1.0, "cniVersion":"1.1.0","ips":[{"address":"10.1.0.5/16","mine":9007199254740993}],"html":"<&>"}`
	)
	k := newKit(t)
	k.plugins["a"] = verbs{cni.VerbAdd: answers(result, nil)}
	list := parse(t, conf)
	rt := attachment()
	rt.CapabilityArgs = map[string]any{"mac": "aa:bb:cc:dd:ee:ff", "ips": json.RawMessage(`["10.1.0.7"]`)}
	k.mustAdd(t, list, rt)
	ran := k.calls()
	want := `{"z":1e2,"type":"b","big":9007199254740993,"html":"<&>","cniVersion":"1.1.0","name":"net1",` +
		`"runtimeConfig":{"mac":"aa:bb:cc:dd:ee:ff"},"prevResult":` + result + `}`
	if diff := cmp.Diff(decode(t, want), decode(t, string(ran[1].Stdin()))); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
	for _, part := range []string{`"z":1e2`, `"big":9007199254740993`, `"html":"<&>"`, `"prevResult":` + result} {
		if !strings.Contains(string(ran[1].Stdin()), part) {
			t.Errorf("request lacks %s:\n%s", part, ran[1].Stdin())
		}
	}
	data, err := os.ReadFile(k.recordPath())
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{`"z":1.0`, `"mine":9007199254740993`, `"html":"<&>"`} {
		if !strings.Contains(string(data), part) {
			t.Errorf("record lacks %s:\n%s", part, data)
		}
	}
	k.mustDel(t, list, &libcni.RuntimeConf{ContainerID: "c1", IfName: "eth0"})
	for _, call := range k.calls() {
		if !strings.Contains(string(call.Prev), `"mine":9007199254740993`) {
			t.Errorf("prevResult of DEL: %s", call.Prev)
		}
		if mac := strings.Contains(string(call.Stdin()), `"mac":"aa:bb`); mac != (call.Type == "b") {
			t.Errorf("DEL %s has the recorded capability: %v", call.Type, mac)
		}
	}
}

func decode(t *testing.T, text string) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return m
}

// TestResultVersions: an answer in another version is converted, one that names none is taken for the one asked for, what is
// no result is the plugin's fault.
func TestResultVersions(t *testing.T) {
	for _, tc := range []struct {
		name, out, want string
		code            cni.Code
	}{
		{"same", `{"cniVersion":"1.0.0","ips":[{"address":"10.1.0.5/16"}]}`, "10.1.0.5/16", 0},
		{"older", `{"cniVersion":"0.3.1","ips":[{"version":"4","address":"10.1.0.5/16"}]}`, "10.1.0.5/16", 0},
		{"none", `{"ips":[{"address":"10.1.0.5/16"}]}`, "10.1.0.5/16", 0},
		{"unknown", `{"cniVersion":"7.0.0","ips":[{"address":"10.1.0.5/16"}]}`, "", cni.CodeDecode},
		{"bad-address", `{"cniVersion":"1.0.0","ips":[{"address":"10.1.0.500/16"}]}`, "", cni.CodeDecode},
		{"no-object", `[1]`, "", cni.CodeDecode},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k := newKit(t)
			k.plugins["a"] = verbs{cni.VerbAdd: answers(tc.out, nil)}
			result, err := k.AddNetworkList(t.Context(), network(t, "1.0.0", "a", "b"), attachment())
			if cni.CodeOf(err) != tc.code {
				t.Fatalf("error %v (code %d), want code %d", err, cni.CodeOf(err), tc.code)
			}
			if err != nil {
				if diff := cmp.Diff([]string{"ADD a", "DEL a"}, k.lines()); diff != "" {
					t.Errorf("ran (-want +got):\n%s", diff)
				}
				if !strings.Contains(err.Error(), "a: read result") {
					t.Errorf("error %v doesn't name the plugin", err)
				}
				return
			}
			if got := result.IPs[0].Address.String(); got != tc.want || result.CNIVersion != "1.0.0" {
				t.Errorf("result %+v", result)
			}
			if prev := k.calls()[1].Prev; !strings.Contains(string(prev), `"cniVersion":"1.0.0"`) {
				t.Errorf("prevResult %s", prev)
			}
		})
	}
}

func TestCheck(t *testing.T) {
	k := newKit(t)
	list := network(t, "1.1.0", "a", "b", "c")
	if err := k.CheckNetworkList(t.Context(), list, attachment()); cni.CodeOf(err) != cni.CodeUnknownContainer {
		t.Errorf("CHECK before ADD: %v", err)
	}
	k.mustAdd(t, list, attachment())
	k.plugins["b"] = verbs{cni.VerbCheck: answers("", pluginError(100, "route is missing"))}
	k.calls()
	err := k.CheckNetworkList(t.Context(), list, attachment())
	if cni.CodeOf(err) != 100 || !strings.Contains(err.Error(), "b: route is missing") {
		t.Errorf("error %v", err)
	}
	ran := k.calls()
	if len(ran) != 2 || ran[0].Prev == nil || ran[1].Prev == nil {
		t.Errorf("ran %+v", ran)
	}
	k.plugins["b"] = verbs{}
	if err := k.CheckNetworkList(t.Context(), list, attachment()); err != nil {
		t.Errorf("CHECK of what is in order: %v", err)
	}
	k.mustDel(t, list, attachment())
	if err := k.CheckNetworkList(t.Context(), list, attachment()); cni.CodeOf(err) != cni.CodeUnknownContainer {
		t.Errorf("CHECK after DEL: %v", err)
	}
}

func TestCheckVersionAndDisabled(t *testing.T) {
	k := newKit(t)
	err := k.CheckNetworkList(t.Context(), network(t, "0.3.1", "a"), attachment())
	if !errors.Is(err, libcni.ErrorCheckNotSupp) || err.Error() != `configuration version "0.3.1" does not support the CHECK command` {
		t.Errorf("CHECK in 0.3.1: %v", err)
	}
	list := parse(t, `{"cniVersion":"1.1.0","name":"net1","disableCheck":true,"plugins":[{"type":"a"}]}`)
	if err := k.CheckNetworkList(t.Context(), list, attachment()); err != nil {
		t.Errorf("CHECK that is disabled: %v", err)
	}
	if ran := k.lines(); ran != nil {
		t.Errorf("ran %v", ran)
	}
}

// TestB041ChangedSandbox: the log names the plugin that changed it and both values.
func TestB041ChangedSandbox(t *testing.T) {
	k := newKit(t)
	k.plugins["a"] = verbs{cni.VerbAdd: answers(`{"cniVersion":"1.1.0","interfaces":[{"name":"br0"},{"name":"eth0","sandbox":"/proc/self/ns/net"}]}`, nil)}
	k.plugins["b"] = verbs{cni.VerbAdd: answers(`{"cniVersion":"1.1.0","interfaces":[{"name":"eth0"}]}`, nil)}
	k.mustAdd(t, network(t, "1.1.0", "a", "b", "c"), attachment())
	log := k.log.String()
	if strings.Count(log, "changed the namespace") != 1 || !strings.Contains(log, "plugin=b") ||
		!strings.Contains(log, `/proc/self/ns/net`) || !strings.Contains(log, `after="[\"\"]"`) {
		t.Errorf("log:\n%s", log)
	}
}

// TestB062CapabilityNobodyDeclares is in the log; empty values, which runtimes send always, are not.
func TestB062CapabilityNobodyDeclares(t *testing.T) {
	k := newKit(t)
	list := parse(t, `{"cniVersion":"1.1.0","name":"net1","plugins":[{"type":"a","capabilities":{"portMapping":true,"mac":true}},{"type":"b","capabilities":{"portMappings":false}}]}`)
	rt := attachment()
	rt.CapabilityArgs = map[string]any{
		"portMappings": []map[string]any{{"hostPort": 8080}}, "mac": "aa:bb:cc:dd:ee:ff",
		"bandwidth": map[string]any{}, "ipRanges": []any{}, "dns": nil,
	}
	k.mustAdd(t, list, rt)
	log := k.log.String()
	if strings.Count(log, "capability=") != 1 || !strings.Contains(log, "capability=portMappings network=net1") {
		t.Errorf("log:\n%s", log)
	}
	for _, call := range k.calls() {
		if got := string(call.Stdin()); strings.Contains(got, "portMappings") || strings.Contains(got, "capabilities") {
			t.Errorf("request of %s: %s", call.Type, got)
		}
	}
}

// TestB062CapabilityThatIsNoBool is refused with its place, before it can do nothing silently.
func TestB062CapabilityThatIsNoBool(t *testing.T) {
	for _, value := range []string{`"true"`, `{"snat":true}`, `1`} {
		conf := `{"cniVersion":"1.0.0","name":"net1","plugins":[{"type":"a","capabilities":{"portMappings":` + value + `}}]}`
		if _, err := libcni.ConfListFromBytes([]byte(conf)); err == nil || !strings.Contains(err.Error(), "plugins[0].capabilities.portMappings") {
			t.Errorf("%s: %v", value, err)
		}
	}
}

func TestStatus(t *testing.T) {
	k := newKit(t)
	k.plugins["b"] = verbs{cni.VerbStatus: answers("", pluginError(51, "daemon is away"))}
	list := network(t, "1.1.0", "a", "b", "c")
	if err := k.GetStatusNetworkList(t.Context(), list); cni.CodeOf(err) != 51 {
		t.Errorf("error %v, want code 51", err)
	}
	if diff := cmp.Diff([]string{"STATUS a", "STATUS b"}, k.lines()); diff != "" {
		t.Errorf("ran (-want +got):\n%s", diff)
	}
	if err := k.GetStatusNetworkList(t.Context(), network(t, "1.0.0", "a", "b")); err != nil {
		t.Errorf("STATUS in 1.0.0: %v", err)
	}
	if err := k.GetStatusNetworkList(t.Context(), network(t, "1.1.0", "a", "x")); cni.CodeOf(err) != cni.CodeNotAvailable {
		t.Errorf("STATUS with a plugin that isn't installed: %v, want code 50", err)
	}
	if ran := k.lines(); ran != nil {
		t.Errorf("ran %v", ran)
	}
}

// TestB076GC: recorded attachments that aren't valid get DEL with their own list, then plugins are told; never everything by
// mistake.
func TestB076GC(t *testing.T) {
	k := newKit(t)
	list := network(t, "1.1.0", "a", "b")
	for _, id := range []string{"keep", "stale"} {
		k.mustAdd(t, network(t, "1.1.0", "c"), &libcni.RuntimeConf{ContainerID: id, NetNS: "/proc/self/ns/net", IfName: "eth0"})
	}
	other := parse(t, `{"cniVersion":"1.1.0","name":"net2","plugins":[{"type":"a"}]}`)
	k.mustAdd(t, other, attachment())
	k.calls()

	if err := k.GCNetworkList(t.Context(), list, nil); cni.CodeOf(err) != cni.CodeInvalidConfig {
		t.Errorf("GC without a list: %v, want code 7", err)
	}
	valid := []cni.Attachment{{ContainerID: "keep", IfName: "eth0"}}
	if err := k.GCNetworkList(t.Context(), list, &libcni.GCArgs{ValidAttachments: valid}); err != nil {
		t.Fatal(err)
	}
	ran := k.calls()
	if len(ran) != 3 || ran[0].Verb != cni.VerbDel || ran[0].Type != "c" || ran[0].ContainerID != "stale" {
		t.Fatalf("ran %+v", ran)
	}
	for _, call := range ran[1:] {
		want := `[{"containerID":"keep","ifname":"eth0"}]`
		for _, name := range []string{"cni.dev/valid-attachments", "cni.dev/attachments"} {
			if got, _ := call.Conf.Get(name); call.Verb != cni.VerbGC || string(got) != want || call.ContainerID != "" {
				t.Errorf("%s of %s: %s is %s, want %s", call.Verb, call.Type, name, got, want)
			}
		}
	}
	records, _ := k.stored(t)
	if diff := cmp.Diff([]string{"net1-keep-eth0", "net2-c1-eth0"}, records); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}

	if err := k.GCNetworkList(t.Context(), list, &libcni.GCArgs{}); err != nil {
		t.Fatal(err)
	}
	ran = k.calls()
	if got, _ := ran[len(ran)-1].Conf.Get("cni.dev/valid-attachments"); string(got) != "[]" {
		t.Errorf("empty list is sent as %s", got)
	}
	disabled := parse(t, `{"cniVersion":"1.1.0","name":"net2","disableGC":true,"plugins":[{"type":"a"}]}`)
	if err := k.GCNetworkList(t.Context(), disabled, &libcni.GCArgs{}); err != nil {
		t.Errorf("GC that is disabled: %v", err)
	}
	if err := k.GCNetworkList(t.Context(), network(t, "1.0.0", "a"), &libcni.GCArgs{}); err != nil {
		t.Errorf("GC in 1.0.0: %v", err)
	}
	if ran := k.lines(); ran != nil {
		t.Errorf("ran %v", ran)
	}
}

// TestGCKeepsWhatIsNewer than the list of valid attachments, which can't have it.
func TestGCKeepsWhatIsNewer(t *testing.T) {
	k := newKit(t)
	list := network(t, "1.1.0", "a")
	before := time.Now().Add(-time.Second)
	k.mustAdd(t, list, attachment())
	k.calls()
	if err := k.GCNetworkList(t.Context(), list, &libcni.GCArgs{Since: before}); err != nil {
		t.Fatal(err)
	}
	ran := k.calls()
	if got, _ := ran[0].Conf.Get("cni.dev/valid-attachments"); len(ran) != 1 || string(got) != `[{"containerID":"c1","ifname":"eth0"}]` {
		t.Errorf("ran %+v, valid %s", ran, got)
	}
}

// TestGCKeepsWhatWasBeingAdded when the list of valid attachments was put together, and is attached by the time that GC comes to it.
func TestGCKeepsWhatWasBeingAdded(t *testing.T) {
	k := newKit(t)
	list := network(t, "1.1.0", "a")
	var since time.Time
	k.plugins["a"] = verbs{cni.VerbAdd: func(call libcni.Call) ([]byte, error) {
		since = time.Now()
		return silent(call)
	}}
	k.mustAdd(t, list, attachment())
	k.calls()
	if err := k.GCNetworkList(t.Context(), list, &libcni.GCArgs{Since: since}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"GC a"}, k.lines()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if err := k.GCNetworkList(t.Context(), list, &libcni.GCArgs{}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"DEL a", "GC a"}, k.lines()); diff != "" {
		t.Errorf("calls of a GC with a later list (-want +got):\n%s", diff)
	}
}

// TestGCSweepsEmptyRecords of the network, but for those of valid attachments; others that can't be read stay.
func TestGCSweepsEmptyRecords(t *testing.T) {
	k := newKit(t)
	list := network(t, "1.1.0", "a")
	for _, name := range []string{list.Name + "-valid-eth0", list.Name + "-killed-eth0", "other-killed-eth0"} {
		write(t, k.state+"/results/"+name, "")
	}
	write(t, k.state+"/results/"+list.Name+"-odd-eth0", "{")
	valid := &libcni.GCArgs{ValidAttachments: []cni.Attachment{{ContainerID: "valid", IfName: "eth0"}}}
	if err := k.GCNetworkList(t.Context(), list, valid); err != nil {
		t.Fatal(err)
	}
	left := []string{list.Name + "-odd-eth0", list.Name + "-valid-eth0", "other-killed-eth0"}
	if records, _ := k.stored(t); !slices.Equal(records, left) {
		t.Errorf("records %v, want %v", records, left)
	}
}

// TestGCGoesOnAfterErrors and returns all of them.
func TestGCGoesOnAfterErrors(t *testing.T) {
	k := newKit(t)
	k.plugins["a"] = verbs{cni.VerbGC: answers("", pluginError(5, "one")), cni.VerbDel: answers("", pluginError(5, "three"))}
	k.plugins["b"] = verbs{cni.VerbGC: answers("", pluginError(5, "two"))}
	list := network(t, "1.1.0", "a", "b", "c")
	k.mustAdd(t, list, attachment())
	k.lines()
	write(t, k.state+"/cleat/adding/.tmp-123", "left by a killed writer")
	err := k.GCNetworkList(t.Context(), list, &libcni.GCArgs{})
	for _, part := range []string{"a: one", "b: two", "delete c1/eth0: a: three"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("error %v lacks %q", err, part)
		}
	}
	if diff := cmp.Diff([]string{"DEL c", "DEL b", "DEL a", "GC a", "GC b", "GC c"}, k.lines()); diff != "" {
		t.Errorf("ran (-want +got):\n%s", diff)
	}
	if records, intents := k.stored(t); len(records) != 1 || len(intents) != 0 {
		t.Errorf("stored %v %v, want the record only", records, intents)
	}
	if err := os.RemoveAll(k.state + "/results"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("results", k.state+"/results"); err != nil { // a folder that can't be listed
		t.Fatal(err)
	}
	if err := k.GCNetworkList(t.Context(), list, &libcni.GCArgs{}); err == nil {
		t.Error("GC succeeds though what is attached can't be read")
	}
	if ran := k.lines(); ran != nil {
		t.Errorf("ran %v", ran)
	}
}

// TestB017Validate names the plugin, where it is, and what all could agree on.
func TestB017Validate(t *testing.T) {
	k := newKit(t)
	old := answers(`{"cniVersion":"1.1.0","supportedVersions":["0.3.1","0.4.0","0.3.0"]}`, nil)
	k.plugins["b"] = verbs{cni.VerbVersion: old}
	k.plugins["c"] = verbs{cni.VerbVersion: answers("", pluginError(100, "unknown CNI_COMMAND: VERSION"))}
	list := parse(t, `{"cniVersion":"1.0.0","name":"net1","plugins":[{"type":"a","capabilities":{"mac":true,"ips":false}},{"type":"b","capabilities":{"bandwidth":true}}]}`)
	_, err := k.ValidateNetworkList(t.Context(), list)
	for _, part := range []string{"b: /fake/b doesn't speak version 1.0.0", "0.3.1, 0.4.0", "highest version that all plugins speak is 0.4.0"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("error %v lacks %q", err, part)
		}
	}
	if cni.CodeOf(err) != cni.CodeIncompatibleVersion {
		t.Errorf("code %d, want 1", cni.CodeOf(err))
	}
	delete(k.plugins["b"], cni.VerbVersion)
	caps, err := k.ValidateNetworkList(t.Context(), list)
	if diff := cmp.Diff([]string{"bandwidth", "mac"}, caps); diff != "" || err != nil {
		t.Errorf("capabilities (-want +got):\n%s%v", diff, err)
	}
	if _, err := k.ValidateNetworkList(t.Context(), network(t, "1.0.0", "missing", "gone")); err == nil ||
		!strings.Contains(err.Error(), "missing") || !strings.Contains(err.Error(), "gone") {
		t.Errorf("missing plugins: %v", err)
	}
	info, err := k.GetVersionInfo(t.Context(), "c")
	if diff := cmp.Diff([]string{"0.1.0"}, info.Supported); diff != "" || err != nil {
		t.Errorf("a plugin without VERSION (-want +got):\n%s%v", diff, err)
	}
	// B017: neither does an unknown version in cniVersions.
	if got := parse(t, `{"cniVersion":"0.4.0","cniVersions":["1.0.0","9.0.0"],"name":"n","plugins":[{"type":"a"}]}`).CNIVersion; got != "1.0.0" {
		t.Errorf("negotiated %s, want 1.0.0", got)
	}
}

// TestSinglePlugin: the forms for a network that is one plugin share the records with the lists.
func TestSinglePlugin(t *testing.T) {
	k := newKit(t)
	p, err := libcni.ConfFromBytes([]byte(`{"cniVersion":"1.0.0","name":"net1","type":"a","x":1}`))
	if err != nil {
		t.Fatal(err)
	}
	rt := attachment()
	rt.Args = cni.Args{{"K", "V"}}
	if _, err := k.AddNetwork(t.Context(), p, rt); err != nil {
		t.Fatal(err)
	}
	result, err := k.GetNetworkCachedResult(p, attachment())
	if err != nil || len(result.IPs) != 1 {
		t.Errorf("cached result %+v, %v", result, err)
	}
	conf, recorded, err := k.GetNetworkCachedConfig(p, attachment())
	if err != nil || string(conf) != string(p.Bytes) || recorded.Args.String() != "K=V" {
		t.Errorf("cached configuration %s, %+v, %v", conf, recorded, err)
	}
	if _, err := k.ValidateNetwork(t.Context(), p); err != nil {
		t.Error(err)
	}
	if err := k.CheckNetwork(t.Context(), p, attachment()); err != nil {
		t.Error(err)
	}
	if err := k.DelNetwork(t.Context(), p, attachment()); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"ADD a", "VERSION a", "CHECK a", "DEL a"}, k.lines()); diff != "" {
		t.Errorf("ran (-want +got):\n%s", diff)
	}
	if result, err := k.GetNetworkCachedResult(p, attachment()); result != nil || err != nil {
		t.Errorf("cached result after DEL: %+v, %v", result, err)
	}
}

// TestAttachments: states and fields of what is recorded.
func TestAttachments(t *testing.T) {
	k := newKit(t)
	for _, a := range []struct{ id, netns string }{{"lives", "/proc/self/ns/net"}, {"gone", k.state + "/none"}} {
		k.mustAdd(t, network(t, "1.1.0", "a"), &libcni.RuntimeConf{
			ContainerID: a.id, NetNS: a.netns, IfName: "eth0", Args: cni.Args{{"K8S_POD_NAME", a.id}},
		})
	}
	write(t, k.state+"/results/net9-x-eth0", "")
	all, err := k.Attachments(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, a := range all {
		pod, _ := a.Args.Get("K8S_POD_NAME")
		addresses := 0
		if a.Result != nil {
			addresses = len(a.Result.IPs)
		}
		if age := time.Since(a.Added); age < 0 || age > time.Minute {
			t.Errorf("%s: age %v", a.File, age)
		}
		got = append(got, fmt.Sprintf("%s %s/%s/%s pod=%s ips=%d err=%v", a.State, a.Network, a.ContainerID, a.IfName, pod, addresses, a.Err != nil))
	}
	want := []string{
		"broken // pod= ips=0 err=true",
		"orphan net1/gone/eth0 pod=gone ips=1 err=false",
		"attached net1/lives/eth0 pod=lives ips=1 err=false",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("attachments (-want +got):\n%s", diff)
	}
	if err := k.DelAttachment(t.Context(), all[0]); err == nil {
		t.Error("deleting by a record that says nothing succeeds")
	}
	k.calls()
	if err := k.DelAttachment(t.Context(), all[1]); err != nil {
		t.Fatal(err)
	}
	if ran := k.calls(); len(ran) != 1 || ran[0].NetNS != "" || ran[0].Prev == nil {
		t.Errorf("DEL of an orphan ran %+v", ran)
	}
	if err := k.DelAttachment(t.Context(), all[1]); err != nil {
		t.Errorf("again: %v", err)
	}
}

func TestCallsRunNothing(t *testing.T) {
	k := newKit(t)
	calls, err := k.Calls(cni.VerbAdd, network(t, "1.1.0", "a", "b"), attachment())
	if err != nil || len(calls) != 2 || calls[0].Verb != cni.VerbAdd || calls[1].Type != "b" {
		t.Errorf("calls %+v, %v", calls, err)
	}
	if _, err := k.Calls(cni.VerbAdd, network(t, "1.1.0", "missing"), attachment()); err == nil {
		t.Error("a missing plugin is no error")
	}
	if ran := k.lines(); ran != nil {
		t.Errorf("ran %v", ran)
	}
}

// TestRefusesNothing: nil arguments are errors, not panics.
func TestRefusesNothing(t *testing.T) {
	k := newKit(t)
	empty := &libcni.PluginConfig{}
	for name, f := range map[string]func() error{
		"add":    func() error { _, err := k.AddNetworkList(t.Context(), nil, nil); return err },
		"add-rt": func() error { _, err := k.AddNetworkList(t.Context(), network(t, "1.1.0", "a"), nil); return err },
		"del":    func() error { return k.DelNetworkList(t.Context(), &libcni.NetworkConfigList{}, nil) },
		"check":  func() error { return k.CheckNetworkList(t.Context(), nil, attachment()) },
		"gc":     func() error { return k.GCNetworkList(t.Context(), nil, &libcni.GCArgs{}) },
		"status": func() error { return k.GetStatusNetworkList(t.Context(), nil) },
		"valid":  func() error { _, err := k.ValidateNetworkList(t.Context(), nil); return err },
		"cached": func() error { _, err := k.GetNetworkListCachedResult(nil, nil); return err },
		"single": func() error { _, err := k.AddNetwork(t.Context(), empty, attachment()); return err },
		"inject": func() error { _, err := libcni.InjectConf(empty, nil); return err },
		"upconv": func() error { _, err := libcni.ConfListFromConf(nil); return err },
	} {
		if f() == nil {
			t.Errorf("%s of nothing succeeds", name)
		}
	}
}

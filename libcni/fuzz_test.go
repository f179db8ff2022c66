package libcni

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/cleat-cni/cleat/cni"
)

// FuzzConfFile: what is read as a network can be recorded and read back as the same one.
func FuzzConfFile(f *testing.F) {
	for _, conf := range []string{
		"", "{}", `{"name":"n"}`, `{"name":"n","type":"bridge"}`,
		`{"name":"n","plugins":[{"type":"bridge","ipam":{"type":"host-local"}},{"type":"portmap","capabilities":{"portMappings":true}}]}`,
		`{"cniVersion":"0.1.0","name":"n","plugins":[{"type":"a"}]}`, `{"cniVersion":"0.2.0","name":"n","type":"a"}`,
		`{"cniVersion":"0.3.0","name":"n","plugins":[{"type":"a"}]}`, `{"cniVersion":"0.3.1","name":"n","plugins":[{"type":"a"}]}`,
		`{"cniVersion":"0.4.0","name":"n","disableCheck":"true","plugins":[{"type":"a"}]}`,
		`{"cniVersion":"1.0.0","cniVersions":["1.1.0","9.0.0"],"name":"n","disableGC":true,"plugins":[{"type":"a","x":1e2}]}`,
		`{"cniVersion":"9.0.0","name":"n","loadOnlyInlinedPlugins":true,"plugins":[{"type":"a"}]}`,
		`{"name":"../n","plugins":[{"type":"a/b"}]}`, `{"name":"n","plugins":[{"type":"a",},]}`,
	} {
		f.Add([]byte(conf))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := ConfListFromBytes(data)
		if err != nil {
			return
		}
		if err := cni.CheckNetworkName(list.Name); err != nil {
			t.Errorf("a list with a bad name: %v", err)
		}
		if len(list.Plugins) == 0 {
			return
		}
		again, err := ConfListFromBytes(list.effective())
		if err != nil {
			t.Fatalf("recorded list %s: %v", list.effective(), err)
		}
		if again.Name != list.Name || again.CNIVersion != list.CNIVersion || len(again.Plugins) != len(list.Plugins) ||
			again.DisableCheck != list.DisableCheck || again.DisableGC != list.DisableGC {
			t.Errorf("recorded list %s differs from %s", list.effective(), data)
		}
		for i, p := range again.Plugins {
			if p.Network.Type != list.Plugins[i].Network.Type || !bytes.Equal(p.Bytes, list.Plugins[i].Bytes) {
				t.Errorf("recorded plugin %s differs from %s", p.Bytes, list.Plugins[i].Bytes)
			}
		}
	})
}

// fuzzRecord: what could be read can be written and read back as the same record, as an intent and with its result.
func fuzzRecord(t *testing.T, r *record) {
	// None of these may panic, whatever the record holds.
	_, _ = r.networkList()
	for _, version := range cni.Versions() {
		_, _ = r.resultAs(version)
	}
	_ = r.capabilityArgs()
	_ = (&entry{rec: r}).attachment()
	if r.legacy {
		return
	}
	text, err := r.encodeIntent()
	if err != nil {
		t.Fatalf("write it again: %v", err)
	}
	again, err := decodeIntent(text)
	if err != nil {
		t.Fatalf("read intent %s: %v", text, err)
	}
	same(t, again, r)
	if again.result != nil {
		t.Errorf("intent has result %s", again.result)
	}
	if r.result == nil {
		return
	}
	tail, err := r.encodeResult()
	if err != nil {
		t.Fatalf("write it again: %v", err)
	}
	// A writer that is killed while it appends leaves any part of it.
	for _, n := range []int{1, len(tail) / 2, len(tail) - 2} {
		if again, err = decodeIntent(append(bytes.Clone(text), tail[:n]...)); err != nil || again.result != nil {
			t.Errorf("read intent with %d bytes of a result: %+v, %v", n, again, err)
		}
	}
	if again, err = decodeRecord(append(text, tail...)); err != nil {
		t.Fatalf("read record %s%s: %v", text, tail, err)
	}
	same(t, again, r)
	var want bytes.Buffer
	if err := json.Compact(&want, r.result); err != nil || want.String() != string(again.result) {
		t.Errorf("result %s, want %s (%v)", again.result, want.String(), err)
	}
}

func same(t *testing.T, got, want *record) {
	t.Helper()
	if got.key != want.key || got.netns != want.netns || got.cookie != want.cookie || !got.added.Equal(want.added) || len(got.args) != len(want.args) {
		t.Errorf("read back %+v, want %+v", got, want)
	}
}

func FuzzRecord(f *testing.F) {
	for _, text := range []string{
		"", "null", "{}", `{"kind":"cniCacheV1"}`, `{"kind":"x"}`, `{"ip4":{"ip":"10.0.0.1/8"}}`, `{"cniVersion":"0.4.0"}`,
		`{"kind":"cniCacheV1","containerId":"c","config":"e30=","ifName":"e","networkName":"n","cniArgs":[["K","V"],["K"],[]],"capabilityArgs":{"a":1.0},"result":{"cniVersion":"1.0.0","x":1e2}}`,
		`{"kind":"cniCacheV1","containerId":"c","config":"","ifName":"e","networkName":"n","result":null,"cleat":{"list":null,"netnsCookie":"18446744073709551615"}}`,
		`{"kind":"cniCacheV1","containerID":"c","ifName":"e","networkName":"n","result":"text"}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if r, err := decodeRecord(data); err == nil {
			fuzzRecord(t, r)
		}
	})
}

// FuzzIntent starts from what an ADD writes before the first plugin runs.
func FuzzIntent(f *testing.F) {
	list, err := ConfListFromBytes([]byte(`{"cniVersion":"1.1.0","name":"n","plugins":[{"type":"a","html":"<&>"}]}`))
	if err != nil {
		f.Fatal(err)
	}
	r := &record{
		key: key{"n", "c", "eth0"}, netns: "/run/netns/x", args: cni.Args{{"K", "V"}}, caps: map[string]json.RawMessage{"mac": quote("aa")},
		config: list.Bytes, added: time.Unix(1, 2).UTC(), bootID: "b", cookie: 7, list: list.effective(),
	}
	text, err := r.encodeIntent()
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{"", "\n", "{\n", "null\n", string(text), string(text) + `,"result":{"cniVersion":"1.1.0"}}`, string(text) + `,"result":{"cni`, string(text[:len(text)/2])} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if r, err := decodeIntent(data); err == nil {
			fuzzRecord(t, r)
		}
	})
}

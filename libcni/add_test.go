package libcni_test

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/cni"
)

func TestAddRunsInOrderAndDelInReverse(t *testing.T) {
	for _, batch := range []int{1, 2, 5} {
		k := newKit(t)
		k.batch = batch
		list := network(t, "1.1.0", "a", "b", "c")
		result := k.mustAdd(t, list, attachment())
		if got := result.IPs[0].Address.String(); got != "10.1.0.5/16" {
			t.Errorf("batch %d: address %s", batch, got)
		}
		if diff := cmp.Diff([]string{"ADD a", "ADD b", "ADD c"}, k.lines()); diff != "" {
			t.Errorf("batch %d: ADD (-want +got):\n%s", batch, diff)
		}
		records, intents := k.stored(t)
		if diff := cmp.Diff([]string{"net1-c1-eth0"}, records); diff != "" || len(intents) > 0 {
			t.Errorf("batch %d: records (-want +got):\n%s, intents %v", batch, diff, intents)
		}
		k.mustDel(t, list, attachment())
		if diff := cmp.Diff([]string{"DEL c", "DEL b", "DEL a"}, k.lines()); diff != "" {
			t.Errorf("batch %d: DEL (-want +got):\n%s", batch, diff)
		}
		if records, intents := k.stored(t); len(records)+len(intents) > 0 {
			t.Errorf("batch %d: left: %v %v", batch, records, intents)
		}
	}
}

// TestRecordIsTheFields reads the record as the Go library of the field does.
func TestRecordIsTheFields(t *testing.T) {
	k := newKit(t)
	rt := attachment()
	rt.Args = cni.Args{{"IgnoreUnknown", "1"}, {"K8S_POD_NAME", "p"}}
	rt.CapabilityArgs = map[string]any{"mac": "aa:bb:cc:dd:ee:ff"}
	list := network(t, "1.0.0", "a")
	k.mustAdd(t, list, rt)
	data, err := os.ReadFile(k.recordPath())
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	delete(got, "cleat")
	delete(got, "cleatDone")
	want := map[string]any{
		"kind": "cniCacheV1", "containerId": "c1", "ifName": "eth0", "networkName": "net1", "netns": "/proc/self/ns/net",
		"config":         base64.StdEncoding.EncodeToString(list.Bytes),
		"cniArgs":        []any{[]any{"IgnoreUnknown", "1"}, []any{"K8S_POD_NAME", "p"}},
		"capabilityArgs": map[string]any{"mac": "aa:bb:cc:dd:ee:ff"},
		"result": map[string]any{
			"cniVersion": "1.0.0", "dns": map[string]any{},
			"ips": []any{map[string]any{"version": "4", "address": "10.1.0.5/16"}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
	if info, err := os.Stat(k.recordPath()); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode of the record: %v, %v", info.Mode(), err)
	}
}

package spec

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/cni"
)

// recordTests are those of what the runtime remembers.
func recordTests() map[string]func(ruleTest) {
	return map[string]func(ruleTest){"CA1": testRecordForm, "CA2": testForeignRecord, "CA3": testRecordedParameters}
}

func testRecordForm(r ruleTest) {
	c := newRuntime(r, "fake-a")
	c.addresses("fake-a")
	text := `{"cniVersion":"1.1.0","name":"` + network + `","plugins":[{"type":"fake-a","capabilities":{"mac":true}}]}`
	rt := attachment()
	rt.Args, rt.CapabilityArgs = cni.Args{{"K", "V"}}, map[string]any{"mac": "02:00:00:00:00:01"}
	c.add(list(r, text), rt)
	data, err := os.ReadFile(c.record())
	if err != nil {
		r.Fatal(err)
	}
	var got map[string]json.RawMessage
	if err := json.Unmarshal(data, &got); err != nil {
		r.Fatal(err)
	}
	delete(got, "cleat") // which the field's library passes over
	delete(got, "cleatDone")
	members, err := json.Marshal(got)
	if err != nil {
		r.Fatal(err)
	}
	want := fmt.Sprintf(`{"kind":"cniCacheV1","containerId":"spec-one","config":%q,"ifName":"eth0","networkName":%q,"netns":"/proc/self/ns/net",
	  "cniArgs":[["K","V"]],"capabilityArgs":{"mac":"02:00:00:00:00:01"},"result":%s}`,
		base64.StdEncoding.EncodeToString([]byte(text)), network, result(1))
	sameJSON(r, "record", []byte(want), members)
	for path, mode := range map[string]os.FileMode{c.record(): 0o600, filepath.Dir(c.record()): 0o700} {
		info, err := os.Stat(path)
		if err != nil {
			r.Fatal(err)
		}
		if info.Mode().Perm() != mode {
			r.Errorf("%s has mode %s", path, info.Mode())
		}
	}
}

func testForeignRecord(r ruleTest) {
	text := `{"cniVersion":"1.1.0","name":"` + network + `","plugins":[{"type":"fake-a"}]}`
	for name, record := range map[string]string{
		"full": fmt.Sprintf(`{"kind":"cniCacheV1","containerId":"spec-one","config":%q,"ifName":"eth0","networkName":%q,"cniArgs":[["K","V"]],"result":%s}`,
			base64.StdEncoding.EncodeToString([]byte(text)), network, result(7)),
		"bare-result": result(7),
		"bare-older":  `{"cniVersion":"0.4.0","ips":[{"version":"4","address":"10.1.0.7/24"}],"dns":{}}`,
	} {
		c := newRuntime(r, "fake-a")
		c.write(c.record(), record)
		l := list(r, text)
		if err := c.CheckNetworkList(r.Context(), l, attachment()); err != nil {
			r.Errorf("%s: CHECK: %v", name, err)
		}
		c.del(l, attachment())
		calls := c.calls()
		if diff := cmp.Diff([]string{"CHECK fake-a", "DEL fake-a"}, each(calls, noted.String)); diff != "" {
			r.Fatalf("%s: ran (-want +got)\n%s", name, diff)
		}
		for _, n := range calls {
			sameJSON(r, name+": prevResult of "+n.String(), []byte(result(7)), n.has(r, "prevResult"))
			if want := map[bool]string{true: "K=V", false: ""}[name == "full"]; n.Env["CNI_ARGS"] != want {
				r.Errorf("%s: %s got CNI_ARGS %q, want %q", name, n, n.Env["CNI_ARGS"], want)
			}
		}
		if exists(r, c.record()) {
			r.Errorf("%s: the record is still there", name)
		}
	}
}

func testRecordedParameters(r ruleTest) {
	c := newRuntime(r, "fake-a")
	l := list(r, `{"cniVersion":"1.1.0","name":"`+network+`","plugins":[{"type":"fake-a","capabilities":{"mac":true}}]}`)
	rt := attachment()
	rt.Args, rt.CapabilityArgs = cni.Args{{"K", "V"}}, map[string]any{"mac": "02:00:00:00:00:01"}
	c.add(l, rt)
	if err := c.CheckNetworkList(r.Context(), l, attachment()); err != nil {
		r.Fatal(err)
	}
	c.del(l, attachment())
	for _, n := range c.calls() {
		if n.Env["CNI_ARGS"] != "K=V" || string(n.has(r, "runtimeConfig")) != `{"mac":"02:00:00:00:00:01"}` {
			r.Errorf("%s got CNI_ARGS %q and %s", n, n.Env["CNI_ARGS"], n.Stdin)
		}
	}
}

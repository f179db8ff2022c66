package libcni_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/cni"
)

// oddResult is what a plugin of somebody else answers to ADD.
type oddResult struct {
	name, text string
	fault      string // a part of what is said about it; "" if it can be used
}

// v11 is a result of version 1.1.0 with more members.
func v11(members string) string { return `{"cniVersion":"1.1.0",` + members + `}` }

func oddResults() []oddResult {
	ip := func(more string) string { return v11(`"ips":[{"address":"10.1.0.5/16",` + more + `}]`) }
	return []oddResult{
		{"nothing", "", "1, column 1: the text is empty"},
		{"null", "null", "want an object, which begins with {, found null"},
		{"list", "[]", "want an object, found a list"},
		{"half", "{", "the text ends inside the object"},
		{"two", `{"cniVersion":"1.1.0"} {}`, "a second object"},
		{"log-before", "starting\n{}", "text without quotes"},
		{"key-twice", `{"cniVersion":"1.1.0","cniVersion":"1.0.0"}`, `"cniVersion" stands twice`},
		{"empty-object", "{}", ""},
		{"version-null", `{"cniVersion":null}`, ""},
		{"version-number", `{"cniVersion":1}`, "cniVersion: want a string"},
		{"version-none", `{"cniVersion":"x"}`, "version x: not spoken here"},
		{"version-of-the-future", `{"cniVersion":"9.9.9"}`, "version 9.9.9: not spoken here"},
		{"members-null", v11(`"interfaces":null,"ips":null,"routes":null,"dns":null`), ""},
		{"interfaces-object", v11(`"interfaces":{}`), "interfaces: want a list"},
		{"interface-null", v11(`"interfaces":[null]`), "interfaces[0]: null"},
		{"interface-text", v11(`"interfaces":["eth0"]`), "interfaces[0]: want an object"},
		{"interface-nameless", v11(`"interfaces":[{}]`), ""},
		{"name-number", v11(`"interfaces":[{"name":7}]`), "interfaces[0].name: want a string"},
		{"mtu-text", v11(`"interfaces":[{"name":"eth0","mtu":"big"}]`), "interfaces[0].mtu: want a whole number"},
		{"ip-null", v11(`"ips":[null]`), "ips[0]: null"},
		{"ip-empty", v11(`"ips":[{}]`), "ips[0].address: is missing"},
		{"address-without-length", v11(`"ips":[{"address":"10.1.0.5"}]`), "ips[0].address: \"10.1.0.5\" has no prefix length"},
		{"address-length", v11(`"ips":[{"address":"10.1.0.5/99"}]`), "ips[0].address"},
		{"gateway-null", ip(`"gateway":null`), ""},
		{"gateway-empty", ip(`"gateway":""`), ""},
		{"gateway-text", ip(`"gateway":"x"`), "ips[0].gateway: \"x\" is no IP address"},
		{"index-null", ip(`"interface":null`), ""},
		{"index-negative", ip(`"interface":-1`), ""},
		{"index-beyond", ip(`"interface":7`), "7 is not the index of one of the 0 interfaces"},
		{"index-text", ip(`"interface":"0"`), "ips[0].interface: want a whole number"},
		{"index-huge", ip(`"interface":99999999999999999999`), "ips[0].interface: want a whole number"},
		{"route-null", v11(`"routes":[null]`), "routes[0]: null"},
		{"route-empty", v11(`"routes":[{}]`), "routes[0].dst: is missing"},
		{"route-members-null", v11(`"routes":[{"dst":"0.0.0.0/0","gw":null,"mtu":null}]`), ""},
		{"dns-list", v11(`"dns":[]`), "dns: want an object"},
		{"nameservers-null", v11(`"dns":{"nameservers":null}`), ""},
		{"nameserver-null", v11(`"dns":{"nameservers":[null]}`), "dns.nameservers[0]: null"},
		{"old-ip4-null", `{"cniVersion":"0.2.0","ip4":null}`, ""},
		{"old-ip4-empty", `{"cniVersion":"0.2.0","ip4":{}}`, "ip4.ip: is missing"},
	}
}

// TestOddResultOfAProgram: an ADD that can't use it says whose it is and where the fault is, and undoes; what can be used goes through ADD,
// CHECK and DEL.
func TestOddResultOfAProgram(t *testing.T) {
	locks := t.TempDir()
	for _, tc := range oddResults() {
		t.Run(tc.name, func(t *testing.T) {
			k := newKit(t, lockDir(locks))
			k.plugins["a"] = verbs{cni.VerbAdd: answers(tc.text, nil)}
			list := network(t, "1.1.0", "a", "b")
			_, err := k.AddNetworkList(t.Context(), list, attachment())
			ran := k.lines()
			if tc.fault == "" {
				if err == nil {
					err = k.CheckNetworkList(t.Context(), list, attachment())
				}
				if err != nil {
					t.Fatal(err)
				}
			} else {
				e, ok := errors.AsType[*cni.Error](err)
				if !ok || e.Code != cni.CodeDecode || e.Plugin != "a" || !strings.Contains(err.Error(), tc.fault) {
					t.Errorf("error %v, want code 6 of a with %q", err, tc.fault)
				}
				if diff := cmp.Diff([]string{"ADD a", "DEL a"}, ran); diff != "" {
					t.Errorf("ran (-want +got):\n%s", diff)
				}
			}
			k.mustDel(t, list, attachment())
			if records, intents := k.stored(t); len(records)+len(intents) > 0 {
				t.Errorf("left: %v %v", records, intents)
			}
		})
	}
}

// TestOddRecordedResult: the same in a record that another runtime wrote. CHECK tells, DEL goes on without it.
func TestOddRecordedResult(t *testing.T) {
	locks := t.TempDir()
	for _, tc := range oddResults() {
		if tc.text == "" || tc.name == "half" || tc.name == "two" || tc.name == "log-before" {
			continue // the record as a whole is no JSON then
		}
		t.Run(tc.name, func(t *testing.T) {
			k := newKit(t, lockDir(locks))
			write(t, k.recordPath(), fmt.Sprintf(`{"kind":"cniCacheV1","containerId":"c1","networkName":"net1","ifName":"eth0",`+
				`"netns":"/proc/self/ns/net","config":"","result":%s}`, tc.text))
			list := network(t, "1.1.0", "a")
			err := k.CheckNetworkList(t.Context(), list, attachment())
			if (err == nil) != (tc.fault == "") || err != nil && tc.name != "null" && !strings.Contains(err.Error(), tc.fault) {
				t.Errorf("CHECK: error %v, want %q", err, tc.fault)
			}
			if all, err := k.Attachments(t.Context()); err != nil || len(all) != 1 {
				t.Errorf("attachments %v, error %v", all, err)
			}
			k.calls()
			k.mustDel(t, list, attachment())
			if ran := k.calls(); len(ran) != 1 || (ran[0].Prev != nil) != (tc.fault == "") {
				t.Errorf("DEL ran %+v", ran)
			}
			if records, _ := k.stored(t); len(records) > 0 {
				t.Errorf("left: %v", records)
			}
		})
	}
}

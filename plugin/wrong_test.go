package plugin_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/plugin"
)

// TestFormsOfArgs: which CNI_ARGS reach a plugin, and as what. Those that don't are an error with the pair at fault, for every verb that has them.
func TestFormsOfArgs(t *testing.T) {
	for _, tc := range []struct {
		name, args string
		want       cni.Args
		fault      string // "" for none
	}{
		{name: "empty"},
		{name: "separators-alone", args: ";;;"},
		{name: "pair", args: "K=V", want: cni.Args{{"K", "V"}}},
		{name: "separator-at-the-ends", args: ";K=V;", want: cni.Args{{"K", "V"}}},
		{name: "no-value", args: "K=", want: cni.Args{{"K", ""}}},
		{name: "equals-in-value", args: "K=a=b==", want: cni.Args{{"K", "a=b=="}}},
		{name: "twice", args: "K=1;K=2", want: cni.Args{{"K", "1"}, {"K", "2"}}},
		{name: "spaces-are-kept", args: "K= V ", want: cni.Args{{"K", " V "}}},
		{name: "line-break-in-value", args: "K=a\nb", want: cni.Args{{"K", "a\nb"}}},
		{name: "no-pair", args: "K", fault: `CNI_ARGS: part 1 is no pair KEY=value`},
		{name: "no-key", args: "=V", fault: `CNI_ARGS: part 1 is no pair KEY=value`},
		{name: "one-of-several", args: "A=1;K;B=2", fault: `CNI_ARGS: part 2 is no pair KEY=value`},
		{name: "space", args: " ", fault: `CNI_ARGS: part 1 is no pair KEY=value`},
	} {
		for _, verb := range []cni.Verb{cni.VerbAdd, cni.VerbCheck, cni.VerbDel} {
			t.Run(tc.name+"-"+strings.ToLower(string(verb)), func(t *testing.T) {
				env := plugin.Env{Command: string(verb), ContainerID: "c1", NetNS: "/x", IfName: "eth0", Args: tc.args}
				req, err := plugin.NewRequest(plugin.Info{Type: "fake"}, env, []byte(conf))
				if tc.fault != "" {
					if cni.CodeOf(err) != cni.CodeInvalidEnvironment || err.Error() != tc.fault {
						t.Errorf("error %v (code %d), want %s", err, cni.CodeOf(err), tc.fault)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tc.want, req.Args); diff != "" {
					t.Errorf("arguments (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// TestOddPrevResult: ADD and CHECK say what is wrong in it and where; DEL goes on without it.
func TestOddPrevResult(t *testing.T) {
	for _, tc := range []struct{ name, prev, fault string }{
		{"null", `null`, ""},
		{"members-null", `{"cniVersion":"1.1.0","interfaces":null,"ips":null,"routes":null,"dns":null}`, ""},
		{"list", `[]`, "want an object, found a list"},
		{"text", `"x"`, "want an object, found a string"},
		{"version-of-the-future", `{"cniVersion":"9.9.9"}`, "9.9.9"},
		{"interfaces-text", `{"cniVersion":"1.1.0","interfaces":"eth0"}`, "interfaces: want a list"},
		{"interface-null", `{"cniVersion":"1.1.0","interfaces":[null]}`, "interfaces[0]: null"},
		{"address-number", `{"cniVersion":"1.1.0","ips":[{"address":10}]}`, "ips[0].address"},
		{"index-beyond", `{"cniVersion":"1.1.0","interfaces":[{"name":"eth0"}],"ips":[{"address":"10.1.0.5/16","interface":1}]}`, "1 is not the index"},
		{"route-null", `{"cniVersion":"1.1.0","routes":[null]}`, "routes[0]: null"},
		{"dns-text", `{"cniVersion":"1.1.0","dns":"10.1.0.1"}`, "dns: want an object"},
	} {
		for _, verb := range []cni.Verb{cni.VerbAdd, cni.VerbCheck, cni.VerbDel} {
			t.Run(tc.name+"-"+strings.ToLower(string(verb)), func(t *testing.T) {
				env := plugin.Env{Command: string(verb), ContainerID: "c1", NetNS: "/x", IfName: "eth0"}
				stdin := fmt.Sprintf(`{"cniVersion":"1.1.0","name":"n","type":"fake","prevResult":%s}`, json.RawMessage(tc.prev))
				req, err := plugin.NewRequest(plugin.Info{Type: "fake"}, env, []byte(stdin))
				if tc.fault == "" || verb == cni.VerbDel {
					if err != nil {
						t.Fatal(err)
					}
					if verb == cni.VerbDel && tc.fault != "" && req.Prev != nil {
						t.Errorf("prevResult %+v", req.Prev)
					}
					return
				}
				if code := cni.CodeOf(err); err == nil || code == 0 || code == cni.CodeInternal ||
					!strings.Contains(err.Error(), "prevResult") || !strings.Contains(err.Error(), tc.fault) {
					t.Errorf("error %v (code %d), want prevResult and %q", err, code, tc.fault)
				}
			})
		}
	}
}

package static_test

import (
	"strings"
	"testing"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/kernel/kerneltest"
	"github.com/cleat-cni/cleat/planned"
	"github.com/cleat-cni/cleat/planned/plannedtest"
	"github.com/cleat-cni/cleat/plugin"
	"github.com/cleat-cni/cleat/plugins/static"
)

func TestAllocation(t *testing.T) {
	plannedtest.Allocations(t, static.Plugin(), "testdata/*.txtar")
}

func TestREADME(t *testing.T) {
	plannedtest.AllocationREADME(t, static.Plugin(), map[string]string{"ips": `["10.1.0.9/16"]`})
}

func FuzzParse(f *testing.F) {
	plannedtest.FuzzAllocation(f, static.Plugin(), checkAllocation,
		`{"cniVersion":"VERSION","name":"n","type":"ptp","ipam":{"type":"static","addresses":[{"address":"10.1.0.5/16","gateway":"10.1.0.1"}],
		  "routes":[{"dst":"0.0.0.0/0"}],"dns":{"nameservers":["10.1.0.2"]}}}`,
		`{"cniVersion":"VERSION","name":"n","type":"ptp","args":{"cni":{"ips":["fd00::5/64"]}},"ipam":{"type":"static"}}`,
		`{"cniVersion":"VERSION","name":"n","type":"ptp","runtimeConfig":{"ips":["10.2.0.5/24","fd00::5/64"]},"ipam":{"type":"static","addresses":[null]}}`)
}

// checkAllocation proves what every accepted configuration must give.
func checkAllocation(t *testing.T, a planned.Allocation) {
	t.Helper()
	if len(a.Fixed) == 0 || len(a.Pool.Sets) > 0 {
		t.Errorf("allocation %+v", a)
	}
	for _, ip := range a.Fixed {
		if !ip.Address.IsValid() || ip.Address.Addr().Is4In6() || ip.Gateway.IsValid() && ip.Gateway.Is4() != ip.Address.Addr().Is4() {
			t.Errorf("address %+v", ip)
		}
	}
}

// TestVerbs: ADD gives, CHECK names an address that the result lacks, and DEL and GC have nothing to do whatever the
// configuration says.
func TestVerbs(t *testing.T) {
	const config = `{"cniVersion":"1.1.0","name":"n","type":"ptp","cni.dev/valid-attachments":[],"ipam":{"type":"static",
	  "addresses":[{"address":"10.1.0.5/16","gateway":"10.1.0.1"},{"address":"fd00::5/64"}]}`
	prev := func(ips string) string {
		return config + `,"prevResult":{"cniVersion":"1.1.0","interfaces":[{"name":"eth0","sandbox":"/run/netns/c1"}],"ips":[` + ips + `]}}`
	}
	const four, six = `{"interface":0,"address":"10.1.0.5/16","gateway":"10.1.0.1"}`, `{"interface":0,"address":"fd00::5/64","gateway":"fd00::1"}`
	p := planned.NewEngine(planned.Config{Kernel: kerneltest.NewMemory(kerneltest.Config{})}).Plugin(static.Plugin())
	request := func(verb cni.Verb, stdin string) *plugin.Request {
		t.Helper()
		env := plugin.Env{Command: string(verb), ContainerID: "c1", NetNS: "/run/netns/c1", IfName: "eth0", Path: "/opt/cni/bin"}
		req, err := plugin.NewRequest(plugin.Info{Type: "static"}, env, []byte(stdin))
		if err != nil {
			t.Fatal(err)
		}
		return req
	}
	res, err := p.Add(t.Context(), request(cni.VerbAdd, config+"}"))
	if err != nil || len(res.IPs) != 2 {
		t.Fatalf("ADD: %+v, %v", res, err)
	}
	for _, tc := range []struct{ name, stdin, want string }{
		{"as-given", prev(four + "," + six), ""},
		{"missing", prev(four), "missing: address fd00::5/64"},
		{"other-gateway", prev(strings.Replace(four, "10.1.0.1", "10.1.0.9", 1) + "," + six),
			"want: address 10.1.0.5/16 gateway 10.1.0.1, have: address 10.1.0.5/16 gateway 10.1.0.9"},
		{"other-length", prev(strings.Replace(four, "/16", "/24", 1) + "," + six), "missing: address 10.1.0.5/16 gateway 10.1.0.1"},
		{"no-result", config + "}", "prevResult is missing"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := p.Check(t.Context(), request(cni.VerbCheck, tc.stdin))
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("CHECK = %v, want %q", err, tc.want)
			}
		})
	}
	if err := p.Del(t.Context(), request(cni.VerbDel, `{"cniVersion":"1.1.0","name":"n","type":"ptp","ipam":{"type":"static","addresses":7}}`)); err != nil {
		t.Errorf("DEL: %v", err)
	}
	if err := p.GC(t.Context(), request(cni.VerbGC, config+"}")); err != nil {
		t.Errorf("GC: %v", err)
	}
	if err := p.Status(t.Context(), request(cni.VerbStatus, config+"}")); err != nil {
		t.Errorf("STATUS: %v", err)
	}
}

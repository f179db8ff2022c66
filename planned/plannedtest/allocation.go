package plannedtest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/planned"
	"github.com/cleat-cni/cleat/plugin"
)

// Allocations runs every txtar file that pattern finds as a test of an IPAM plugin: config.json and env go in, as
// for [Golden], and want.allocation or want.error comes out. With -update the latter are written.
func Allocations(t *testing.T, def planned.Definition, pattern string) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden file matches %s: %v", pattern, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			in := texts(archive.Files)
			got := allocation(t, def, in["config.json"], in["env"])
			if *update {
				archive.Files = append(inputs(archive), got)
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(texts(wants(archive)), texts([]txtar.File{got})); diff != "" {
				t.Errorf("%s (-want +got):\n%s", file, diff)
			}
		})
	}
}

// allocation is the want.* file of a configuration.
func allocation(t *testing.T, def planned.Definition, config, env string) txtar.File {
	t.Helper()
	req, err := plugin.NewRequest(def.Info, environment(t, env), []byte(config))
	if err == nil {
		var a planned.Allocation
		if a, err = def.Allocation(req); err == nil {
			return txtar.File{Name: "want.allocation", Data: []byte(AllocationText(a))}
		}
	}
	return txtar.File{Name: "want.error", Data: []byte(describe(err))}
}

// AllocationText is an allocation as the golden files have it.
func AllocationText(a planned.Allocation) string {
	var b strings.Builder
	if len(a.Pool.Sets) > 0 {
		fmt.Fprintf(&b, "store %s network %s\n", a.Pool.Dir, a.Pool.Network)
	}
	for i, set := range a.Pool.Sets {
		for _, r := range set {
			fmt.Fprintf(&b, "set %d range %s-%s of %s gateway %s\n", i, r.Start, r.End, r.Subnet, r.Gateway)
		}
	}
	for _, w := range a.Pool.Want {
		fmt.Fprintf(&b, "want %s\n", w)
	}
	for _, ip := range a.Fixed {
		fmt.Fprintf(&b, "address %s gateway %v\n", ip.Address, ip.Gateway)
	}
	for _, r := range a.Routes {
		fmt.Fprintf(&b, "route %s gw %v mtu %d advmss %d priority %d table %v scope %v\n", r.Dst, r.GW, r.MTU, r.AdvMSS, r.Priority, r.Table, r.Scope)
	}
	if !a.DNS.IsZero() {
		fmt.Fprintf(&b, "dns %v domain %q search %v options %v\n", a.DNS.Nameservers, a.DNS.Domain, a.DNS.Search, a.DNS.Options)
	}
	if a.ResolvConf != "" {
		fmt.Fprintf(&b, "resolvConf %s\n", a.ResolvConf)
	}
	return b.String()
}

// AllocationREADME proves that the examples of README.md are networks for whose first plugin the IPAM plugin gives addresses, with what a
// runtime asks for by the capabilities given.
func AllocationREADME(t *testing.T, def planned.Definition, runtime map[string]string) {
	t.Helper()
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, examples, _ := strings.Cut(string(text), "\n## Example\n")
	blocks := strings.Split(examples, "```json\n")[1:]
	if len(blocks) == 0 {
		t.Fatal("the section Example has no JSON block")
	}
	given := map[string]json.RawMessage{}
	for name, value := range runtime {
		given[name] = json.RawMessage(value)
	}
	for _, block := range blocks {
		block, _, _ = strings.Cut(block, "\n```")
		network, err := cni.ParseNetwork([]byte(block))
		if err != nil {
			t.Fatalf("%v\n%s", err, block)
		}
		request := network.Plugins[0].Request(network.Name, network.CNIVersion, given)
		if got := allocation(t, def, string(request.Bytes()), ""); got.Name != "want.allocation" {
			t.Errorf("%s\n%s", got.Data, block)
		}
	}
}

// FuzzAllocation fuzzes an IPAM plugin's configuration, with a seed of each config for every version of the specification, which takes
// the place of VERSION. What is refused has a code, what is taken comes to the same each time, and check proves the rest.
func FuzzAllocation(f *testing.F, def planned.Definition, check func(*testing.T, planned.Allocation), configs ...string) {
	f.Helper()
	for _, version := range cni.Versions() {
		for _, config := range configs {
			f.Add([]byte(strings.ReplaceAll(config, "VERSION", version)))
		}
	}
	env := plugin.Env{Command: "ADD", ContainerID: "c1", NetNS: "/run/netns/c1", IfName: "eth0"}
	f.Fuzz(func(t *testing.T, stdin []byte) {
		req, err := plugin.NewRequest(def.Info, env, stdin)
		if err != nil {
			return
		}
		a, err := def.Allocation(req)
		if err != nil {
			if code := cni.CodeOf(err); code == 0 || code == cni.CodeInternal {
				t.Errorf("error without a code of its own: %v", err)
			}
			return
		}
		check(t, a)
		again, err := def.Allocation(req)
		if err != nil || AllocationText(again) != AllocationText(a) {
			t.Errorf("another allocation when asked again, error %v", err)
		}
	})
}

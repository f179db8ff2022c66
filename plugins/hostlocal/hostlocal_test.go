package hostlocal_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/planned"
	"github.com/cleat-cni/cleat/plugin"
	"github.com/cleat-cni/cleat/plugins/hostlocal"
)

var update = flag.Bool("update", false, "rewrite the want.* parts of golden files")

// TestAllocation runs the txtar files of testdata: config.json and env (one CNI_NAME=value a line, on top of
// an ADD) go in, want.allocation or want.error comes out.
func TestAllocation(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			parts := map[string]string{}
			for _, f := range archive.Files {
				parts[f.Name] = string(f.Data)
			}
			name, got := outcome(t, parts["config.json"], parts["env"])
			if *update {
				archive.Files = slices.DeleteFunc(archive.Files, func(f txtar.File) bool { return strings.HasPrefix(f.Name, "want.") })
				archive.Files = append(archive.Files, txtar.File{Name: name, Data: []byte(got)})
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, ok := parts[name]
			if !ok {
				t.Errorf("%s is not expected:\n%s", name, got)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s %s (-want +got):\n%s", file, name, diff)
			}
		})
	}
}

func outcome(t *testing.T, config, env string) (name, text string) {
	t.Helper()
	values := map[string]string{
		"CNI_COMMAND": "ADD", "CNI_CONTAINERID": "c1", "CNI_NETNS": "/run/netns/c1", "CNI_IFNAME": "eth0",
	}
	for line := range strings.Lines(env) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		if !ok {
			t.Fatalf("env: %q is not CNI_NAME=value", line)
		}
		values[key] = value
	}
	def := hostlocal.Plugin()
	req, err := plugin.NewRequest(def.Info, plugin.EnvFrom(func(key string) string { return values[key] }), []byte(config))
	if err == nil {
		var a planned.Allocation
		if a, err = def.Allocation(req); err == nil {
			return "want.allocation", allocationText(a)
		}
	}
	e := cni.AsError(err)
	text = fmt.Sprintf("%d: %s\n", e.Code, e)
	if e.Hint != "" {
		text += "hint: " + e.Hint + "\n"
	}
	return "want.error", text
}

func allocationText(a planned.Allocation) string {
	var b strings.Builder
	fmt.Fprintf(&b, "store %s network %s\n", a.Pool.Dir, a.Pool.Network)
	for i, set := range a.Pool.Sets {
		for _, r := range set {
			fmt.Fprintf(&b, "set %d range %s-%s of %s gateway %s\n", i, r.Start, r.End, r.Subnet, r.Gateway)
		}
	}
	for _, w := range a.Pool.Want {
		fmt.Fprintf(&b, "want %s\n", w)
	}
	for _, r := range a.Routes {
		fmt.Fprintf(&b, "route %s gw %v mtu %d advmss %d priority %d table %v scope %v\n", r.Dst, r.GW, r.MTU, r.AdvMSS, r.Priority, r.Table, r.Scope)
	}
	if a.ResolvConf != "" {
		fmt.Fprintf(&b, "resolvConf %s\n", a.ResolvConf)
	}
	return b.String()
}

// TestREADME proves that the examples are networks for whose plugin host-local gives addresses.
func TestREADME(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, examples, _ := strings.Cut(string(text), "\n## Example\n")
	blocks := strings.Split(examples, "```json\n")[1:]
	if len(blocks) == 0 {
		t.Fatal("the section Example has no JSON block")
	}
	for _, block := range blocks {
		block, _, _ = strings.Cut(block, "\n```")
		network, err := cni.ParseNetwork([]byte(block))
		if err != nil {
			t.Fatalf("%v\n%s", err, block)
		}
		conf := network.Plugins[0]
		request := conf.Request(network.Name, network.CNIVersion, map[string]json.RawMessage{"ips": json.RawMessage(`["192.168.8.7"]`)})
		if name, text := outcome(t, string(request.Bytes()), ""); name != "want.allocation" {
			t.Errorf("%s\n%s", text, block)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, version := range cni.Versions() {
		for _, config := range []string{
			`{"cniVersion":"VERSION","name":"n","type":"bridge","ipam":{"type":"host-local","ranges":[[{"subnet":"10.1.0.0/16"}]]}}`,
			`{"cniVersion":"VERSION","name":"n","type":"bridge","runtimeConfig":{"ips":["10.2.0.9/24"],"ipRanges":[[{"subnet":"10.2.0.0/24"}]]},
			  "args":{"cni":{"ips":["10.1.0.7"]}},"ipam":{"type":"host-local","subnet":"10.1.0.0/16","rangeStart":"10.1.0.5","rangeEnd":"10.1.0.9",
			  "gateway":"10.1.0.6","dataDir":"/run/x/","resolvConf":"/etc/resolv.conf","routes":[{"dst":"0.0.0.0/0","gw":"10.1.0.1","table":5,"scope":0}],
			  "ranges":[[{"subnet":"fd00::/64","gateway":"fe80::1"},{"subnet":"fd01::/126"}]]}}`,
			`{"cniVersion":"VERSION","name":"n","type":"host-local","ipam":{"ranges":[{"subnet":"10.1.0.0/16"}]}}`,
			`{"cniVersion":"VERSION","name":"n","type":"host-local","ipam":{"ranges":[[null]]}}`,
			`{"cniVersion":"VERSION","name":"n","type":"host-local","ipam":{"ranges":[[{"subnet":"255.255.255.252/30"}],[{"subnet":"ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffc/126"}]]}}`,
		} {
			f.Add([]byte(strings.ReplaceAll(config, "VERSION", version)))
		}
	}
	def := hostlocal.Plugin()
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
		checkAllocation(t, a)
		again, err := def.Allocation(req)
		if err != nil || allocationText(again) != allocationText(a) {
			t.Errorf("another allocation when asked again, error %v", err)
		}
	})
}

// checkAllocation proves what every accepted configuration must give.
func checkAllocation(t *testing.T, a planned.Allocation) {
	t.Helper()
	if len(a.Pool.Sets) == 0 || !filepath.IsAbs(a.Pool.Dir) {
		t.Errorf("no pool: %+v", a.Pool)
	}
	type bounds struct{ start, end netip.Addr }
	var all []bounds
	for _, set := range a.Pool.Sets {
		for _, r := range set {
			if !r.Subnet.Contains(r.Start) || !r.Subnet.Contains(r.End) || r.Start.Compare(r.End) > 0 || r.Subnet != r.Subnet.Masked() {
				t.Errorf("bad range %+v", r)
			}
			if r.Gateway.Is4() != r.Start.Is4() || r.Start.Is4() != set[0].Start.Is4() {
				t.Errorf("mixed families in %+v", set)
			}
			for _, o := range all {
				if o.start.Compare(r.End) <= 0 && r.Start.Compare(o.end) <= 0 {
					t.Errorf("%v overlaps %+v", o, r)
				}
			}
			all = append(all, bounds{r.Start, r.End})
		}
	}
	if strings.ContainsAny(a.Pool.Network, "/\x00") {
		t.Errorf("network %q", a.Pool.Network)
	}
}

// TestManyRanges proves that the cost of a configuration does not grow with the square of its ranges.
func TestManyRanges(t *testing.T) {
	var ranges bytes.Buffer
	for i := range 30_000 {
		fmt.Fprintf(&ranges, `,[{"subnet":"10.%d.%d.0/24"}]`, i/256, i%256)
	}
	config := fmt.Sprintf(`{"cniVersion":"1.1.0","name":"n","type":"bridge","ipam":{"type":"host-local","ranges":[%s]}}`, ranges.String()[1:])
	name, _ := outcome(t, config, "")
	if name != "want.allocation" {
		t.Error(name)
	}
}

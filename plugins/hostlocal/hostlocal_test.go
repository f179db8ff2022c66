package hostlocal_test

import (
	"bytes"
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cleat-cni/cleat/planned"
	"github.com/cleat-cni/cleat/planned/plannedtest"
	"github.com/cleat-cni/cleat/plugin"
	"github.com/cleat-cni/cleat/plugins/hostlocal"
)

func TestAllocation(t *testing.T) {
	plannedtest.Allocations(t, hostlocal.Plugin(), "testdata/*.txtar")
}

func TestREADME(t *testing.T) {
	plannedtest.AllocationREADME(t, hostlocal.Plugin(), map[string]string{"ips": `["192.168.8.7"]`})
}

func FuzzParse(f *testing.F) {
	plannedtest.FuzzAllocation(f, hostlocal.Plugin(), checkAllocation,
		`{"cniVersion":"VERSION","name":"n","type":"bridge","ipam":{"type":"host-local","ranges":[[{"subnet":"10.1.0.0/16"}]]}}`,
		`{"cniVersion":"VERSION","name":"n","type":"bridge","runtimeConfig":{"ips":["10.2.0.9/24"],"ipRanges":[[{"subnet":"10.2.0.0/24"}]]},
		  "args":{"cni":{"ips":["10.1.0.7"]}},"ipam":{"type":"host-local","subnet":"10.1.0.0/16","rangeStart":"10.1.0.5","rangeEnd":"10.1.0.9",
		  "gateway":"10.1.0.6","dataDir":"/run/x/","resolvConf":"/etc/resolv.conf","routes":[{"dst":"0.0.0.0/0","gw":"10.1.0.1","table":5,"scope":0}],
		  "ranges":[[{"subnet":"fd00::/64","gateway":"fe80::1"},{"subnet":"fd01::/126"}]]}}`,
		`{"cniVersion":"VERSION","name":"n","type":"host-local","ipam":{"ranges":[{"subnet":"10.1.0.0/16"}]}}`,
		`{"cniVersion":"VERSION","name":"n","type":"host-local","ipam":{"ranges":[[null]]}}`,
		`{"cniVersion":"VERSION","name":"n","type":"host-local","ipam":{"ranges":[[{"subnet":"255.255.255.252/30"}],[{"subnet":"ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffc/126"}]]}}`)
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
	env := plugin.Env{Command: "ADD", ContainerID: "c1", NetNS: "/run/netns/c1", IfName: "eth0"}
	req, err := plugin.NewRequest(hostlocal.Plugin().Info, env, []byte(config))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := hostlocal.Plugin().Allocation(req); err != nil {
		t.Error(err)
	}
}

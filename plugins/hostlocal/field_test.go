package hostlocal_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/planned"
	"github.com/cleat-cni/cleat/plugin"
	"github.com/cleat-cni/cleat/plugins/hostlocal"
)

// allocation reads a configuration whose ipam section is given; "" is none.
func allocation(t *testing.T, ipam string) (planned.Allocation, error) {
	t.Helper()
	if ipam != "" {
		ipam = `,"ipam":` + ipam
	}
	env := plugin.Env{Command: "ADD", ContainerID: "c1", NetNS: "/run/netns/c1", IfName: "eth0"}
	conf := fmt.Sprintf(`{"cniVersion":"1.1.0","name":"n","type":"bridge"%s}`, ipam)
	req, err := plugin.NewRequest(hostlocal.Plugin().Info, env, []byte(conf))
	if err != nil {
		return planned.Allocation{}, err
	}
	return hostlocal.Plugin().Allocation(req)
}

// refused are configurations, and a piece of the error that each gives with code 7.
func refused(t *testing.T, cases map[string][2]string) {
	t.Helper()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := allocation(t, c[0])
			if cni.CodeOf(err) != cni.CodeInvalidConfig || !strings.Contains(fmt.Sprint(err), c[1]) {
				t.Errorf("error %v (code %d), want code 7 and %q", err, cni.CodeOf(err), c[1])
			}
		})
	}
}

// TestB085SubnetsWithoutHosts: every address of /31, /32, /127 and /128 is a network's or a router's here.
func TestB085SubnetsWithoutHosts(t *testing.T) {
	refused(t, map[string][2]string{
		"31":        {`{"subnet":"10.1.0.4/31"}`, "too small"},
		"32":        {`{"subnet":"10.1.0.4/32"}`, "too small"},
		"127":       {`{"subnet":"fd00::4/127"}`, "too small"},
		"128":       {`{"subnet":"fd00::4/128"}`, "too small"},
		"broadcast": {`{"subnet":"10.1.0.0/24","rangeStart":"10.1.0.255","rangeEnd":"10.1.0.255"}`, "10.1.0.255"},
		"network":   {`{"subnet":"10.1.0.0/24","rangeStart":"10.1.0.0","rangeEnd":"10.1.0.0"}`, "10.1.0.0"},
	})
	if _, err := allocation(t, `{"subnet":"10.1.0.4/30"}`); err != nil {
		t.Errorf("/30: %v", err)
	}
}

// TestB087Gateways: of the subnet's family it must be, in the subnet it need not.
func TestB087Gateways(t *testing.T) {
	refused(t, map[string][2]string{
		"other-family":   {`{"subnet":"10.1.0.0/24","gateway":"2001:db8::1"}`, "another family"},
		"other-family-6": {`{"subnet":"2001:db8::/64","gateway":"10.1.0.1"}`, "another family"},
		"no-address":     {`{"subnet":"10.1.0.0/24","gateway":"10.1.0"}`, "gateway"},
		"nothing-left":   {`{"subnet":"10.1.0.0/24","rangeStart":"10.1.0.9","rangeEnd":"10.1.0.9","gateway":"10.1.0.9"}`, "10.1.0.9"},
	})
	for _, ipam := range []string{
		`{"subnet":"10.0.0.0/24","gateway":"192.168.1.1"}`,
		`{"subnet":"2001:db8::/64","gateway":"fe80::1"}`,
		`{"subnet":"10.1.0.0/24","rangeStart":"10.1.0.9","gateway":"10.1.0.9"}`,
	} {
		if _, err := allocation(t, ipam); err != nil {
			t.Errorf("%s: %v", ipam, err)
		}
	}
}

// TestB089Ranges: what is missing or nested wrongly is said, with how it is written.
func TestB089Ranges(t *testing.T) {
	refused(t, map[string][2]string{
		"no-ipam":          {"", "ipam is missing"},
		"null":             {`null`, "ipam"},
		"empty":            {`{}`, "no range"},
		"no-ranges":        {`{"ranges":[]}`, "ranges"},
		"empty-set":        {`{"ranges":[[]]}`, "ranges[0]"},
		"flat":             {`{"ranges":[{"subnet":"10.1.0.0/24"},{"subnet":"10.2.0.0/24"}]}`, "list of sets"},
		"overlap-in-a-set": {`{"ranges":[[{"subnet":"10.1.0.0/24"},{"subnet":"10.1.0.0/25"}]]}`, "overlaps"},
		"overlap-of-sets":  {`{"ranges":[[{"subnet":"10.1.0.0/24"}],[{"subnet":"10.1.0.0/25"}]]}`, "overlaps"},
		"mix-that-overlap": {`{"subnet":"10.1.0.0/24","ranges":[[{"subnet":"10.1.0.0/25"}]]}`, "overlaps"},
	})
	a, err := allocation(t, `{"subnet":"10.1.0.0/24","ranges":[[{"subnet":"10.2.0.0/24"},{"subnet":"10.3.0.0/24"}]]}`)
	if err != nil || len(a.Pool.Sets) != 2 {
		t.Errorf("subnet beside ranges: %d sets, %v", len(a.Pool.Sets), err)
	}
}

package bandwidth_test

import (
	"testing"

	"github.com/cleat-cni/cleat/planned/plannedtest"
	"github.com/cleat-cni/cleat/plugins/bandwidth"
)

func TestPlan(t *testing.T) { plannedtest.Golden(t, bandwidth.Plugin(), "testdata/*.txtar") }

func TestREADME(t *testing.T) {
	plannedtest.README(t, bandwidth.Plugin(), map[string]string{
		"bandwidth":    `{"ingressRate":1000000,"ingressBurst":1000000,"egressRate":1000000,"egressBurst":1000000}`,
		"portMappings": `[]`,
	})
}

func FuzzParse(f *testing.F) {
	prev := `"prevResult":{"cniVersion":"VERSION","interfaces":[{"name":"cni0"},{"name":"vethff3e00034d8","mtu":1400},{"name":"eth0","sandbox":"/run/netns/c1"}],
	  "ips":[{"version":"4","interface":2,"address":"10.88.0.5/16"}],"ip4":{"ip":"10.88.0.5/16"}}`
	plannedtest.FuzzConfig(f, bandwidth.Plugin(),
		`{"cniVersion":"VERSION","name":"n","type":"bandwidth",`+prev+`}`,
		`{"cniVersion":"VERSION","name":"n","type":"bandwidth","ingressRate":8000000,"ingressBurst":800000,"egressRate":18446744073709551615,
		  "egressBurst":34359738359,`+prev+`}`,
		`{"cniVersion":"VERSION","name":"n","type":"bandwidth","ingressRate":8,"ingressBurst":8,
		  "runtimeConfig":{"bandwidth":{"ingressRate":1000,"ingressBurst":100000,"egressRate":7,"egressBurst":1}},`+prev+`}`)
}

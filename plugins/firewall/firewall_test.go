package firewall_test

import (
	"testing"

	"github.com/cleat-cni/cleat/planned/plannedtest"
	"github.com/cleat-cni/cleat/plugins/firewall"
)

func TestPlan(t *testing.T) { plannedtest.Golden(t, firewall.Plugin(), "testdata/*.txtar") }

func TestREADME(t *testing.T) {
	plannedtest.README(t, firewall.Plugin(), map[string]string{
		"portMappings": `[{"hostPort":8080,"containerPort":80,"protocol":"tcp"}]`,
	})
}

func FuzzParse(f *testing.F) {
	prev := `"prevResult":{"cniVersion":"VERSION","interfaces":[{"name":"cni0"},{"name":"veth1"},{"name":"eth0","sandbox":"/run/netns/c1"}],
	  "ips":[{"version":"4","interface":2,"address":"10.88.0.5/16"},{"version":"6","interface":2,"address":"fd00::5/64"}],
	  "ip4":{"ip":"10.88.0.5/16"},"ip6":{"ip":"fd00::5/64"}}`
	plannedtest.FuzzConfig(f, firewall.Plugin(),
		`{"cniVersion":"VERSION","name":"n","type":"firewall",`+prev+`}`,
		`{"cniVersion":"VERSION","name":"n","type":"firewall","backend":"firewalld",`+prev+`}`,
		`{"cniVersion":"VERSION","name":"n","type":"firewall","backend":"nftables","ingressPolicy":"isolated",`+prev+`}`,
		`{"cniVersion":"VERSION","name":"n","type":"firewall","iptablesAdminChainName":"OPS","ingressPolicy":"same-bridge",`+prev+`}`)
}

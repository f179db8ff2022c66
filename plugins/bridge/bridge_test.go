package bridge_test

import (
	"testing"

	"github.com/cleat-cni/cleat/planned/plannedtest"
	"github.com/cleat-cni/cleat/plugins/bridge"
)

func TestPlan(t *testing.T) { plannedtest.Golden(t, bridge.Plugin(), "testdata/*.txtar") }

func TestREADME(t *testing.T) {
	plannedtest.README(t, bridge.Plugin(), map[string]string{
		"mac": `"c2:11:22:33:44:55"`, "portMappings": `[{"hostPort":8080,"containerPort":80,"protocol":"tcp"}]`,
	})
}

func FuzzParse(f *testing.F) {
	plannedtest.FuzzConfig(f, bridge.Plugin(),
		`{"cniVersion":"VERSION","name":"n","type":"bridge"}`,
		`{"cniVersion":"VERSION","name":"n","type":"bridge","bridge":"br0","isDefaultGateway":true,"forceAddress":true,"ipMasq":true,
		  "ipMasqBackend":"nftables","mtu":1400,"hairpinMode":true,"vlan":100,"vlanTrunk":[{"id":5},{"minID":7,"maxID":9}],
		  "preserveDefaultVlan":true,"macspoofchk":true,"enabledad":true,"portIsolation":true,"dns":{"nameservers":["10.0.0.1"]},
		  "args":{"cni":{"mac":"02:00:00:00:00:01"}},"runtimeConfig":{"mac":"02:00:00:00:00:02"},"ipam":{"type":"host-local"}}`,
		`{"cniVersion":"VERSION","name":"n","type":"bridge","promiscMode":true,"disableContainerInterface":true,"vlanTrunk":[{"minID":1,"maxID":4094}]}`)
}

package ptp_test

import (
	"testing"

	"github.com/cleat-cni/cleat/planned/plannedtest"
	"github.com/cleat-cni/cleat/plugins/ptp"
)

func TestPlan(t *testing.T) { plannedtest.Golden(t, ptp.Plugin(), "testdata/*.txtar") }

func TestREADME(t *testing.T) {
	plannedtest.README(t, ptp.Plugin(), map[string]string{
		"ips": `["10.1.0.9/16"]`, "portMappings": `[{"hostPort":8080,"containerPort":80,"protocol":"tcp"}]`,
	})
}

func FuzzParse(f *testing.F) {
	plannedtest.FuzzConfig(f, ptp.Plugin(),
		`{"cniVersion":"VERSION","name":"n","type":"ptp","ipam":{"type":"host-local"}}`,
		`{"cniVersion":"VERSION","name":"n","type":"ptp","ipMasq":true,"ipMasqBackend":"iptables","mtu":1400,"dns":{"nameservers":["10.0.0.1"]},"ipam":{"type":"static"}}`)
}

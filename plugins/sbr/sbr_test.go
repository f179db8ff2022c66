package sbr_test

import (
	"testing"

	"github.com/cleat-cni/cleat/planned/plannedtest"
	"github.com/cleat-cni/cleat/plugins/sbr"
)

func TestPlan(t *testing.T) { plannedtest.Golden(t, sbr.Plugin(), "testdata/*.txtar") }

func TestREADME(t *testing.T) { plannedtest.README(t, sbr.Plugin(), nil) }

func FuzzParse(f *testing.F) {
	prev := `"prevResult":{"cniVersion":"VERSION","interfaces":[{"name":"eth0","sandbox":"/run/netns/c1"}],
	  "ips":[{"version":"4","interface":0,"address":"10.88.0.5/16","gateway":"10.88.0.1"},{"version":"6","interface":0,"address":"fd00::5/64"}],
	  "ip4":{"ip":"10.88.0.5/16","gateway":"10.88.0.1"}}`
	plannedtest.FuzzConfig(f, sbr.Plugin(),
		`{"cniVersion":"VERSION","name":"n","type":"sbr",`+prev+`}`,
		`{"cniVersion":"VERSION","name":"n","type":"sbr","table":1000,`+prev+`}`,
		`{"cniVersion":"VERSION","name":"n","type":"sbr","gateways":["10.88.0.9","fe80::1"],"addSourceHints":true,`+prev+`}`)
}

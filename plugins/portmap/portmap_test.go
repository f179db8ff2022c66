package portmap_test

import (
	"testing"

	"github.com/cleat-cni/cleat/planned/plannedtest"
	"github.com/cleat-cni/cleat/plugins/portmap"
)

func TestPlan(t *testing.T) { plannedtest.Golden(t, portmap.Plugin(), "testdata/*.txtar") }

func TestREADME(t *testing.T) {
	plannedtest.README(t, portmap.Plugin(), map[string]string{
		"portMappings": `[{"hostPort":8080,"containerPort":80,"protocol":"tcp"},{"hostPort":53,"containerPort":53,"protocol":"udp","hostIP":"192.0.2.1"}]`,
	})
}

func FuzzParse(f *testing.F) {
	prev := `"prevResult":{"cniVersion":"VERSION","interfaces":[{"name":"cni0"},{"name":"veth1"},{"name":"eth0","sandbox":"/run/netns/c1"}],
	  "ips":[{"version":"4","interface":2,"address":"10.88.0.5/16"},{"version":"6","interface":2,"address":"fd00::5/64"}],
	  "ip4":{"ip":"10.88.0.5/16"},"ip6":{"ip":"fd00::5/64"}}`
	plannedtest.FuzzConfig(f, portmap.Plugin(),
		`{"cniVersion":"VERSION","name":"n","type":"portmap",`+prev+`}`,
		`{"cniVersion":"VERSION","name":"n","type":"portmap","externalSetMarkChain":"KUBE-MARK-MASQ","conditionsV4":["!","-s","192.0.2.0/24"],
		  "conditionsV6":["-m","comment","--comment","a \"b\""],"runtimeConfig":{"portMappings":[{"hostPort":1,"containerPort":2}]},`+prev+`}`,
		`{"cniVersion":"VERSION","name":"n","type":"portmap","backend":"nftables","snat":true,"masqAll":true,"markMasqBit":14,"conditionsV4":[],
		  "runtimeConfig":{"portMappings":[{"hostPort":8080,"containerPort":80,"protocol":"TCP"},
		  {"hostPort":53,"containerPort":53,"protocol":"udp","hostIP":"192.0.2.1"},
		  {"hostPort":53,"containerPort":53,"protocol":"sctp","hostIP":"2001:db8::1"}]},`+prev+`}`)
}

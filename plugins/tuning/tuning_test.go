package tuning_test

import (
	"testing"

	"github.com/cleat-cni/cleat/planned/plannedtest"
	"github.com/cleat-cni/cleat/plugins/tuning"
)

func TestPlan(t *testing.T) { plannedtest.Golden(t, tuning.Plugin(), "testdata/*.txtar") }

func TestREADME(t *testing.T) {
	plannedtest.README(t, tuning.Plugin(), map[string]string{"mac": `"02:00:00:00:00:07"`})
}

func FuzzParse(f *testing.F) {
	prev := `"prevResult":{"cniVersion":"VERSION","interfaces":[{"name":"eth0","sandbox":"/run/netns/c1"}],"ips":[{"version":"4","interface":0,"address":"10.88.0.5/16"}],
	  "ip4":{"ip":"10.88.0.5/16"}}`
	plannedtest.FuzzConfig(f, tuning.Plugin(),
		`{"cniVersion":"VERSION","name":"n","type":"tuning",`+prev+`}`,
		`{"cniVersion":"VERSION","name":"n","type":"tuning","mac":"02:00:00:00:00:07","mtu":1400,"promisc":true,"allmulti":false,"txQLen":0,
		  "sysctl":{"net.core.somaxconn":"500","net/ipv4/conf/IFNAME/arp_filter":"1"},"dataDir":"/run/x",`+prev+`}`,
		`{"cniVersion":"VERSION","name":"n","type":"tuning","sysctl":{"net.a/b.c":"1"},"runtimeConfig":{"mac":"02:00:00:00:00:08"},
		  "args":{"cni":{"sysctl":{"net.a/b.c":"2"},"mtu":1300,"allmulti":true}},`+prev+`}`)
}

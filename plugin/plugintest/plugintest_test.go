package plugintest_test

import (
	"net/netip"
	"testing"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/plugin/plugintest"
	"github.com/cleat-cni/cleat/plugins/bridge"
	"github.com/cleat-cni/cleat/plugins/firewall"
	"github.com/cleat-cni/cleat/plugins/hostlocal"
	"github.com/cleat-cni/cleat/plugins/loopback"
	"github.com/cleat-cni/cleat/plugins/portmap"
)

// given is what an IPAM plugin gives: an address of each family, with routes.
func given() *cni.Result {
	return &cni.Result{IPs: []cni.IP{
		{Address: netip.MustParsePrefix("10.88.0.5/16"), Gateway: netip.MustParseAddr("10.88.0.1")},
		{Address: netip.MustParsePrefix("fd00:88::5/64"), Gateway: netip.MustParseAddr("fd00:88::1")},
	}}
}

// cases are plugins of every sort: the first of a list and chained, with addresses and without, and IPAM.
func cases() map[string]plugintest.Case {
	return map[string]plugintest.Case{
		"loopback": {Planned: loopback.Plugin(), Config: `{"type":"loopback"}`, Want: []string{"pod  link lo "}, Stays: []string{"pod  link lo "}},
		"bridge": {
			Planned: bridge.Plugin(), IPAM: given(),
			Config:  `{"type":"bridge","bridge":"test0","isDefaultGateway":true,"ipMasq":true,"ipam":{"type":"any"}}`,
			Want:    []string{"pod  addr 10.88.0.5/16 dev eth0", "pod  route 0.0.0.0/0 via 10.88.0.1 dev eth0", "host addr 10.88.0.1/16 dev test0"},
			Stays:   []string{"pod  sysctl net/ipv6/conf/lo/"},
			Refused: []string{`{"type":"bridge","mtu":-1}`, `{"type":"bridge","vlan":4095}`},
		},
		"bridge-without-addresses": {Planned: bridge.Plugin(), Config: `{"type":"bridge"}`},
		"portmap": {
			Planned: portmap.Plugin(), Prev: plugintest.Attached("10.88.0.5/16"),
			Config:  `{"type":"portmap","runtimeConfig":{"portMappings":[{"hostPort":8080,"containerPort":80,"protocol":"tcp"}]}}`,
			Stays:   []string{"host sysctl net/ipv4/conf/veth0/"}, // they go with the interface
			Refused: []string{`{"type":"portmap","runtimeConfig":{"portMappings":[{"hostPort":70000,"containerPort":80,"protocol":"tcp"}]}}`},
		},
		"firewall": {
			Planned: firewall.Plugin(), Prev: plugintest.Attached("10.88.0.5/16", "fd00:88::5/64"),
			Config:  `{"type":"firewall"}`,
			Want:    []string{"host nft table inet cleat set fw6 element fd00:88::5 "},
			Refused: []string{`{"type":"firewall","backend":"ipfw"}`, `{"type":"firewall","ingressPolicy":"closed"}`},
		},
		"firewall-iptables": {
			Planned: firewall.Plugin(), Prev: plugintest.Attached("10.88.0.5/16"), Config: `{"type":"firewall","backend":"iptables"}`,
		},
		"host-local": {
			Planned: hostlocal.Plugin(), Args: "IgnoreUnknown=1",
			Config: `{"type":"host-local","ipam":{"type":"host-local","ranges":[[{"subnet":"10.88.0.0/16"}],[{"subnet":"fd00:88::/64"}]]}}`,
		},
	}
}

func TestMemory(t *testing.T) {
	for name, c := range cases() {
		t.Run(name, func(t *testing.T) { plugintest.Run(t, c) })
	}
}

package plugins_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cleat-cni/cleat/cni"
)

// refuses tries an ADD that must fail with code 7 before anything is made, and a text that says why.
func refuses(t *testing.T, network, why string, ports ...cni.PortMapping) {
	t.Helper()
	m := newMemory()
	a := m.pod(2, network, ports...)
	before := m.host(t)
	err := m.tryAdd(t, a)
	if cni.CodeOf(err) != cni.CodeInvalidConfig || !strings.Contains(fmt.Sprint(err), why) {
		t.Errorf("error %v (code %d), want one with code 7 and %q", err, cni.CodeOf(err), why)
	}
	if after := m.host(t); after != before {
		t.Errorf("something was made:\n%s", after)
	}
}

func bridgeWith(options string) string {
	return `{"cniVersion":"1.1.0","name":"n","plugins":[{"type":"bridge",` + options + `}]}`
}

// TestB047MTUs: what no link can have is refused; 0 is no number of bytes but the uplink's.
func TestB047MTUs(t *testing.T) {
	for _, mtu := range []string{"-1", "67", "70000", `"1500"`, "1500.5"} {
		t.Run(strings.Trim(mtu, `"`), func(t *testing.T) { refuses(t, bridgeWith(`"mtu":`+mtu), "mtu") })
	}
	m := newMemory()
	m.add(t, m.pod(2, bridgeWith(`"mtu":0`)))
}

// TestB048VLANConfigurations: what is no VLAN, or names one twice, is refused. That a port is in the asked VLANs alone
// is TestB048VLANs, on a kernel that has them.
func TestB048VLANConfigurations(t *testing.T) {
	for _, tc := range []struct{ name, conf, why string }{
		{"negative", `"vlan":-1`, "vlan"},
		{"too-large", `"vlan":4095`, "vlan"},
		{"reversed", `"vlanTrunk":[{"minID":103,"maxID":100}]`, "vlanTrunk[0]"},
		{"twice", `"vlanTrunk":[{"id":42},{"minID":40,"maxID":50}]`, "42"},
		{"own-vlan", `"vlan":42,"vlanTrunk":[{"id":42}]`, "42"},
		{"trunk-zero", `"vlanTrunk":[{"id":0}]`, "vlanTrunk[0]"},
	} {
		t.Run(tc.name, func(t *testing.T) { refuses(t, bridgeWith(tc.conf), tc.why) })
	}
}

// TestB053BadHostIP: the error says which mapping it is.
func TestB053BadHostIP(t *testing.T) {
	for name, ip := range map[string]string{"no-address": "198.51.100", "multicast": "224.0.0.1", "zone": "fe80::1%eth0", "localhost-v6": "::1"} {
		t.Run(name, func(t *testing.T) {
			bad := tcp(81, 80)
			bad.HostIP = ip
			refuses(t, podNetwork, "portMappings[1]", tcp(80, 80), bad)
		})
	}
}

// TestB065Tuned: what is no value of the pod's network, and what is no MAC, is refused before anything is made; a dot in an interface's name
// is one.
func TestB065Tuned(t *testing.T) {
	tuned := func(options string) string {
		return `{"cniVersion":"1.1.0","name":"n","plugins":[{"type":"bridge"},{"type":"tuning","dataDir":"` + t.TempDir() + `",` + options + `}]}`
	}
	for name, tc := range map[string]struct{ options, why string }{
		"kernel":        {`"sysctl":{"net.ipv4.conf.IFNAME.arp_filter":"1","kernel.panic":"1"}`, `"kernel.panic" is not below net`},
		"path":          {`"sysctl":{"../../x":"1"}`, `"../../x" is not below net`},
		"path-inside":   {`"sysctl":{"net/ipv4/../../kernel/panic":"1"}`, "is not below net"},
		"path-dots":     {`"sysctl":{"net.ipv4.//.//.kernel.panic":"1"}`, "is not below net"},
		"two-spellings": {`"sysctl":{"net.core.somaxconn":"1","net/core/somaxconn":"2"}`, "is there already"},
		"mac":           {`"mac":"zz"`, "mac"},
		"mac-multicast": {`"mac":"01:00:5e:00:00:01"`, "mac"},
	} {
		t.Run(name, func(t *testing.T) { refuses(t, tuned(tc.options), tc.why) })
	}
	m := newMemory()
	a := m.pod(2, tuned(`"sysctl":{"net.ipv4.conf.IFNAME.arp_filter":"1"}`))
	a.ifName = "eth0.100"
	m.add(t, a)
	if found := m.check(t, a); found != "" {
		t.Errorf("CHECK: %s", found)
	}
	if text, err := m.kernel.DumpOf(a.netns); err != nil || !strings.Contains(text, "net/ipv4/conf/eth0.100/arp_filter value 1") {
		t.Errorf("%v, the pod is\n%s", err, text)
	}
}

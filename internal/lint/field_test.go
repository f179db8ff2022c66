package lint_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/cleat-cni/cleat/internal/hostnet"
	"github.com/cleat-cni/cleat/internal/lint"
)

// wants judges files and wants a finding of a rule at each place, file:line:column, and no error elsewhere.
func wants(t *testing.T, files map[string]string, n *node, places ...string) {
	t.Helper()
	var list []lint.File
	for name, text := range files {
		list = append(list, lint.File{Path: name, Data: unescape([]byte(text)), Mode: 0o644})
	}
	found := check(t, list, n)
	for _, want := range places {
		if !slices.ContainsFunc(found, func(f lint.Finding) bool { return place(f) == want }) {
			t.Errorf("nothing at %s; found:\n%s", want, text(found))
		}
	}
	for _, f := range found {
		if f.Severity == lint.Error && !slices.Contains(places, place(f)) {
			t.Errorf("not wanted: %s", text([]lint.Finding{f}))
		}
	}
}

func place(f lint.Finding) string {
	return fmt.Sprintf("%s:%d:%d %s", f.File, f.Line, f.Column, f.Rule)
}

// bridgeNet is a network with a bridge and one range.
func bridgeNet(name, bridge, ranges string) string {
	return fmt.Sprintf(`{"cniVersion": "1.1.0", "name": "%s", "plugins": [
{"type": "bridge", "bridge": "%s", "isDefaultGateway": true, "ipam": {"type": "host-local", "ranges": [[
%s]]}}]}`, name, bridge, ranges)
}

// What is left of a former network stack sorts first, and takes all pods.
func TestB014LeftoversInFront(t *testing.T) {
	wants(t, map[string]string{
		"10-old.conflist":    `{"cniVersion": "1.1.0", "name": "calico", "plugins": [{"type": "calico"}]}`,
		"87-podman.conflist": `{"cniVersion": "1.1.0", "name": "podman", "plugins": [{"type": "bridge"}]}`,
		"99-new.conflist":    `{"cniVersion": "1.1.0", "name": "podman", "plugins": [{"type": "bridge", "bridge": "cni9"}]}`,
	}, &node{Plugins: map[string][]string{"calico": nil}}, "10-old.conflist:1:25 L502", "10-old.conflist:1:64 L601", "99-new.conflist:1:33 L501")
}

// A list saved as .conf, and a plugin saved as .conflist.
func TestB015EndingsAndContent(t *testing.T) {
	list, single := `{"cniVersion": "1.1.0", "name": "n", "plugins": [{"type": "bridge"}]}`, `{"cniVersion": "1.1.0", "name": "n", "type": "bridge"}`
	wants(t, map[string]string{"a.conf": list}, nil, "a.conf:1:38 L208")
	wants(t, map[string]string{"a.json": list}, nil, "a.json:1:38 L208")
	wants(t, map[string]string{"a.conflist": single}, nil, "a.conflist:1:38 L208")
	wants(t, map[string]string{"a.conf": single}, nil)
	wants(t, map[string]string{"a.conflist": list}, nil)
}

// Slips in JSON, each with its place.
func TestB016SlipsInJSON(t *testing.T) {
	for name, tc := range map[string]struct{ text, place string }{
		"trailing-comma": {"{\"cniVersion\": \"1.1.0\", \"name\": \"n\",\n\"plugins\": [{\"type\": \"bridge\",}]}", "a.conflist:2:30 L001"},
		"missing-quote":  {"{\"cniVersion\": \"1.1.0\",\n\"name: \"n\", \"plugins\": [{\"type\": \"bridge\"}]}", "a.conflist:2:1 L001"},
		"comment":        {"{\"cniVersion\": \"1.1.0\", // first\n\"name\": \"n\", \"plugins\": [{\"type\": \"bridge\"}]}", "a.conflist:1:25 L001"},
		"bom":            {"<BOM>{\"cniVersion\": \"1.1.0\", \"name\": \"n\", \"plugins\": [{\"type\": \"bridge\"}]}", "a.conflist:1:1 L001"},
		"crlf":           {"{\"cniVersion\": \"1.1.0\",\r\n\"name\": \"n\",\r\n\"plugins\": [{\"type\": \"bridge\", \"vlan\": 4095}]}\r\n", "a.conflist:3:40 L109"},
	} {
		t.Run(name, func(t *testing.T) { wants(t, map[string]string{"a.conflist": tc.text}, nil, tc.place) })
	}
}

// A plugin that is too old for the list, with what all of them speak.
func TestB017TooOld(t *testing.T) {
	net := `{"cniVersion": "1.0.0", "name": "n", "plugins": [{"type": "bridge"}, {"type": "firewall"}]}`
	wants(t, map[string]string{"a.conflist": net}, &node{Plugins: map[string][]string{"firewall": {"0.4.0"}}}, "a.conflist:1:79 L602")
}

// Two networks over one subnet, and one bridge with two gateways.
func TestB034OneSubnetTwice(t *testing.T) {
	a := bridgeNet("a", "cni0", `{"subnet": "10.1.0.0/16"}`)
	wants(t, map[string]string{"a.conflist": a, "b.conflist": bridgeNet("b", "cni1", `{"subnet": "10.1.0.0/16"}`)}, nil, "b.conflist:3:12 L401")
	wants(t, map[string]string{"a.conflist": a, "b.conflist": bridgeNet("b", "cni0", `{"subnet": "10.2.0.0/16"}`)}, nil, "b.conflist:2:30 L406")
}

// An MTU that can't be, one in quotes, and one above the way out.
func TestB047MTU(t *testing.T) {
	net := func(mtu string) map[string]string {
		return map[string]string{"a.conflist": `{"cniVersion": "1.1.0", "name": "n", "plugins": [{"type": "ptp", "mtu": ` + mtu +
			`, "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.1.0.0/16"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}`}
	}
	for _, mtu := range []string{"-1", "67", "70000"} {
		wants(t, net(mtu), nil, "a.conflist:1:73 L109")
	}
	wants(t, net(`"1500"`), nil, "a.conflist:1:73 L104")
	wants(t, net("0"), nil)
	uplink := &node{}
	uplink.Links = []hostnet.Link{{Name: "ens4", MTU: 1460}}
	uplink.Routes = [][2]string{{"0.0.0.0/0", "ens4"}}
	wants(t, net("1500"), uplink, "a.conflist:1:73 L604")
}

// Names of capabilities that nobody knows, options among them, and values that are none.
func TestB062Capabilities(t *testing.T) {
	net := func(caps string) map[string]string {
		return map[string]string{"a.conflist": `{"cniVersion": "1.1.0", "name": "n", "plugins": [{"type": "bridge"},
{"type": "portmap"` + caps + `}]}`}
	}
	wants(t, net(""), nil, "a.conflist:2:10 L306")
	wants(t, net(`, "capabilities": {"portMapping": true}`), nil, "a.conflist:2:38 L307")
	wants(t, net(`, "capabilities": {"portMappings": true, "snat": true}`), nil, "a.conflist:2:60 L307")
	wants(t, net(`, "capabilities": {"portMappings": "true"}`), nil, "a.conflist:2:54 L308")
}

// Plugins that come out of a folder.
func TestB079AddedPlugins(t *testing.T) {
	files := []lint.File{
		{Path: "net1.conflist", Data: []byte(`{"cniVersion": "1.1.0", "name": "net1", "plugins": [{"type": "bridge"}]}`)},
		{Path: "net1/10-a.conf", Data: []byte(`{"type": "tuning", "mtu": 1}`), Network: "net1"},
	}
	var got []string
	for _, f := range check(t, files, nil) {
		got = append(got, place(f))
	}
	if want := []string{"net1.conflist:1:41 L507", "net1/10-a.conf:1:27 L109"}; !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
}

// Types that lead out of the folders of plugins.
func TestB084Types(t *testing.T) {
	for _, typ := range []string{"../../sbin/reboot", "/bin/sh", `a\\b`, ".."} {
		wants(t, map[string]string{"a.conflist": `{"cniVersion": "1.1.0", "name": "n", "plugins": [{"type": "` + typ + `"}]}`}, nil, "a.conflist:1:59 L209")
	}
}

// Gateways of another family, elsewhere, and link-local ones.
func TestB087Gateways(t *testing.T) {
	net := func(ranges string) map[string]string {
		return map[string]string{"a.conflist": bridgeNet("n", "cni0", ranges)}
	}
	wants(t, net(`{"subnet": "10.1.0.0/16", "gateway": "fd00::1"}`), nil, "a.conflist:3:38 L109")
	wants(t, net(`{"subnet": "10.1.0.0/16", "gateway": "192.168.1.1"}`), nil, "a.conflist:3:38 L403")
	wants(t, net(`{"subnet": "2001:db8::/64", "gateway": "fe80::1"}`), nil)
	wants(t, net(`{"subnet": "10.1.0.0/16", "gateway": "10.1.0.7", "rangeStart": "10.1.0.7"}`), nil)
}

// IPAM sections that are missing, empty or nested wrongly.
func TestB089Ranges(t *testing.T) {
	net := func(ipam string) map[string]string {
		return map[string]string{"a.conflist": `{"cniVersion": "1.1.0", "name": "n", "plugins": [{"type": "ptp"` + ipam + `}]}`}
	}
	wants(t, net(""), nil, "a.conflist:1:59 L109")
	wants(t, net(`, "ipam": {}`), nil, "a.conflist:1:66 L109")
	wants(t, net(`, "ipam": {"type": "host-local", "ranges": []}`), nil, "a.conflist:1:97 L109")
	wants(t, net(`, "ipam": {"type": "host-local", "ranges": [[]]}`), nil, "a.conflist:1:108 L109")
	wants(t, net(`, "ipam": {"type": "host-local", "ranges": [{"subnet": "10.1.0.0/16"}]}`), nil, "a.conflist:1:108 L104")
	wants(t, net(`, "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.1.0.0/16"}, {"subnet": "10.1.2.0/24"}]]}`), nil, "a.conflist:1:136 L109")
}

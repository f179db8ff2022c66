package cni_test

import (
	"encoding/json"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cleat-cni/cleat/cni"
)

// plain lets cmp compare the types of netip, and leaves Raw out.
var plain = cmp.Options{
	cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{}),
	cmpopts.IgnoreTypes(&cni.Object{}),
}

func TestParsePluginConf(t *testing.T) {
	const in = `{"cniVersion":"1.1.0","name":"net1","type":"bridge","capabilities":{"mac":true,"ips":false},
		"ipam":{"type":"host-local","x":1},"dns":{"Nameservers":["10.0.0.1"],"domain":"a.b","search":null,"ttl":5},"big":12345678901234567890}`
	got, err := cni.ParsePluginConf([]byte(in))
	check(t, err)
	want := &cni.PluginConf{
		CNIVersion: "1.1.0", Name: "net1", Type: "bridge",
		Capabilities: map[string]bool{"mac": true, "ips": false},
		IPAMType:     "host-local", HasIPAM: true,
		DNS: cni.DNS{Nameservers: []string{"10.0.0.1"}, Domain: "a.b", Extra: []cni.Member{{Key: "ttl", Value: []byte("5")}}},
	}
	if diff := cmp.Diff(want, got, plain); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
	if big, _ := got.Raw.Get("big"); string(big) != "12345678901234567890" {
		t.Errorf("big = %s", big)
	}
}

func TestParsePluginConfIPAM(t *testing.T) {
	tests := map[string]struct {
		in   string
		has  bool
		kind string
	}{
		"missing": {`{"type":"a"}`, false, ""},
		"null":    {`{"type":"a","ipam":null}`, false, ""},
		"empty":   {`{"type":"a","ipam":{}}`, true, ""},
		"blank":   {`{"type":"a","ipam":{"type":""}}`, true, ""},
		"static":  {`{"type":"a","ipam":{"type":"static"}}`, true, "static"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c, err := cni.ParsePluginConf([]byte(tt.in))
			check(t, err)
			if c.HasIPAM != tt.has || c.IPAMType != tt.kind {
				t.Errorf("ipam %v %q, want %v %q", c.HasIPAM, c.IPAMType, tt.has, tt.kind)
			}
		})
	}
}

func TestParsePluginConfFaults(t *testing.T) {
	const bare = "must be the bare name of a program, without a path"
	tests := map[string]struct{ in, want string }{
		"no-type":       {`{"name":"n"}`, `line 1, column 1: type: is missing: name the plugin's program, as "type": "bridge"`},
		"type-case":     {`{"Type":"a"}`, `line 1, column 1: type: is missing: name the plugin's program, as "type": "bridge"; "Type" is there: write "type"`},
		"list":          {`{"name":"n","plugins":[]}`, "line 1, column 1: type: is missing: this is a network with a list of plugins, not one plugin"},
		"type-number":   {`{"type":5}`, "line 1, column 9: type: want a string, found a number"},
		"type-path":     {`{"type":"../../sbin/reboot"}`, `line 1, column 9: type: "../../sbin/reboot" ` + bare},
		"type-absolute": {`{"type":"/bin/sh"}`, `line 1, column 9: type: "/bin/sh" ` + bare},
		"type-windows":  {`{"type":"..\\x"}`, `line 1, column 9: type: "..\\x" ` + bare},
		"type-dots":     {`{"type":".."}`, `line 1, column 9: type: ".." ` + bare},
		"type-nul":      {`{"type":"a\u0000b"}`, `line 1, column 9: type: "a\u0000b" may not hold control characters`},
		"ipam-path":     {`{"type":"a","ipam":{"type":"a/b"}}`, `line 1, column 28: ipam.type: "a/b" ` + bare},
		"ipam-string":   {`{"type":"a","ipam":"host-local"}`, "line 1, column 20: ipam: want an object, found a string"},
		"ipam-type":     {`{"type":"a","ipam":{"type":[]}}`, "line 1, column 28: ipam.type: want a string, found a list"},
		"name-path":     {`{"type":"a","name":"../x"}`, `line 1, column 20: name: "../x" must begin with a letter or digit (A-Z, a-z, 0-9)`},
		"capability":    {`{"type":"a","capabilities":{"portMappings":"true"}}`, "line 1, column 44: capabilities.portMappings: want true or false, found a string"},
		"dns-null":      {`{"type":"a","dns":{"search":["x",null]}}`, "line 1, column 34: dns.search[1]: null is not allowed in a list: remove it"},
		"dns-string":    {`{"type":"a","dns":{"nameservers":"10.0.0.1"}}`, "line 1, column 34: dns.nameservers: want a list, found a string"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := cni.ParsePluginConf([]byte(tt.in))
			wantError(t, err, cni.CodeInvalidConfig, tt.want)
		})
	}
	_, err := cni.ParsePluginConf([]byte(`{"type":"a",}`))
	wantError(t, err, cni.CodeDecode, `line 1, column 12: trailing comma: remove the , before }; near: {"type":"a",}`)
}

func TestPrevResult(t *testing.T) {
	c := pluginConf(t, `{"cniVersion":"0.4.0","type":"a","prevResult":{"ips":[{"version":"4","address":"10.1.0.5/16"}]}}`)
	got, err := c.PrevResult()
	check(t, err)
	want := &cni.Result{CNIVersion: "0.4.0", IPs: []cni.IP{{Address: netip.MustParsePrefix("10.1.0.5/16")}}}
	if diff := cmp.Diff(want, got, plain); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
	for _, in := range []string{`{"type":"a"}`, `{"type":"a","prevResult":null}`} {
		if r, err := pluginConf(t, in).PrevResult(); r != nil || err != nil {
			t.Errorf("%s: %v, %v, want nothing", in, r, err)
		}
	}
	_, err = pluginConf(t, `{"type":"a","cniVersion":"1.0.0","prevResult":{"ips":[{"address":"10.1.0.5"}]}}`).PrevResult()
	wantError(t, err, cni.CodeDecode, `decode result: line 1, column 66: prevResult.ips[0].address: "10.1.0.5" has no prefix length: write it as 10.1.0.5/24`)
}

func TestRuntimeConfigAndArg(t *testing.T) {
	c := pluginConf(t, `{"type":"a",
		"runtimeConfig":{"portMappings":[{"hostPort":8080,"containerPort":80,"protocol":"TCP"}],
			"ipRanges":[[{"subnet":"10.1.0.0/16","rangeStart":"10.1.0.5"}]],"bandwidth":{"ingressRate":-1}},
		"args":{"cni":{"ips":["10.1.0.9"]}}}`)
	var ports []cni.PortMapping
	if ok, err := c.RuntimeConfig("portMappings", &ports); !ok || err != nil {
		t.Errorf("portMappings: %v, %v", ok, err)
	}
	if diff := cmp.Diff([]cni.PortMapping{{HostPort: 8080, ContainerPort: 80, Protocol: "TCP"}}, ports); diff != "" {
		t.Errorf("portMappings (-want +got):\n%s", diff)
	}
	var ranges [][]cni.IPRange
	if ok, err := c.RuntimeConfig("ipRanges", &ranges); !ok || err != nil {
		t.Errorf("ipRanges: %v, %v", ok, err)
	}
	wantRanges := [][]cni.IPRange{{{Subnet: netip.MustParsePrefix("10.1.0.0/16"), RangeStart: netip.MustParseAddr("10.1.0.5")}}}
	if diff := cmp.Diff(wantRanges, ranges, plain); diff != "" {
		t.Errorf("ipRanges (-want +got):\n%s", diff)
	}
	var ips []string
	if ok, err := c.Arg("ips", &ips); !ok || err != nil || len(ips) != 1 {
		t.Errorf("args.cni.ips: %v, %v, %v", ips, ok, err)
	}
	if ok, err := c.RuntimeConfig("mac", new(string)); ok || err != nil {
		t.Errorf("mac: %v, %v, want nothing", ok, err)
	}
	_, err := c.RuntimeConfig("bandwidth", new(cni.Bandwidth))
	wantError(t, err, cni.CodeInvalidConfig, "line 3, column 95: runtimeConfig.bandwidth.ingressRate: want a whole number from 0 on, found -1")
}

func TestRuntimeConfigAndArgWrongType(t *testing.T) {
	_, err := pluginConf(t, `{"type":"a","runtimeConfig":[]}`).RuntimeConfig("mac", new(string))
	wantError(t, err, cni.CodeInvalidConfig, "line 1, column 29: runtimeConfig: want an object, found a list")
	for _, in := range []string{`{"type":"a"}`, `{"type":"a","args":null}`, `{"type":"a","args":{}}`, `{"type":"a","args":{"cni":null}}`} {
		if ok, err := pluginConf(t, in).Arg("ips", new([]string)); ok || err != nil {
			t.Errorf("%s: %v, %v, want nothing", in, ok, err)
		}
	}
	_, err = pluginConf(t, `{"type":"a","args":{"cni":5}}`).Arg("ips", new([]string))
	wantError(t, err, cni.CodeInvalidConfig, "line 1, column 27: args.cni: want an object, found a number")
}

func TestValidAttachments(t *testing.T) {
	one := []cni.Attachment{{ContainerID: "c", IfName: "eth0"}}
	const list = `[{"containerID":"c","ifname":"eth0"}]`
	tests := map[string]struct {
		in      string
		want    []cni.Attachment
		present bool
	}{
		"absent": {`{"type":"a"}`, nil, false},
		"new":    {`{"type":"a","cni.dev/valid-attachments":` + list + `}`, one, true},
		"old":    {`{"type":"a","cni.dev/attachments":` + list + `}`, one, true},
		"both":   {`{"type":"a","cni.dev/attachments":[],"cni.dev/valid-attachments":` + list + `}`, one, true},
		"null":   {`{"type":"a","cni.dev/valid-attachments":null}`, nil, true},
		"empty":  {`{"type":"a","cni.dev/valid-attachments":[]}`, []cni.Attachment{}, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, present, err := pluginConf(t, tt.in).Raw.ValidAttachments()
			check(t, err)
			if diff := cmp.Diff(tt.want, got); diff != "" || present != tt.present {
				t.Errorf("present %v, want %v; (-want +got):\n%s", present, tt.present, diff)
			}
		})
	}
	_, _, err := pluginConf(t, `{"type":"a","cni.dev/valid-attachments":[null]}`).Raw.ValidAttachments()
	wantError(t, err, cni.CodeInvalidConfig, "line 1, column 42: cni.dev/valid-attachments[0]: null is not allowed in a list: remove it")
}

func TestRequest(t *testing.T) {
	given := map[string]json.RawMessage{"mac": []byte(`"aa:<"`), "ips": []byte(`["10.1.0.5"]`), "bandwidth": []byte(`{"x":1}`)}
	tests := map[string]struct {
		in    string
		given map[string]json.RawMessage
		want  string
	}{
		"unchanged": {
			`{"type":"a","z":12345678901234567890,"y":1e2,"s":"<&>","b":{ "b" : 1, "a":2 }}`, nil,
			`{"cniVersion":"1.0.0","name":"net1","type":"a","z":12345678901234567890,"y":1e2,"s":"<&>","b":{ "b" : 1, "a":2 }}`,
		},
		"own-names": {
			`{"name":"other","type":"a","cniVersion":"0.4.0"}`, nil,
			`{"cniVersion":"1.0.0","name":"net1","type":"a"}`,
		},
		"reserved": {
			`{"type":"a","cni.dev/valid-attachments":[],"cni.dev/x":1,"capabilities":{},"runtimeConfig":{"mac":"x"},"cni":2}`, nil,
			`{"cniVersion":"1.0.0","name":"net1","type":"a","cni":2}`,
		},
		"capabilities": {
			`{"capabilities":{"mac":true,"ips":true,"bandwidth":false,"portMappings":true},"type":"a"}`, given,
			`{"cniVersion":"1.0.0","name":"net1","type":"a","runtimeConfig":{"ips":["10.1.0.5"],"mac":"aa:<"}}`,
		},
		"none-declared": {
			`{"type":"a"}`, given,
			`{"cniVersion":"1.0.0","name":"net1","type":"a"}`,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := pluginConf(t, tt.in)
			before := string(c.Raw.Bytes())
			if diff := cmp.Diff(tt.want, string(c.Request("net1", "1.0.0", tt.given).Bytes())); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, string(c.Raw.Bytes())); diff != "" {
				t.Errorf("configuration changed (-want +got):\n%s", diff)
			}
		})
	}
}

func pluginConf(t *testing.T, text string) *cni.PluginConf {
	t.Helper()
	c, err := cni.ParsePluginConf([]byte(text))
	check(t, err)
	return c
}

func TestSetValidAttachments(t *testing.T) {
	o := new(cni.Object)
	if err := o.SetValidAttachments(nil); err != nil {
		t.Fatal(err)
	}
	if got, want := string(o.Bytes()), `{"cni.dev/valid-attachments":[],"cni.dev/attachments":[]}`; got != want {
		t.Errorf("no attachment is valid: %s, want %s", got, want)
	}
	if list, present, err := o.ValidAttachments(); len(list) > 0 || !present || err != nil {
		t.Errorf("read back: %v, present %t, error %v", list, present, err)
	}
}

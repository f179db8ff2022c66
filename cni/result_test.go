package cni_test

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/cni"
)

// full is a result that uses all that 1.1.0 has.
func full() *cni.Result {
	return &cni.Result{
		CNIVersion: "1.1.0",
		Interfaces: []cni.Interface{
			{Name: "cni0", MAC: "aa:bb:cc:00:00:01"},
			{Name: "eth0", MAC: "aa:bb:cc:00:00:02", MTU: 1400, Sandbox: "/run/netns/a", SocketPath: "/run/s", PCIID: "0000:01:00.0", Extra: member("owner", `{"b":1,"a":1e2}`)},
		},
		IPs: []cni.IP{
			{Interface: cni.Some(1), Address: netip.MustParsePrefix("10.1.0.5/16"), Gateway: netip.MustParseAddr("10.1.0.1"), Extra: member("vni", "9007199254740993")},
			{Interface: cni.Some(1), Address: netip.MustParsePrefix("10.1.0.6/16")},
			{Interface: cni.Some(1), Address: netip.MustParsePrefix("fd00::5/64"), Gateway: netip.MustParseAddr("fd00::1")},
		},
		Routes: []cni.Route{
			{Dst: netip.MustParsePrefix("0.0.0.0/0"), Extra: member("note", `"<&>"`)},
			{Dst: netip.MustParsePrefix("10.2.3.4/16"), GW: netip.MustParseAddr("10.1.0.9"), MTU: 1300, AdvMSS: 1260, Priority: 5, Table: cni.Some(0), Scope: cni.Some(253)},
			{Dst: netip.MustParsePrefix("::/0"), GW: netip.MustParseAddr("fd00::1")},
		},
		DNS:   cni.DNS{Nameservers: []string{"10.0.0.1"}, Domain: "a.b", Search: []string{"a.b", "b"}, Options: []string{"ndots:5"}, Extra: member("ttl", "5")},
		Extra: member("chain", `[ 1 ,2]`),
	}
}

func member(key, value string) []cni.Member {
	return []cni.Member{{Key: key, Value: json.RawMessage(value)}}
}

const (
	wireCurrent = `{"cniVersion":"VERSION","interfaces":[{"name":"cni0","mac":"aa:bb:cc:00:00:01"},` +
		`{"name":"eth0","mac":"aa:bb:cc:00:00:02","mtu":1400,"sandbox":"/run/netns/a","socketPath":"/run/s","pciID":"0000:01:00.0","owner":{"b":1,"a":1e2}}],` +
		`"ips":[{"interface":1,"address":"10.1.0.5/16","gateway":"10.1.0.1","vni":9007199254740993},{"interface":1,"address":"10.1.0.6/16"},` +
		`{"interface":1,"address":"fd00::5/64","gateway":"fd00::1"}],` +
		`"routes":[{"dst":"0.0.0.0/0","note":"<&>"},{"dst":"10.2.3.4/16","gw":"10.1.0.9","mtu":1300,"advmss":1260,"priority":5,"table":0,"scope":253},` +
		`{"dst":"::/0","gw":"fd00::1"}],` +
		`"dns":{"nameservers":["10.0.0.1"],"domain":"a.b","search":["a.b","b"],"options":["ndots:5"],"ttl":5},"chain":[ 1 ,2]}`
	wireLists = `{"cniVersion":"VERSION","interfaces":[{"name":"cni0","mac":"aa:bb:cc:00:00:01"},` +
		`{"name":"eth0","mac":"aa:bb:cc:00:00:02","sandbox":"/run/netns/a","owner":{"b":1,"a":1e2}}],` +
		`"ips":[{"version":"4","interface":1,"address":"10.1.0.5/16","gateway":"10.1.0.1","vni":9007199254740993},{"version":"4","interface":1,"address":"10.1.0.6/16"},` +
		`{"version":"6","interface":1,"address":"fd00::5/64","gateway":"fd00::1"}],` +
		`"routes":[{"dst":"0.0.0.0/0","note":"<&>"},{"dst":"10.2.3.4/16","gw":"10.1.0.9","mtu":1300,"advmss":1260,"priority":5,"table":0,"scope":253},` +
		`{"dst":"::/0","gw":"fd00::1"}],` +
		`"dns":{"nameservers":["10.0.0.1"],"domain":"a.b","search":["a.b","b"],"options":["ndots:5"],"ttl":5},"chain":[ 1 ,2]}`
	wireFamilies = `{"cniVersion":"VERSION",` +
		`"ip4":{"ip":"10.1.0.5/16","gateway":"10.1.0.1","routes":[{"dst":"0.0.0.0/0","note":"<&>"},{"dst":"10.2.3.4/16","gw":"10.1.0.9"}],"vni":9007199254740993},` +
		`"ip6":{"ip":"fd00::5/64","gateway":"fd00::1","routes":[{"dst":"::/0","gw":"fd00::1"}]},` +
		`"dns":{"nameservers":["10.0.0.1"],"domain":"a.b","search":["a.b","b"],"options":["ndots:5"],"ttl":5},"chain":[ 1 ,2]}`
)

func wire(version string) string {
	form := wireCurrent
	switch {
	case !cni.AtLeast(version, "0.3.0"):
		form = wireFamilies
	case !cni.AtLeast(version, "1.0.0"):
		form = wireLists
	}
	return strings.Replace(form, "VERSION", version, 1)
}

// reduced is what is left of full after a way through a version.
func reduced(r *cni.Result, version string) *cni.Result {
	r.CNIVersion = version
	if cni.AtLeast(version, "1.0.0") {
		return r
	}
	for i := range r.Interfaces {
		r.Interfaces[i].MTU, r.Interfaces[i].SocketPath, r.Interfaces[i].PCIID = 0, "", ""
	}
	if cni.AtLeast(version, "0.3.0") {
		return r
	}
	r.Interfaces = nil
	if len(r.IPs) == 3 {
		r.IPs = []cni.IP{r.IPs[0], r.IPs[2]}
	}
	for i := range r.IPs {
		r.IPs[i].Interface = cni.Opt[int]{}
	}
	for i, route := range r.Routes {
		r.Routes[i] = cni.Route{Dst: route.Dst, GW: route.GW, Extra: route.Extra}
	}
	return r
}

func TestResultEveryPairOfVersions(t *testing.T) {
	for _, from := range cni.Versions() {
		for _, to := range cni.Versions() {
			t.Run(from+"-to-"+to, func(t *testing.T) {
				first, err := full().Encode(from)
				check(t, err)
				if diff := cmp.Diff(wire(from), string(first)); diff != "" {
					t.Errorf("written as %s (-want +got):\n%s", from, diff)
				}
				r, err := cni.DecodeResult(first, "")
				check(t, err)
				if diff := cmp.Diff(reduced(full(), from), r, plain); diff != "" {
					t.Errorf("read as %s (-want +got):\n%s", from, diff)
				}
				second, err := r.Encode(to)
				check(t, err)
				got, err := cni.DecodeResult(second, "")
				check(t, err)
				if diff := cmp.Diff(reduced(reduced(full(), from), to), got, plain); diff != "" {
					t.Errorf("%s after %s (-want +got):\n%s", to, from, diff)
				}
			})
		}
	}
}

func TestEncodeSmall(t *testing.T) {
	address := []cni.IP{{Address: netip.MustParsePrefix("10.1.0.5/16")}}
	tests := map[string]struct {
		result        cni.Result
		version, want string
	}{
		"nothing":         {cni.Result{}, "1.1.0", `{"cniVersion":"1.1.0"}`},
		"dns-below-1.0.0": {cni.Result{}, "0.4.0", `{"cniVersion":"0.4.0","dns":{}}`},
		"no-version":      {cni.Result{IPs: address}, "", `{"cniVersion":"0.1.0","ip4":{"ip":"10.1.0.5/16"},"dns":{}}`},
		"short-version":   {cni.Result{IPs: address}, "1.0", `{"cniVersion":"1.0.0","ips":[{"address":"10.1.0.5/16"}]}`},
		"mapped": {
			cni.Result{IPs: []cni.IP{{Address: netip.MustParsePrefix("::ffff:10.1.0.5/112"), Gateway: netip.MustParseAddr("::ffff:10.1.0.1")}}},
			"0.4.0", `{"cniVersion":"0.4.0","ips":[{"version":"4","address":"10.1.0.5/16","gateway":"10.1.0.1"}],"dns":{}}`,
		},
		"zone":        {cni.Result{Routes: []cni.Route{{Dst: netip.MustParsePrefix("::/0"), GW: netip.MustParseAddr("fe80::1%eth0")}}}, "1.0.0", `{"cniVersion":"1.0.0","routes":[{"dst":"::/0","gw":"fe80::1"}]}`},
		"empty-names": {cni.Result{Interfaces: []cni.Interface{{}}}, "1.0.0", `{"cniVersion":"1.0.0","interfaces":[{"name":""}]}`},
		"extra-clash": {cni.Result{IPs: address, Extra: append(member("ips", "5"), member("x", "1")...)}, "1.0.0", `{"cniVersion":"1.0.0","ips":[{"address":"10.1.0.5/16"}],"x":1}`},
		"html":        {cni.Result{DNS: cni.DNS{Domain: "<&>"}}, "1.0.0", `{"cniVersion":"1.0.0","dns":{"domain":"<&>"}}`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := tt.result.Encode(tt.version)
			check(t, err)
			if diff := cmp.Diff(tt.want, string(got)); diff != "" {
				t.Errorf("encoded (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEncodeFaults(t *testing.T) {
	tests := map[string]struct {
		result  cni.Result
		version string
		code    cni.Code
		want    string
	}{
		"unknown-version": {cni.Result{}, "2.0.0", cni.CodeIncompatibleVersion, "encode result: version 2.0.0: not spoken here; spoken are 0.1.0, 0.2.0, 0.3.0, 0.3.1, 0.4.0, 1.0.0, 1.1.0"},
		"no-address":      {cni.Result{Interfaces: []cni.Interface{{Name: "eth0"}}}, "0.2.0", cni.CodeIncompatibleVersion, "encode result: version 0.2.0 can't hold a result without an address"},
		"zero-address":    {cni.Result{IPs: []cni.IP{{}}}, "1.0.0", cni.CodeInternal, "encode result: ips[0]: no address"},
		"zero-route":      {cni.Result{Routes: []cni.Route{{}}}, "1.0.0", cni.CodeInternal, "encode result: routes[0]: no destination"},
		"index": {
			cni.Result{IPs: []cni.IP{{Address: netip.MustParsePrefix("10.1.0.5/16"), Interface: cni.Some(0)}}}, "1.0.0", cni.CodeInternal,
			"encode result: ips[0]: 0 is not the index of one of the 0 interfaces",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := tt.result.Encode(tt.version)
			wantError(t, err, tt.code, tt.want)
			wantError(t, tt.result.Encodable(tt.version), tt.code, tt.want)
		})
	}
}

func TestDecodeResult(t *testing.T) {
	tests := map[string]struct {
		in, fallback string
		want         cni.Result
	}{
		"fallback":      {`{"ips":[{"address":"10.1.0.5/16"}]}`, "0.3.1", cni.Result{CNIVersion: "0.3.1", IPs: []cni.IP{{Address: netip.MustParsePrefix("10.1.0.5/16")}}}},
		"no-version":    {`{"ip4":{"ip":"10.1.0.5/16","gateway":""}}`, "", cni.Result{CNIVersion: "0.1.0", IPs: []cni.IP{{Address: netip.MustParsePrefix("10.1.0.5/16")}}}},
		"short-version": {`{"cniVersion":"1.0"}`, "", cni.Result{CNIVersion: "1.0.0"}},
		"empty-version": {`{"cniVersion":""}`, "0.4.0", cni.Result{CNIVersion: "0.4.0"}},
		"nulls":         {`{"cniVersion":"1.0.0","interfaces":null,"ips":null,"routes":null,"dns":null}`, "", cni.Result{CNIVersion: "1.0.0"}},
		"null-family":   {`{"cniVersion":"0.2.0","ip4":null,"ip6":{"ip":"fd00::5/64","routes":null}}`, "", cni.Result{CNIVersion: "0.2.0", IPs: []cni.IP{{Address: netip.MustParsePrefix("fd00::5/64")}}}},
		"index-minus-1": {
			`{"cniVersion":"0.4.0","ips":[{"version":"4","address":"10.1.0.5/16","interface":-1}]}`, "",
			cni.Result{CNIVersion: "0.4.0", IPs: []cni.IP{{Address: netip.MustParsePrefix("10.1.0.5/16")}}},
		},
		"mapped": {
			`{"cniVersion":"1.0.0","ips":[{"address":"::ffff:10.1.0.5/112","gateway":"::ffff:10.1.0.1"}]}`, "",
			cni.Result{CNIVersion: "1.0.0", IPs: []cni.IP{{Address: netip.MustParsePrefix("10.1.0.5/16"), Gateway: netip.MustParseAddr("10.1.0.1")}}},
		},
		"route-host-bits": {`{"cniVersion":"1.0.0","routes":[{"dst":"10.1.2.3/8"}]}`, "", cni.Result{CNIVersion: "1.0.0", Routes: []cni.Route{{Dst: netip.MustParsePrefix("10.1.2.3/8")}}}},
		"mtu-too-early": {
			`{"cniVersion":"0.4.0","interfaces":[{"name":"a","mtu":1400}]}`, "",
			cni.Result{CNIVersion: "0.4.0", Interfaces: []cni.Interface{{Name: "a", Extra: member("mtu", "1400")}}},
		},
		"version-of-ip": {
			`{"cniVersion":"1.0.0","ips":[{"version":"4","address":"10.1.0.5/16"}]}`, "",
			cni.Result{CNIVersion: "1.0.0", IPs: []cni.IP{{Address: netip.MustParsePrefix("10.1.0.5/16")}}},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := cni.DecodeResult([]byte(tt.in), tt.fallback)
			check(t, err)
			if diff := cmp.Diff(&tt.want, got, plain); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecodeResultFaults(t *testing.T) {
	tests := map[string]struct{ in, want string }{
		"null":             {`null`, "line 1, column 1: want an object, which begins with {, found null; near: null"},
		"log-first":        {"starting\n{}", `line 1, column 1: text without quotes: write "starting"; near: starting`},
		"interface-null":   {`{"interfaces":[null]}`, "line 1, column 16: interfaces[0]: null is not allowed in a list: remove it"},
		"ip-null":          {`{"ips":[{"address":"10.1.0.5/16"},null]}`, "line 1, column 35: ips[1]: null is not allowed in a list: remove it"},
		"route-null":       {`{"routes":[null]}`, "line 1, column 12: routes[0]: null is not allowed in a list: remove it"},
		"dns-null":         {`{"dns":{"nameservers":[null]}}`, "line 1, column 24: dns.nameservers[0]: null is not allowed in a list: remove it"},
		"ips-object":       {`{"ips":{}}`, "line 1, column 8: ips: want a list, found an object"},
		"version-number":   {`{"cniVersion":1}`, "line 1, column 15: cniVersion: want a string, found a number"},
		"index-high":       {`{"interfaces":[{"name":"a"}],"ips":[{"address":"10.1.0.5/16","interface":1}]}`, "line 1, column 74: ips[0].interface: 1 is not the index of one of the 1 interfaces"},
		"index-low":        {`{"interfaces":[{"name":"a"}],"ips":[{"address":"10.1.0.5/16","interface":-2}]}`, "line 1, column 74: ips[0].interface: -2 is not the index of one of the 1 interfaces"},
		"index-string":     {`{"ips":[{"address":"10.1.0.5/16","interface":"0"}]}`, "line 1, column 46: ips[0].interface: want a whole number, found a string"},
		"address-missing":  {`{"ips":[{}]}`, "line 1, column 9: ips[0].address: is missing: write an address with its prefix length, as 10.1.0.5/24"},
		"address-bare":     {`{"ips":[{"address":"10.1.0.5"}]}`, `line 1, column 20: ips[0].address: "10.1.0.5" has no prefix length: write it as 10.1.0.5/24`},
		"address-wrong":    {`{"ips":[{"address":"10.1.0.5/33"}]}`, `line 1, column 20: ips[0].address: "10.1.0.5/33" is no address with prefix length: write it as 10.1.0.5/24`},
		"address-mapped":   {`{"ips":[{"address":"::ffff:10.1.0.5/64"}]}`, `line 1, column 20: ips[0].address: "::ffff:10.1.0.5/64": an IPv4 address in IPv6 notation needs a prefix length of at least 96`},
		"gateway":          {`{"ips":[{"address":"10.1.0.5/8","gateway":"10.1.0.1/8"}]}`, `line 1, column 43: ips[0].gateway: "10.1.0.1/8" is no IP address`},
		"gateway-zone":     {`{"routes":[{"dst":"::/0","gw":"fe80::1%eth0"}]}`, `line 1, column 31: routes[0].gw: "fe80::1%eth0" is no IP address`},
		"route-dst":        {`{"routes":[{"gw":"10.1.0.1"}]}`, "line 1, column 12: routes[0].dst: is missing: write an address with its prefix length, as 10.1.0.5/24"},
		"route-negative":   {`{"routes":[{"dst":"::/0","table":-1}]}`, "line 1, column 34: routes[0].table: -1 is negative"},
		"mtu-string":       {`{"interfaces":[{"name":"a","mtu":"1500"}]}`, "line 1, column 34: interfaces[0].mtu: want a whole number, found a string"},
		"name-number":      {`{"interfaces":[{"name":1}]}`, "line 1, column 24: interfaces[0].name: want a string, found a number"},
		"family-string":    {`{"cniVersion":"0.2.0","ip4":"10.1.0.5/8"}`, "line 1, column 29: ip4: want an object, found a string"},
		"family-other":     {`{"cniVersion":"0.2.0","ip4":{"ip":"fd00::1/64"}}`, "line 1, column 35: ip4.ip: fd00::1/64 is of the other family"},
		"family-route":     {`{"cniVersion":"0.1.0","ip6":{"ip":"fd00::1/64","routes":[null]}}`, "line 1, column 58: ip6.routes[0]: null is not allowed in a list: remove it"},
		"family-bare":      {`{"cniVersion":"0.1.0","ip4":{"gateway":"10.1.0.1"}}`, "line 1, column 29: ip4.ip: is missing: write an address with its prefix length, as 10.1.0.5/24"},
		"family-gateway":   {`{"cniVersion":"0.1.0","ip4":{"ip":"10.1.0.5/8","gateway":1}}`, "line 1, column 58: ip4.gateway: want a string, found a number"},
		"family-no-routes": {`{"cniVersion":"0.1.0","ip6":{"ip":"fd00::1/64","routes":5}}`, "line 1, column 57: ip6.routes: want a list, found a number"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r, err := cni.DecodeResult([]byte(tt.in), "1.1.0")
			if r != nil {
				t.Error("a result beside an error")
			}
			wantError(t, err, cni.CodeDecode, "decode result: "+tt.want)
		})
	}
	_, err := cni.DecodeResult([]byte(`{"cniVersion":"1.2.0"}`), "")
	wantError(t, err, cni.CodeIncompatibleVersion, "decode result: version 1.2.0: not spoken here; spoken are 0.1.0, 0.2.0, 0.3.0, 0.3.1, 0.4.0, 1.0.0, 1.1.0")
}

// What a version does not know passes through it unchanged, also where another version has
// a meaning for it.
func TestResultPassesThrough(t *testing.T) {
	tests := map[string]string{
		"0.2.0": `{"cniVersion":"0.2.0","ip4":{"ip":"10.1.0.5/8","interface":3},"dns":{"x":1.0},"ips":[ 1 ],"interfaces":null}`,
		"0.4.0": `{"cniVersion":"0.4.0","interfaces":[{"name":"a","mtu":"odd","x":[1 ,2]}],"dns":{},"ip4":{"b":1,"a":2},"z":1e400}`,
		"1.0.0": `{"cniVersion":"1.0.0","interfaces":[{"name":"a","speed":18446744073709551616}],"ips":[{"address":"fd00::1/64","x":{}}],"ip4":null,"y":"\u003c"}`,
	}
	for version, in := range tests {
		t.Run(version, func(t *testing.T) {
			r, err := cni.DecodeResult([]byte(in), "")
			check(t, err)
			out, err := r.Encode(version)
			check(t, err)
			if diff := cmp.Diff(in, string(out)); diff != "" {
				t.Errorf("passed through (-want +got):\n%s", diff)
			}
			for _, other := range cni.Versions() {
				out, err := r.Encode(other)
				if able := r.Encodable(other); (able == nil) != (err == nil) {
					t.Errorf("as %s: encodable %v, encoded %v", other, able, err)
				}
				if cni.CodeOf(err) == cni.CodeIncompatibleVersion {
					continue // without an address it has no form there
				}
				check(t, err)
				if _, err := cni.DecodeResult(out, ""); err != nil {
					t.Errorf("as %s: %v\n%s", other, err, out)
				}
			}
		})
	}
}

func TestResultClone(t *testing.T) {
	r := full()
	c := r.Clone()
	if diff := cmp.Diff(r, c, plain); diff != "" {
		t.Errorf("clone (-want +got):\n%s", diff)
	}
	c.Interfaces[1].Name, c.Interfaces[1].Extra[0].Value[0] = "x", 'x'
	c.IPs[0].Interface, c.IPs[0].Extra[0].Key = cni.Opt[int]{}, "x"
	c.Routes[0].MTU, c.Routes[0].Extra[0].Value[0] = 1, 'x'
	c.DNS.Nameservers[0], c.DNS.Search[0], c.DNS.Options[0], c.DNS.Extra[0].Value[0] = "x", "x", "x", 'x'
	c.Extra[0].Value[0] = 'x'
	if diff := cmp.Diff(full(), r, plain); diff != "" {
		t.Errorf("the original changed with its clone (-want +got):\n%s", diff)
	}
	if (*cni.Result)(nil).Clone() != nil {
		t.Error("nil has a clone")
	}
}

func TestDNSIsZero(t *testing.T) {
	for name, d := range map[string]cni.DNS{
		"nameservers": {Nameservers: []string{"10.0.0.1"}}, "domain": {Domain: "a"}, "search": {Search: []string{"a"}},
		"options": {Options: []string{"a"}}, "extra": {Extra: member("a", "1")},
	} {
		if d.IsZero() {
			t.Errorf("%s: is zero", name)
		}
	}
	if !(cni.DNS{Search: []string{}}).IsZero() {
		t.Error("empty is not zero")
	}
}

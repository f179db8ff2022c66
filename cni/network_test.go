package cni_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/cni"
)

func TestParseNetwork(t *testing.T) {
	bridge := []*cni.PluginConf{{Type: "bridge"}}
	tests := map[string]struct {
		in   string
		want cni.Network
	}{
		"list": {
			`{"cniVersion":"1.0.0","cniVersions":["0.4.0","1.1.0"],"name":"n","disableCheck":true,"plugins":[{"type":"bridge"},{"type":"portmap"}]}`,
			cni.Network{
				Name: "n", CNIVersion: "1.0.0", CNIVersions: []string{"0.4.0", "1.1.0"}, DisableCheck: true, HasPlugins: true,
				Plugins: []*cni.PluginConf{{Type: "bridge"}, {Type: "portmap"}},
			},
		},
		"single": {
			`{"cniVersion":"1.0.0","name":"n","type":"bridge","disableGC":true}`,
			cni.Network{Name: "n", CNIVersion: "1.0.0", Single: true, Plugins: []*cni.PluginConf{{Name: "n", CNIVersion: "1.0.0", Type: "bridge"}}},
		},
		"crlf":         {"{\r\n\"name\":\"n\",\r\n\"plugins\":[{\"type\":\"bridge\"}]\r\n}\r\n", cni.Network{Name: "n", HasPlugins: true, Plugins: bridge}},
		"type-in-list": {`{"name":"n","type":"x","plugins":[{"type":"bridge"}]}`, cni.Network{Name: "n", HasPlugins: true, Plugins: bridge}},
		"no-plugins":   {`{"name":"n"}`, cni.Network{Name: "n"}},
		"bool-strings": {
			`{"name":"n","disableCheck":"True","disableGC":"FALSE","loadOnlyInlinedPlugins":"true","plugins":[{"type":"bridge"}]}`,
			cni.Network{Name: "n", DisableCheck: true, LoadOnlyInlinedPlugins: true, HasPlugins: true, Plugins: bridge},
		},
		"nulls": {
			`{"name":"n","cniVersion":null,"cniVersions":null,"disableGC":null,"plugins":[{"type":"bridge"}]}`,
			cni.Network{Name: "n", HasPlugins: true, Plugins: bridge},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := cni.ParseNetwork([]byte(tt.in))
			check(t, err)
			if diff := cmp.Diff(&tt.want, got, plain); diff != "" {
				t.Errorf("network (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseNetworkFaults(t *testing.T) {
	tests := map[string]struct{ in, want string }{
		"nothing":       {`{}`, `line 1, column 1: plugins: is missing, and type too: a network has "name" and "plugins", a single plugin "name" and "type"`},
		"no-name":       {`{"plugins":[{"type":"a"}]}`, `line 1, column 1: name: is missing: name the network, as "name": "net1"`},
		"no-name-one":   {`{"type":"loopback"}`, `line 1, column 1: name: is missing: name the network, as "name": "net1"`},
		"name-number":   {`{"name":5,"plugins":[]}`, "line 1, column 9: name: want a string, found a number"},
		"name-path":     {`{"name":"a/../b","plugins":[]}`, `line 1, column 9: name: "a/../b" may hold only the letters A-Z and a-z, digits, _ . and -`},
		"name-dots":     {`{"name":"..","type":"a"}`, `line 1, column 9: name: ".." must begin with a letter or digit (A-Z, a-z, 0-9)`},
		"name-space":    {`{"name":"a b","type":"a"}`, `line 1, column 9: name: "a b" may hold only the letters A-Z and a-z, digits, _ . and -`},
		"name-long":     {`{"name":"` + strings.Repeat("a", 300) + `","type":"a"}`, `line 1, column 9: name: "` + strings.Repeat("a", 40) + `"… is longer than 255 bytes`},
		"version":       {`{"name":"n","cniVersion":1.0,"plugins":[]}`, "line 1, column 26: cniVersion: want a string, found a number"},
		"version-text":  {`{"name":"n","cniVersion":"latest","plugins":[]}`, `line 1, column 26: cniVersion: version "latest": want the form 1.1.0`},
		"versions":      {`{"name":"n","cniVersions":"1.0.0","plugins":[]}`, "line 1, column 27: cniVersions: want a list, found a string"},
		"versions-item": {`{"name":"n","cniVersions":["1.0.0",1],"plugins":[]}`, "line 1, column 36: cniVersions[1]: want a string, found a number"},
		"versions-text": {`{"name":"n","cniVersions":["1.0.0","x"],"plugins":[]}`, `line 1, column 36: cniVersions[1]: version "x": want the form 1.1.0`},
		"bool":          {`{"name":"n","disableGC":1,"plugins":[]}`, "line 1, column 25: disableGC: want true or false, found 1"},
		"bool-text":     {`{"name":"n","disableCheck":"maybe","plugins":[]}`, `line 1, column 28: disableCheck: want true or false, found "maybe"`},
		"plugins-null":  {`{"name":"n","plugins":null}`, "line 1, column 23: plugins: want a list, found null"},
		"plugins-type":  {`{"name":"n","plugins":{}}`, "line 1, column 23: plugins: want a list, found an object"},
		"plugins-empty": {`{"name":"n","plugins":[]}`, "line 1, column 23: plugins: is empty: a network has at least one plugin"},
		"plugins-case":  {`{"name":"n","Plugins":[]}`, `line 1, column 1: plugins: is missing; "Plugins" is there: write "plugins"`},
		"type-case":     {`{"name":"n","Type":"a"}`, `line 1, column 1: type: is missing; "Type" is there: write "type"`},
		"plugin-null":   {`{"name":"n","plugins":[{"type":"a"},null]}`, "line 1, column 37: plugins[1]: null is not allowed in a list: remove it"},
		"plugin-string": {`{"name":"n","plugins":["bridge"]}`, "line 1, column 24: plugins[0]: want an object, found a string"},
		"plugin-type":   {"{\"name\":\"n\",\n\"plugins\":[{\"type\":\"a\"},\n  {\"type\":5}]}", "line 3, column 11: plugins[1].type: want a string, found a number"},
		"plugin-bare":   {`{"name":"n","plugins":[{}]}`, `line 1, column 24: plugins[0].type: is missing: name the plugin's program, as "type": "bridge"`},
		"only-inlined": {
			`{"name":"n","loadOnlyInlinedPlugins":true}`,
			"line 1, column 1: plugins: is missing, but with loadOnlyInlinedPlugins they may not stand elsewhere: give plugins or remove it",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			n, err := cni.ParseNetwork([]byte(tt.in))
			if n != nil {
				t.Error("a network beside an error")
			}
			wantError(t, err, cni.CodeInvalidConfig, tt.want)
		})
	}
}

func TestParseNetworkTwice(t *testing.T) {
	_, err := cni.ParseNetwork([]byte("{\"name\":\"n\",\"plugins\":[{\"type\":\"a\",\n\"type\":\"b\"}]}"))
	wantError(t, err, cni.CodeDecode, `line 2, column 1: the key "type" stands twice in plugins[0]: remove one; near: "type":"b"}]}`)
}

// A file's name that is put in afterwards shows in every form of the error.
func TestParseNetworkFile(t *testing.T) {
	_, err := cni.ParseNetwork([]byte(`{"name":5}`))
	fault, ok := errors.AsType[*cni.SyntaxError](err)
	if !ok {
		t.Fatalf("error %v is no syntax error", err)
	}
	fault.File = "10-a.conflist"
	const want = "10-a.conflist:1:9: name: want a string, found a number"
	wantError(t, err, cni.CodeInvalidConfig, want)
	if diff := cmp.Diff(want, cni.AsError(err).Error()); diff != "" {
		t.Errorf("as an error object (-want +got):\n%s", diff)
	}
}

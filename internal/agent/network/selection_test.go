package network

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/cni"
)

func TestParseNetworks(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       []Selection
		err        string
	}{
		{name: "empty", text: " "},
		{name: "names", text: "storage, backup@bk0", want: []Selection{{Name: "storage"}, {Name: "backup", IfName: "bk0"}}},
		{name: "objects", text: `[{"name":"storage","interface":"st0","ips":["10.1.0.5/24","fd00::5"],"mac":"02:00:00:00:00:01","cni-args":{"B":"2","A":"1"}}]`,
			want: []Selection{{Name: "storage", IfName: "st0", IPs: []string{"10.1.0.5/24", "fd00::5"}, MAC: "02:00:00:00:00:01", Args: cni.Args{{"A", "1"}, {"B", "2"}}}}},
		{name: "empty list", text: "[]"},
		{name: "no name", text: "a,,b", err: "network 2"},
		{name: "no interface", text: "a@", err: "no interface"},
		{name: "bad interface", text: "a@x/y", err: "network 1"},
		{name: "climbs", text: "..", err: "network 1"},
		{name: "namespace", text: "kube-system/a", err: "has no namespace"},
		{name: "namespace of an object", text: `[{"name":"a","namespace":"b"}]`, err: "has no namespace"},
		{name: "unknown member", text: `[{"name":"a","default-route":["10.0.0.1"]}]`, err: "default-route"},
		{name: "cut short", text: `[{"name":"a"}`, err: "unexpected"},
		{name: "more behind", text: `[] []`, err: "behind the list"},
		{name: "bad mac", text: `[{"name":"a","mac":"02:00:00:00:00"}]`, err: "mac"},
		{name: "bad ip", text: `[{"name":"a","ips":["10.1.0"]}]`, err: "ip"},
		{name: "takes the pod's name", text: `[{"name":"a","cni-args":{"K8S_POD_NAME":"x"}}]`, err: "K8S_POD_NAME"},
		{name: "two in one argument", text: `[{"name":"a","cni-args":{"A":"1;B=2"}}]`, err: "cni-args"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseNetworks(tt.text)
			if diff := cmp.Diff(tt.want, got); tt.err == "" && (diff != "" && len(tt.want)+len(got) > 0 || err != nil) {
				t.Errorf("ParseNetworks: %v (-want +got)\n%s", err, diff)
			}
			if tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err) || !strings.Contains(err.Error(), Annotation)) {
				t.Errorf("ParseNetworks: %v, want %q and the annotation's name", err, tt.err)
			}
		})
	}
}

func FuzzParseNetworks(f *testing.F) {
	for _, s := range []string{"", "a,b@c", `[{"name":"a","ips":["::1"]}]`, "[", "@", ",", "a/b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		list, err := ParseNetworks(text)
		for _, s := range list {
			if err == nil && s.Name == "" {
				t.Errorf("%q: a network without a name", text)
			}
		}
	})
}

package podworkers

import (
	"net/netip"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func TestHookURL(t *testing.T) {
	pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "web", Ports: []v1.ContainerPort{{Name: "http", ContainerPort: 8080}}}}}}
	v := victim{pod: pod, name: "web", ips: []netip.Addr{netip.MustParseAddr("fd00::2")}}
	tests := []struct {
		name   string
		v      victim
		action v1.HTTPGetAction
		want   string // or the error
	}{
		{"number", v, v1.HTTPGetAction{Port: intstr.FromInt32(80)}, "http://[fd00::2]:80/"},
		{"by-name", v, v1.HTTPGetAction{Port: intstr.FromString("http"), Path: "/a?b=c"}, "http://[fd00::2]:8080/a?b=c"},
		{"digits", v, v1.HTTPGetAction{Port: intstr.FromString("81")}, "http://[fd00::2]:81/"},
		{"host-and-https", v, v1.HTTPGetAction{Port: intstr.FromInt32(443), Host: "example.com", Scheme: v1.URISchemeHTTPS, Path: "x"}, "https://example.com:443/x"},
		{"no-such-port", v, v1.HTTPGetAction{Port: intstr.FromString("dns")}, "hook of container web: no port dns"},
		{"too-big", v, v1.HTTPGetAction{Port: intstr.FromInt32(70000)}, "hook of container web: no port 70000"},
		{"no-address", victim{pod: pod, name: "web"}, v1.HTTPGetAction{Port: intstr.FromInt32(80)}, "hook of container web: the pod has no address"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := hookURL(tt.v, &tt.action)
			if err != nil {
				got = err.Error()
			}
			if got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

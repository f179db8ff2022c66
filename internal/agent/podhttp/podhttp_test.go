package podhttp

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func TestURL(t *testing.T) {
	web := Target{Container: &v1.Container{Name: "web", Ports: []v1.ContainerPort{{Name: "http", ContainerPort: 8080}}}, IP: "fd00::2"}
	for _, tt := range []struct {
		name   string
		target Target
		action v1.HTTPGetAction
		want   string // or the error
	}{
		{"number", web, v1.HTTPGetAction{Port: intstr.FromInt32(80)}, "http://[fd00::2]:80/"},
		{"by-name", web, v1.HTTPGetAction{Port: intstr.FromString("http"), Path: "/a?b=c"}, "http://[fd00::2]:8080/a?b=c"},
		{"digits", web, v1.HTTPGetAction{Port: intstr.FromString("81")}, "http://[fd00::2]:81/"},
		{"host-and-https", web, v1.HTTPGetAction{Port: intstr.FromInt32(443), Host: "example.com", Scheme: v1.URISchemeHTTPS, Path: "x"}, "https://example.com:443/x"},
		{"host-in-brackets", web, v1.HTTPGetAction{Port: intstr.FromInt32(80), Host: "[::1]"}, "http://[::1]:80/"},
		{"path-that-looks-like-a-host", web, v1.HTTPGetAction{Port: intstr.FromInt32(80), Path: "//192.0.2.1/x"}, "http://[fd00::2]:80/192.0.2.1/x"},
		{"path-that-looks-like-a-url", web, v1.HTTPGetAction{Port: intstr.FromInt32(80), Path: "http://192.0.2.1/x"}, "http://[fd00::2]:80/http://192.0.2.1/x"},
		{"path-that-is-no-url", web, v1.HTTPGetAction{Port: intstr.FromInt32(80), Path: "a%zz"}, "http://[fd00::2]:80/a%25zz"},
		{"escaped-path", web, v1.HTTPGetAction{Port: intstr.FromInt32(80), Path: "/a%2Fb"}, "http://[fd00::2]:80/a%2Fb"},
		{"no-such-port", web, v1.HTTPGetAction{Port: intstr.FromString("dns")}, "the container has no port dns"},
		{"no-spec", Target{IP: "192.0.2.1"}, v1.HTTPGetAction{Port: intstr.FromString("http")}, "the container has no port http"},
		{"too-big", web, v1.HTTPGetAction{Port: intstr.FromInt32(70000)}, "the container has no port 70000"},
		{"no-address", Target{}, v1.HTTPGetAction{Port: intstr.FromInt32(80)}, "the pod has no address"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := ""
			req, err := tt.target.NewRequest(t.Context(), &tt.action, "test")
			if err != nil {
				got = err.Error()
			} else {
				got = req.URL.String()
			}
			if got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

package podworkers

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/cleat-cni/cleat/internal/agent/podhttp"
)

// TestHookRequest makes requests of hooks: any answer is a success.
func TestHookRequest(t *testing.T) {
	asked := ""
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.Method + " " + r.URL.String() + " " + r.UserAgent()
		http.Error(w, "no", http.StatusInternalServerError)
	}))
	defer srv.Close()
	at := netip.MustParseAddrPort(srv.Listener.Addr().String())
	pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "web", Ports: []v1.ContainerPort{{Name: "http", ContainerPort: int32(at.Port())}}}}}}
	s := &Syncer{http: podhttp.NewClient()}
	v := victim{pod: pod, name: "web", ips: []netip.Addr{at.Addr()}}
	if err := s.get(t.Context(), v, &v1.HTTPGetAction{Port: intstr.FromString("http"), Path: "/bye?now"}); err != nil || asked != "GET /bye?now kube-lifecycle/cleat" {
		t.Errorf("asked %q: %v", asked, err)
	}
	for _, tt := range []struct {
		name string
		v    victim
		port string
		want string
	}{
		{"no-such-port", v, "dns", "hook of container web: the container has no port dns"},
		{"no-address", victim{pod: pod, name: "web"}, "http", "hook of container web: the pod has no address"},
		{"no-spec", victim{name: "web", ips: v.ips}, "http", "hook of container web: the container has no port http"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := s.get(t.Context(), tt.v, &v1.HTTPGetAction{Port: intstr.FromString(tt.port)}); err == nil || err.Error() != tt.want {
				t.Errorf("error %v, want %s", err, tt.want)
			}
		})
	}
}

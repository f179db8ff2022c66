package prober

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// portOf returns the port of a URL.
func portOf(t *testing.T, raw string) int {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func attempt(t *testing.T, timeout time.Duration, p v1.ProbeHandler) (answer, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	ctr := &v1.Container{Name: "web", Ports: []v1.ContainerPort{{Name: "closed", ContainerPort: int32(closedPort(t))}}}
	return New(Config{}).attempt(ctx, target{probe: &v1.Probe{ProbeHandler: p}, container: ctr, ip: "127.0.0.1"})
}

// closedPort returns a port of loopback at which nobody listens.
func closedPort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func verdict(a answer, err error) string {
	switch {
	case err != nil:
		return "error: " + err.Error()
	case a.warning:
		return "warning: " + a.text
	case a.ok:
		return "ok"
	}
	return "failure: " + a.text
}

func TestHTTPGet(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/ok", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, strings.Repeat("x", 1<<20)) // more than a probe reads
	})
	mux.HandleFunc("/bad", func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "not today\xff", http.StatusServiceUnavailable)
	})
	mux.HandleFunc("/moved", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/ok", http.StatusFound) })
	mux.HandleFunc("/away", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://192.0.2.1/x", http.StatusFound)
	})
	mux.HandleFunc("/loop", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/loop", http.StatusFound) })
	mux.HandleFunc("/slow", func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusTeapot)
		fmt.Fprintf(w, "%s %s %s %s %q", r.Host, r.URL, r.UserAgent(), r.Header.Get("Accept"), r.Header["X-A"])
	})
	srv := httptest.NewServer(mux)
	defer srv.Close()
	tls := httptest.NewTLSServer(mux)
	defer tls.Close()
	get := func(path string, headers ...v1.HTTPHeader) *v1.HTTPGetAction {
		return &v1.HTTPGetAction{Path: path, Port: intstr.FromInt(portOf(t, srv.URL)), Scheme: v1.URISchemeHTTP, HTTPHeaders: headers}
	}
	secure := get("/ok")
	secure.Scheme, secure.Port = v1.URISchemeHTTPS, intstr.FromInt(portOf(t, tls.URL))
	elsewhere := get("/ok")
	elsewhere.Host = "[::ffff:127.0.0.1]"
	closed := get("/ok")
	closed.Port = intstr.FromString("closed")
	nameless := get("/ok")
	nameless.Port = intstr.FromString("http")
	for _, tt := range []struct {
		name string
		get  *v1.HTTPGetAction
		want string // the beginning
	}{
		{"ok", get("/ok"), "ok"},
		{"https", secure, "ok"},
		{"host", elsewhere, "ok"},
		{"bad", get("/bad"), "failure: status 503: not today�"},
		{"redirect", get("/moved"), "ok"},
		{"redirect-away", get("/away"), "warning: redirected to http://192.0.2.1/x, which is not the pod"},
		{"redirect-for-ever", get("/loop"), "failure: Get \"/loop\": stopped after 10 redirects"},
		{"slow", get("/slow"), "failure: Get "},
		{"closed", closed, "failure: Get "},
		{"no-such-port", nameless, "error: the container has no port http"},
		{"query-and-agent", get("/echo?a=b&c"), fmt.Sprintf("failure: status 418: 127.0.0.1:%d /echo?a=b&c kube-probe/cleat */* []", portOf(t, srv.URL))},
		{"no-slash", get("echo"), fmt.Sprintf("failure: status 418: 127.0.0.1:%d /echo ", portOf(t, srv.URL))},
		{"double-slash", get("//192.0.2.1/echo"), "failure: status 404: 404 page not found"},
		{"headers", get("/echo", v1.HTTPHeader{Name: "X-A", Value: "1"}, v1.HTTPHeader{Name: "x-a", Value: "2"}, v1.HTTPHeader{Name: "Host", Value: "web.example"},
			v1.HTTPHeader{Name: "User-Agent", Value: "me"}, v1.HTTPHeader{Name: "Accept", Value: ""}), "failure: status 418: web.example /echo me  [\"1\" \"2\"]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, err := attempt(t, 500*time.Millisecond, v1.ProbeHandler{HTTPGet: tt.get})
			if got := verdict(a, err); !strings.HasPrefix(got, tt.want) || tt.want == "ok" && got != "ok" {
				t.Errorf("got %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestTCPSocket(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	open := intstr.FromInt(l.Addr().(*net.TCPAddr).Port)
	for _, tt := range []struct {
		name   string
		action v1.TCPSocketAction
		want   string
	}{
		{"open", v1.TCPSocketAction{Port: open}, "ok"},
		{"closed", v1.TCPSocketAction{Port: intstr.FromString("closed")}, "failure: dial tcp 127.0.0.1:"},
		{"no-such-host", v1.TCPSocketAction{Port: open, Host: "not a host"}, "failure: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, err := attempt(t, time.Second, v1.ProbeHandler{TCPSocket: &tt.action})
			if got := verdict(a, err); !strings.HasPrefix(got, tt.want) {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestNoAddressIsNoFailure(t *testing.T) {
	_, err := New(Config{}).attempt(t.Context(), target{probe: &v1.Probe{ProbeHandler: v1.ProbeHandler{TCPSocket: &v1.TCPSocketAction{Port: intstr.FromInt32(1)}}},
		container: &v1.Container{}})
	if err == nil || err.Error() != "the pod has no address" {
		t.Errorf("error %v", err)
	}
}

// grpcServer serves the health protocol: the service's name says what to answer.
func grpcServer(t *testing.T) int {
	t.Helper()
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.ProtoMajor != 2 || r.URL.Path != "/grpc.health.v1.Health/Check" || r.Header.Get("Te") != "trailers" ||
			r.Header.Get("Content-Type") != "application/grpc" || !strings.HasSuffix(r.Header.Get("Grpc-Timeout"), "m") {
			t.Errorf("request %v %v", r, err)
		}
		service := ""
		if len(body) > 7 {
			service = string(body[7:])
		}
		trailer := func(code, text string) {
			w.Header().Set(http.TrailerPrefix+"Grpc-Status", code)
			w.Header().Set(http.TrailerPrefix+"Grpc-Message", text)
		}
		w.Header().Set("Content-Type", "application/grpc")
		switch service {
		case "", "web":
			w.Write([]byte{0, 0, 0, 0, 2, 8, 1})
			trailer("0", "")
		case "down":
			w.Write([]byte{0, 0, 0, 0, 2, 8, 2})
			trailer("0", "")
		case "later-field":
			w.Write([]byte{0, 0, 0, 0, 7, 0x12, 1, 'x', 0x1d, 0, 0, 0})
			trailer("0", "")
		case "none":
			w.Header().Set("Grpc-Status", "5") // an answer without a message
		case "old":
			trailer("12", "")
		case "broken":
			trailer("13", "it%20broke")
		case "silent":
			<-r.Context().Done()
		case "web-server":
			w.WriteHeader(http.StatusNotFound)
		default:
			t.Errorf("service %q", service)
		}
	})
	srv := httptest.NewUnstartedServer(handler)
	srv.Config.Protocols = &http.Protocols{}
	srv.Config.Protocols.SetUnencryptedHTTP2(true)
	srv.Start()
	t.Cleanup(srv.Close)
	return portOf(t, srv.URL)
}

func TestGRPC(t *testing.T) {
	port := grpcServer(t)
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	for _, tt := range []struct {
		name, service string
		port          int
		want          string
	}{
		{"whole-server", "", port, "ok"},
		{"service", "web", port, "ok"},
		{"not-serving", "down", port, `failure: service "down" is NOT_SERVING`},
		{"unreadable", "later-field", port, "failure: read answer: it is no HealthCheckResponse"},
		{"unknown-service", "none", port, `failure: the server knows no service "none"`},
		{"not-implemented", "old", port, "failure: the server does not implement grpc.health.v1.Health"},
		{"another-status", "broken", port, "failure: gRPC status 13: it broke"},
		{"http-status", "web-server", port, "failure: HTTP status 404"},
		{"never-answers", "silent", port, "failure: "},
		{"closed", "", closedPort(t), "failure: "},
		{"no-grpc", "", portOf(t, web.URL), "failure: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, err := attempt(t, 500*time.Millisecond, v1.ProbeHandler{GRPC: &v1.GRPCAction{Port: int32(tt.port), Service: &tt.service}})
			if got := verdict(a, err); !strings.HasPrefix(got, tt.want) || tt.want == "ok" && got != "ok" {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestStaticVariables(t *testing.T) {
	got := static(&v1.Container{Env: []v1.EnvVar{{Name: "A", Value: "1"}, {Name: "IP", ValueFrom: &v1.EnvVarSource{}}, {Name: "B", Value: "$(A)$(IP)"}}})
	if len(got) != 2 || got[1].Value != "1$(IP)" {
		t.Errorf("got %v", got)
	}
}

// FuzzHealthResponse is about an answer from a container, which nobody vouches for.
func FuzzHealthResponse(f *testing.F) {
	for _, s := range [][]byte{{0, 0, 0, 0, 2, 8, 1}, {0, 0, 0, 0, 0}, {0, 0, 0, 0, 7, 0x12, 1, 'x', 0x1d, 0, 0, 0}, {0, 0, 0, 0, 3, 0x12, 0xff, 1},
		{0, 0, 0, 0, 12, 0x11, 1, 2, 3, 4, 5, 6, 7, 8, 8, 3, 9}} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		status, err := healthResponse(b)
		if err == nil && (len(b) < 5 || status != 0 && len(b) < 7) {
			t.Errorf("%v is %d", b, status)
		}
		if name := statusName(status); name == "" {
			t.Errorf("status %d has no name", status)
		}
	})
}

func FuzzHealthRequest(f *testing.F) {
	f.Add("")
	f.Add("web.v1.Web")
	f.Add(strings.Repeat("x", 300))
	f.Fuzz(func(t *testing.T, service string) {
		// The request has the form of the response, but for the type of its field.
		b := frame(healthRequest(service))
		if _, err := healthResponse(b); err != nil {
			t.Errorf("%q: %v", service, err)
		}
		if diff := cmp.Diff(service, string(b[len(b)-len(service):])); diff != "" {
			t.Error(diff)
		}
	})
}

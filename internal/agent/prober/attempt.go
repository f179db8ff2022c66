package prober

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/cleat-cni/cleat/internal/agent/container"
	"github.com/cleat-cni/cleat/internal/agent/decide"
)

// userAgent is what the field knows probes by.
const userAgent = "kube-probe/cleat"

// maxBody is how much of an answer is read, and maxText how much of it an event tells.
const (
	maxBody = 10 << 10
	maxText = 1 << 10
)

// target is what to probe.
type target struct {
	probe     *v1.Probe
	container *v1.Container
	id        string // of the container
	ip        string // of the pod
}

// answer is what a probe found out.
type answer struct {
	ok      bool
	warning bool // ok, but the text should be told
	text    string
}

func failed(format string, args ...any) answer { return answer{text: fmt.Sprintf(format, args...)} }

// clients make connections that are used for one probe each, through no proxy, and without a look at certificates, which a pod makes for itself.
type clients struct {
	http *http.Client
	grpc *http.Client
}

func newClients() clients {
	transport := func() *http.Transport {
		return &http.Transport{DialContext: dial, DisableKeepAlives: true, DisableCompression: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	}
	plain, grpc := transport(), transport()
	grpc.Protocols = &http.Protocols{}
	grpc.Protocols.SetUnencryptedHTTP2(true)
	return clients{http: &http.Client{Transport: plain, CheckRedirect: sameHost}, grpc: &http.Client{Transport: grpc}}
}

// dial connects with a short linger: a host that probes hundreds of pods would otherwise have thousands of ports wait.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, address)
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(1) // it works without
	}
	return conn, err
}

// sameHost follows redirects that stay with the pod. One that leads elsewhere is the answer.
func sameHost(req *http.Request, via []*http.Request) error {
	if req.URL.Hostname() != via[0].URL.Hostname() {
		return http.ErrUseLastResponse
	}
	if len(via) >= 10 {
		return errors.New("stopped after 10 redirects")
	}
	return nil
}

// attempt makes a probe once. An error is that it couldn't be made.
func (m *Manager) attempt(ctx context.Context, t target) (answer, error) {
	switch p := t.probe; {
	case p.Exec != nil:
		return m.exec(ctx, t)
	case p.HTTPGet != nil:
		return m.clients.get(ctx, t)
	case p.TCPSocket != nil:
		return connect(ctx, t)
	case p.GRPC != nil:
		return m.clients.health(ctx, t)
	default:
		return answer{}, errors.New("the probe has no way to act")
	}
}

// exec runs a command in the container: its exit code is the answer, and to take too long is to fail.
func (m *Manager) exec(ctx context.Context, t target) (answer, error) {
	output, exit, err := m.cfg.Runtime.Exec(ctx, t.id, decide.ExpandAll(t.probe.Exec.Command, static(t.container)))
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return failed("the command took longer than %d s", t.probe.TimeoutSeconds), nil
	case err != nil:
		return answer{}, fmt.Errorf("run command: %w", err)
	case exit != 0:
		return failed("exit code %d: %s", exit, shorten(output)), nil
	}
	return answer{ok: true}, nil
}

// static returns the variables of a container that its spec has the values of.
func static(c *v1.Container) []container.EnvVar {
	var vars []container.EnvVar
	for _, e := range c.Env {
		if e.ValueFrom == nil {
			vars = append(vars, container.EnvVar{Name: e.Name, Value: decide.Expand(e.Value, vars)})
		}
	}
	return vars
}

func shorten(text []byte) string {
	if len(text) > maxText {
		text = append(text[:maxText:maxText], "…"...)
	}
	return strings.ToValidUTF8(strings.TrimSpace(string(text)), "�")
}

// address returns where to connect to.
func (t target) address(host string, port intstr.IntOrString) (string, error) {
	number := port.IntVal
	if port.Type == intstr.String {
		number = 0
		for _, p := range t.container.Ports {
			if p.Name == port.StrVal {
				number = p.ContainerPort
			}
		}
	}
	if host == "" {
		host = t.ip
	}
	switch {
	case number < 1 || number > 65535:
		return "", fmt.Errorf("container %s has no port %s", t.container.Name, port.String())
	case host == "":
		return "", errors.New("the pod has no address yet")
	}
	return net.JoinHostPort(strings.Trim(host, "[]"), strconv.Itoa(int(number))), nil
}

// connect opens a connection and closes it.
func connect(ctx context.Context, t target) (answer, error) {
	address, err := t.address(t.probe.TCPSocket.Host, t.probe.TCPSocket.Port)
	if err != nil {
		return answer{}, err
	}
	conn, err := dial(ctx, "tcp", address)
	if err != nil {
		return failed("%v", err), nil
	}
	conn.Close() // nothing was sent that could be lost
	return answer{ok: true}, nil
}

// get makes an HTTP request: an answer from 200 to 399 is success.
func (c clients) get(ctx context.Context, t target) (answer, error) {
	req, err := t.request(ctx)
	if err != nil {
		return answer{}, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return failed("%v", err), nil
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	switch {
	case err != nil:
		return failed("read answer: %v", err), nil
	case resp.StatusCode < 200 || resp.StatusCode >= 400:
		return failed("status %d: %s", resp.StatusCode, shorten(body)), nil
	case resp.StatusCode >= 300:
		return answer{ok: true, warning: true, text: "redirected to " + resp.Header.Get("Location") + ", which is not the pod"}, nil
	}
	return answer{ok: true}, nil
}

func (t target) request(ctx context.Context) (*http.Request, error) {
	action := t.probe.HTTPGet
	address, err := t.address(action.Host, action.Port)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(action.Path)
	if err != nil {
		u = &url.URL{Path: action.Path} // as it stands, then
	}
	u = &url.URL{Scheme: strings.ToLower(string(action.Scheme)), Host: address, Path: "/" + strings.TrimPrefix(u.Path, "/"), RawPath: u.RawPath, RawQuery: u.RawQuery}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	for _, h := range action.HTTPHeaders {
		req.Header.Add(h.Name, h.Value)
	}
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host
	}
	for name, value := range map[string]string{"User-Agent": userAgent, "Accept": "*/*"} {
		switch values, ok := req.Header[name]; {
		case !ok:
			req.Header.Set(name, value)
		case len(values) == 1 && values[0] == "": // to leave it out was asked for
			req.Header[name] = nil
		}
	}
	return req, nil
}

// within is how long there is until ctx ends, for gRPC, which tells the server.
func within(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return 0
	}
	return time.Until(deadline)
}

// Package podhttp makes the HTTP requests that a pod's spec describes: those of probes and of hooks.
package podhttp

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Target is the container that an action is of.
type Target struct {
	Container *v1.Container // nil if its spec is not known: it has no ports with a name then
	IP        string        // of the pod; "" if it has none
}

// Address returns host:port of an action: the pod's address unless it names a host, and a port by its number or its name in the container.
func (t Target) Address(host string, port intstr.IntOrString) (string, error) {
	number := port.IntValue() // 0 for a name
	if port.Type == intstr.String && number == 0 && t.Container != nil {
		for _, p := range t.Container.Ports {
			if p.Name == port.StrVal {
				number = int(p.ContainerPort)
			}
		}
	}
	if host == "" {
		host = t.IP
	}
	switch {
	case number < 1 || number > 65535:
		return "", fmt.Errorf("the container has no port %s", port.String())
	case host == "":
		return "", errors.New("the pod has no address")
	}
	return net.JoinHostPort(strings.Trim(host, "[]"), strconv.Itoa(number)), nil
}

// NewRequest makes the request of an action. Its headers win over the usual ones; one of those that is there and empty is left out.
func (t Target) NewRequest(ctx context.Context, action *v1.HTTPGetAction, agent string) (*http.Request, error) {
	address, err := t.Address(action.Host, action.Port)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse("/" + strings.TrimLeft(action.Path, "/"))
	if err != nil {
		u = &url.URL{Path: "/" + action.Path} // as it stands, then
	}
	u.Scheme, u.Host = "http", address
	if action.Scheme == v1.URISchemeHTTPS {
		u.Scheme = "https"
	}
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
	for name, value := range map[string]string{"User-Agent": agent, "Accept": "*/*"} {
		switch values, ok := req.Header[name]; {
		case !ok:
			req.Header.Set(name, value)
		case len(values) == 1 && values[0] == "":
			req.Header[name] = nil
		}
	}
	return req, nil
}

// NewClient makes a client whose connections are used once, go through no proxy, and take any certificate: a pod's is of its own making.
func NewClient() *http.Client {
	return &http.Client{
		CheckRedirect: sameHost,
		Transport:     NewTransport(),
	}
}

// NewTransport makes the transport of such a client.
func NewTransport() *http.Transport {
	return &http.Transport{DialContext: Dial, DisableKeepAlives: true, DisableCompression: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
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

// Dial connects with a short linger: a host that probes hundreds of pods would otherwise have thousands of ports wait.
func Dial(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, address)
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(1) // it works without
	}
	return conn, err
}

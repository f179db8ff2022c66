package prober

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/cleat-cni/cleat/internal/agent/container"
	"github.com/cleat-cni/cleat/internal/agent/decide"
	"github.com/cleat-cni/cleat/internal/agent/podhttp"
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

// clients make connections that are used for one probe each.
type clients struct {
	http *http.Client
	grpc *http.Client
}

func newClients() clients {
	grpc := podhttp.NewTransport()
	grpc.Protocols = &http.Protocols{}
	grpc.Protocols.SetUnencryptedHTTP2(true)
	return clients{http: podhttp.NewClient(), grpc: &http.Client{Transport: grpc}}
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

func (t target) pod() podhttp.Target { return podhttp.Target{Container: t.container, IP: t.ip} }

// connect opens a connection and closes it.
func connect(ctx context.Context, t target) (answer, error) {
	address, err := t.pod().Address(t.probe.TCPSocket.Host, t.probe.TCPSocket.Port)
	if err != nil {
		return answer{}, err
	}
	conn, err := podhttp.Dial(ctx, "tcp", address)
	if err != nil {
		return failed("%v", err), nil
	}
	conn.Close() // nothing was sent that could be lost
	return answer{ok: true}, nil
}

// get makes an HTTP request: an answer from 200 to 399 is success.
func (c clients) get(ctx context.Context, t target) (answer, error) {
	req, err := t.pod().NewRequest(ctx, t.probe.HTTPGet, userAgent)
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

// within is how long there is until ctx ends, for gRPC, which tells the server.
func within(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return 0
	}
	return time.Until(deadline)
}

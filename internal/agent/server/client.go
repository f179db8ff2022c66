package server

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/cleat-cni/cleat/internal/agent/metrics"
	"github.com/cleat-cni/cleat/internal/agent/status"
)

// Client asks an agent through its socket.
type Client struct {
	socket string
	http   *http.Client
}

// NewClient returns a client. Nothing is opened before it is used.
func NewClient(socket string) *Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}
	return &Client{socket: socket, http: &http.Client{Transport: &http.Transport{DialContext: dial}}}
}

// ErrNoAgent says that no agent listens on the socket.
var ErrNoAgent = errors.New("no agent runs here")

// AnswerError is an answer that is an error.
type AnswerError struct {
	Code int // of HTTP
	Text string
}

// Error is what the agent said.
func (e *AnswerError) Error() string { return e.Text }

// ask sends a request and returns the answer's body, which the caller closes.
func (c *Client) ask(ctx context.Context, method, path string, query url.Values, body io.Reader) (io.ReadCloser, error) {
	u := url.URL{Scheme: "http", Host: "agent", Path: path, RawQuery: query.Encode()}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), body)
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
			if errors.Is(err, os.ErrPermission) {
				return nil, fmt.Errorf("open %s: %w; the agent answers to root only", c.socket, os.ErrPermission)
			}
			return nil, fmt.Errorf("%w (nobody answers at %s)", ErrNoAgent, c.socket)
		}
		return nil, err
	}
	if resp.StatusCode == http.StatusOK {
		return resp.Body, nil
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if err != nil {
		return nil, err
	}
	var f failure
	if json.Unmarshal(text, &f) != nil || f.Error == "" {
		f.Error = strings.TrimSpace(string(text))
	}
	return nil, &AnswerError{resp.StatusCode, f.Error}
}

// get decodes an answer.
func (c *Client) get(ctx context.Context, path string, query url.Values, into any) error {
	body, err := c.ask(ctx, http.MethodGet, path, query, nil)
	if err != nil {
		return err
	}
	defer body.Close()
	return json.NewDecoder(body).Decode(into)
}

// Pods lists all pods.
func (c *Client) Pods(ctx context.Context) (*v1.PodList, error) {
	var list v1.PodList
	return &list, c.get(ctx, "/pods", nil, &list)
}

// Watch calls each with all pods, at once and whenever something of them has changed, until ctx ends or each returns false.
func (c *Client) Watch(ctx context.Context, each func(*v1.PodList) bool) error {
	body, err := c.ask(ctx, http.MethodGet, "/pods", url.Values{"watch": {"true"}}, nil)
	if err != nil {
		return err
	}
	defer body.Close()
	dec := json.NewDecoder(body)
	for {
		var list v1.PodList
		if err := dec.Decode(&list); err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return fmt.Errorf("watch pods: %w", err)
		}
		if !each(&list) {
			return nil
		}
	}
}

// Timings calls began once it listens, and then each with how long every operation took that ends from then on, until ctx ends or each returns
// false.
func (c *Client) Timings(ctx context.Context, began func(), each func(metrics.Timing) bool) error {
	body, err := c.ask(ctx, http.MethodGet, "/timings", url.Values{"watch": {"true"}}, nil)
	if err != nil {
		return err
	}
	defer body.Close()
	lines := bufio.NewReader(body)
	if _, err := lines.ReadString('\n'); err != nil {
		return fmt.Errorf("watch timings: %w", err)
	}
	began()
	dec := json.NewDecoder(lines)
	for {
		var t metrics.Timing
		if err := dec.Decode(&t); err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return fmt.Errorf("watch timings: %w", err)
		}
		if !each(t) {
			return nil
		}
	}
}

// Metrics returns the metrics without labels, by name.
func (c *Client) Metrics(ctx context.Context) (map[string]float64, error) {
	body, err := c.ask(ctx, http.MethodGet, "/metrics", nil, nil)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	values := map[string]float64{}
	for s := bufio.NewScanner(body); ; {
		if !s.Scan() {
			return values, s.Err()
		}
		name, text, _ := strings.Cut(s.Text(), " ")
		if v, err := strconv.ParseFloat(text, 64); err == nil && !strings.ContainsAny(name, "#{") {
			values[name] = v
		}
	}
}

// Events returns the events of a pod, or with an empty name those of all.
func (c *Client) Events(ctx context.Context, namespace, name string) ([]status.Event, error) {
	q := url.Values{}
	if name != "" {
		q = url.Values{"namespace": {namespace}, "name": {name}}
	}
	var list []status.Event
	return list, c.get(ctx, "/events", q, &list)
}

// Problems returns what is wrong with manifests and networks.
func (c *Client) Problems(ctx context.Context) (Problems, error) {
	var p Problems
	return p, c.get(ctx, "/problems", nil, &p)
}

// Ready returns why the agent is not ready, or nil.
func (c *Client) Ready(ctx context.Context) error {
	body, err := c.ask(ctx, http.MethodGet, "/readyz", nil, nil)
	if err != nil {
		return err
	}
	return body.Close()
}

// Apply hands over a manifest; file is what errors call it.
func (c *Client) Apply(ctx context.Context, file string, text []byte, dryRun bool) ([]Applied, error) {
	body, err := c.ask(ctx, http.MethodPut, "/manifests", url.Values{"file": {file}, "dry-run": {strconv.FormatBool(dryRun)}}, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	defer body.Close()
	var list []Applied
	return list, json.NewDecoder(body).Decode(&list)
}

// Delete takes away the manifest of a pod that was applied.
func (c *Client) Delete(ctx context.Context, namespace, name string, dryRun bool) (Applied, error) {
	body, err := c.ask(ctx, http.MethodDelete, "/manifests/"+namespace+"/"+name, url.Values{"dry-run": {strconv.FormatBool(dryRun)}}, nil)
	if err != nil {
		return Applied{}, err
	}
	defer body.Close()
	var a Applied
	return a, json.NewDecoder(body).Decode(&a)
}

// LogOptions say what of a log is wanted.
type LogOptions struct {
	Container  string // default: the pod's first
	Previous   bool
	Timestamps bool
	Follow     bool
	Tail       int // lines from the end; negative is all
}

// Logs returns what a container printed, which the caller closes.
func (c *Client) Logs(ctx context.Context, namespace, name string, o LogOptions) (io.ReadCloser, error) {
	q := url.Values{"container": {o.Container}, "previous": {strconv.FormatBool(o.Previous)},
		"timestamps": {strconv.FormatBool(o.Timestamps)}, "follow": {strconv.FormatBool(o.Follow)}}
	if o.Tail >= 0 {
		q.Set("tail", strconv.Itoa(o.Tail))
	}
	return c.ask(ctx, http.MethodGet, "/logs/"+namespace+"/"+name, q, nil)
}

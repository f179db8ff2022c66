package config

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/cleat-cni/cleat/internal/agent/manifest"
)

// httpTimeout is how long an answer may take.
const httpTimeout = 10 * time.Second

// httpSource asks a URL for the pods.
type httpSource struct {
	url    string
	from   manifest.Source
	every  time.Duration
	client *http.Client
	last   []byte // the answer that was taken
	pods   []*v1.Pod
	seen   bool
}

func newHTTPSource(cfg Config) *httpSource {
	name := cfg.URL
	if u, err := url.Parse(cfg.URL); err == nil {
		name = u.Redacted() // it stands in messages
	}
	return &httpSource{url: cfg.URL, every: cfg.HTTPCheck, client: &http.Client{Timeout: httpTimeout},
		from: manifest.Source{Kind: manifest.HTTP, Name: name, Node: cfg.Node}}
}

func (s *httpSource) run(ctx context.Context, m *Mux) {
	tick := time.NewTicker(s.every)
	defer tick.Stop()
	for {
		err := s.poll(ctx)
		if ctx.Err() != nil {
			return
		}
		m.problem(ctx, s.from.Name, err)
		if s.seen {
			m.merge(ctx, string(manifest.HTTP), s.pods)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// poll asks once. After an error the pods are those of before.
func (s *httpSource) poll(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, nil)
	if err != nil {
		return fmt.Errorf("ask for pods: %w", err)
	}
	req.Header.Set("Accept", "application/json, application/yaml")
	resp, err := s.client.Do(req)
	if err != nil {
		return fmt.Errorf("ask for pods: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("ask for pods: status %s", resp.Status)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, int64(s.from.MaxBytes())+1))
	if err != nil {
		return fmt.Errorf("read pods: %w", err)
	}
	if s.seen && bytes.Equal(body, s.last) {
		return nil
	}
	var pods []*v1.Pod
	if len(body) > 0 { // nothing means that there are none
		if pods, err = manifest.Parse(s.from, body); err != nil {
			return err
		}
	}
	s.last, s.pods, s.seen = body, pods, true
	return nil
}

package podworkers

import (
	"context"
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
)

// The bounds of what a hook's output adds to a message, and of what is read of an answer, in bytes.
const (
	maxHookOutput = 1024
	maxHookAnswer = 10 << 10
)

// runHook runs a postStart or preStop hook of a container: a command, a request, or a wait.
func (s *Syncer) runHook(ctx context.Context, v victim, hook *v1.LifecycleHandler) error {
	switch {
	case hook.Exec != nil:
		output, exit, err := s.config.Runtime.Exec(ctx, v.id, hook.Exec.Command)
		if err != nil {
			return fmt.Errorf("exec %q: %w", hook.Exec.Command, err)
		}
		if exit != 0 {
			return fmt.Errorf("exec %q: exit %d: %s", hook.Exec.Command, exit, output[:min(len(output), maxHookOutput)])
		}
		return nil
	case hook.HTTPGet != nil:
		return s.get(ctx, v, hook.HTTPGet)
	case hook.Sleep != nil:
		timer := time.NewTimer(time.Duration(hook.Sleep.Seconds) * time.Second)
		defer timer.Stop()
		select {
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return fmt.Errorf("hook of container %s: neither exec nor httpGet nor sleep", v.name)
}

// get makes the request of a hook. Any answer is a success, as with the kubelet.
func (s *Syncer) get(ctx context.Context, v victim, action *v1.HTTPGetAction) error {
	target, err := hookURL(v, action)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return fmt.Errorf("make request of hook: %w", err)
	}
	for _, h := range action.HTTPHeaders {
		request.Header.Add(h.Name, h.Value)
		if strings.EqualFold(h.Name, "Host") {
			request.Host = h.Value
		}
	}
	answer, err := s.http.Do(request)
	if err != nil {
		return err // it names method and address
	}
	defer answer.Body.Close()
	if _, err := io.CopyN(io.Discard, answer.Body, maxHookAnswer); err != nil && err != io.EOF {
		return fmt.Errorf("read answer of %s: %w", target, err)
	}
	return nil
}

// hookURL returns the address of a hook: the pod's, unless it names a host, and a port by number or by its name in the container.
func hookURL(v victim, action *v1.HTTPGetAction) (string, error) {
	host := action.Host
	if host == "" {
		if len(v.ips) == 0 {
			return "", fmt.Errorf("hook of container %s: the pod has no address", v.name)
		}
		host = v.ips[0].String()
	}
	port := action.Port.IntValue()
	if action.Port.Type == intstr.String && port == 0 {
		c := v.spec()
		if c == nil {
			return "", fmt.Errorf("hook of container %s: its spec is gone", v.name)
		}
		for _, p := range c.Ports {
			if p.Name == action.Port.StrVal {
				port = int(p.ContainerPort)
			}
		}
	}
	if port <= 0 || port > 65535 {
		return "", fmt.Errorf("hook of container %s: no port %s", v.name, action.Port.String())
	}
	scheme := "http"
	if action.Scheme == v1.URISchemeHTTPS {
		scheme = "https"
	}
	u, err := url.Parse("/" + strings.TrimPrefix(action.Path, "/"))
	if err != nil {
		return "", fmt.Errorf("hook of container %s: parse path: %w", v.name, err)
	}
	u.Scheme, u.Host = scheme, net.JoinHostPort(host, strconv.Itoa(port))
	return u.String(), nil
}

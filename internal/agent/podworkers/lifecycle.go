package podworkers

import (
	"context"
	"fmt"
	"io"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/cleat-cni/cleat/internal/agent/podhttp"
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
	target := podhttp.Target{Container: v.spec()}
	if len(v.ips) > 0 {
		target.IP = v.ips[0].String()
	}
	request, err := target.NewRequest(ctx, action, "kube-lifecycle/cleat")
	if err != nil {
		return fmt.Errorf("hook of container %s: %w", v.name, err)
	}
	answer, err := s.http.Do(request)
	if err != nil {
		return err // it names method and address
	}
	defer answer.Body.Close()
	if _, err := io.CopyN(io.Discard, answer.Body, maxHookAnswer); err != nil && err != io.EOF {
		return fmt.Errorf("read answer of %s: %w", request.URL.Redacted(), err)
	}
	return nil
}

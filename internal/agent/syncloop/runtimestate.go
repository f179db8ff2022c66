package syncloop

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cleat-cni/cleat/internal/agent/container"
)

// How often the runtime's condition is asked for, and how old the last answer may be, as in the kubelet.
const (
	statusPeriod      = 5 * time.Second
	statusStartPeriod = 100 * time.Millisecond // until the node is ready for the first time,
	statusStart       = 2 * time.Minute        // but not longer than this
	statusThreshold   = 30 * time.Second
	statusTimeout     = 2 * time.Minute
)

// runtimeState is what the runtime last said of itself. The zero value is that it has not been asked.
type runtimeState struct {
	mu        sync.Mutex
	condition container.Condition
	err       error     // of the last question
	answered  time.Time // when it last said that it is ready
}

// set keeps an answer, and reports whether the network has become ready.
func (s *runtimeState) set(c container.Condition, err error) (networkReady bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
	if err != nil {
		return false
	}
	networkReady = c.NetworkReady && !s.condition.NetworkReady
	s.condition = c
	if c.RuntimeReady {
		s.answered = time.Now()
	}
	return networkReady
}

// runtimeErrors returns why the runtime can't be worked with, or nil.
func (s *runtimeState) runtimeErrors() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.answered.IsZero() && s.err == nil && s.condition.RuntimeMessage == "":
		return errors.New("container runtime status check has not completed yet")
	case !s.condition.RuntimeReady && s.err == nil:
		return fmt.Errorf("container runtime is not ready: %s", s.condition.RuntimeMessage)
	case s.answered.IsZero() || time.Since(s.answered) > statusThreshold:
		return errors.Join(errors.New("container runtime is down"), s.err)
	}
	return nil
}

// networkErrors returns why the network is not ready, a [container.ErrNetworkNotReady], or nil.
func (s *runtimeState) networkErrors() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.condition.NetworkReady:
		return nil
	case s.condition.NetworkMessage == "":
		return fmt.Errorf("%w: it has not been asked yet", container.ErrNetworkNotReady)
	}
	return fmt.Errorf("%w: %s", container.ErrNetworkNotReady, s.condition.NetworkMessage)
}

// runtimeErrors returns why the loop has to stand still, or nil.
func (l *Loop) runtimeErrors() error {
	if err := l.state.runtimeErrors(); err != nil {
		return err
	}
	return l.pleg.Healthy()
}

// watchRuntime asks for the runtime's condition each period, and at once when it may have changed.
func (l *Loop) watchRuntime(ctx context.Context) {
	began, ready := time.Now(), false
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-l.poll:
		}
		l.updateRuntimeUp(ctx)
		ready = ready || l.Ready() == nil
		period := statusPeriod
		if !ready && time.Since(began) < statusStart {
			period = statusStartPeriod
		}
		timer.Reset(period)
	}
}

// updateRuntimeUp asks once. When the network has become ready, the pods that wait for it are looked at without delay.
func (l *Loop) updateRuntimeUp(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	before := l.runtimeErrors()
	condition, err := l.config.Runtime.Status(limited)
	if err != nil && ctx.Err() == nil {
		l.log.Error("get condition of the runtime", "error", err)
	}
	networkReady := l.state.set(condition, err)
	if networkReady {
		l.log.Info("the network is ready")
		l.workers.NetworkReady()
	}
	if networkReady || before != nil {
		notify(l.kick)
	}
}

package kernel

import (
	"context"
	"errors"
	"fmt"

	"github.com/cleat-cni/cleat/netstate"
)

// Session acts in the namespaces of one attachment. It is for one goroutine.
type Session struct {
	k   *Kernel
	pod *space // nil without a pod; k.host where the pod's namespace is the host's
	// seen are the links that Observe found: Apply trusts them, and looks again when the kernel
	// refuses what it did with them.
	seen   map[netstate.Ref]*device
	closed bool
}

// Close closes what Open opened.
func (s *Session) Close() error {
	s.closed = true
	if s.pod == nil || s.pod == s.k.host {
		return nil
	}
	pod := s.pod
	s.pod = nil
	return errors.Join(pod.close(), pod.ns.Close())
}

var errClosed = errors.New("the session is closed")

// check refuses a state that can't be made here, whatever the kernel holds.
func (s *Session) check(st netstate.State) error {
	if s.closed {
		return errClosed
	}
	if err := errors.Join(check(st), s.k.checkTables(st)); err != nil {
		return err
	}
	if s.pod != nil {
		return nil
	}
	for _, o := range st.Objects() {
		if netstate.PlaceOf(o) == netstate.Pod {
			return about(o, errNoPod)
		}
	}
	return nil
}

var errNoPod = fmt.Errorf("no namespace of a pod is open: %w", netstate.ErrNotNamespace)

// space is the namespace of a place. That of a pod is netstate.ErrNotNamespace if the session has none.
func (s *Session) space(p netstate.Place) (*space, error) {
	if p != netstate.Pod {
		return s.k.host, nil
	}
	if s.pod == nil {
		return nil, errNoPod
	}
	return s.pod, nil
}

// work is what the calls of a session share: one socket in each place while the call runs, and the devices
// that it knows.
type work struct {
	s       *Session
	conns   map[netstate.Place]*conn
	devices map[netstate.Ref]*device
	// trusted: a device was taken from what Observe saw.
	trusted bool
}

func (s *Session) begin() *work {
	return &work{s: s, conns: map[netstate.Place]*conn{}, devices: map[netstate.Ref]*device{}}
}

// end gives the sockets back.
func (w *work) end() {
	for p, c := range w.conns {
		// The space was there when the socket was taken.
		if sp, err := w.s.space(p); err == nil {
			sp.put(c)
		}
	}
	w.conns = nil
}

func (w *work) conn(p netstate.Place) (*conn, error) {
	if c := w.conns[p]; c != nil && !c.broken {
		return c, nil
	}
	sp, err := w.s.space(p)
	if err != nil {
		return nil, err
	}
	if c := w.conns[p]; c != nil {
		sp.put(c)
		delete(w.conns, p)
	}
	c, err := sp.conn()
	if err != nil {
		return nil, err
	}
	w.conns[p] = c
	return c, nil
}

// device finds a link: one that this call made or looked up, one that Observe saw, or the kernel's answer. The error
// is netstate.ErrNotExist if there is none.
func (w *work) device(ctx context.Context, ref netstate.Ref) (*device, error) {
	if d := w.devices[ref]; d != nil {
		return d, nil
	}
	if d := w.s.seen[ref]; d != nil {
		w.trusted = true
		w.devices[ref] = d
		return d, nil
	}
	return w.lookup(ctx, ref)
}

// lookup asks the kernel for a link.
func (w *work) lookup(ctx context.Context, ref netstate.Ref) (*device, error) {
	c, err := w.conn(ref.Place)
	if err != nil {
		return nil, err
	}
	d, err := c.link(ctx, ref)
	if err != nil {
		return nil, err
	}
	w.devices[ref] = d
	return d, nil
}

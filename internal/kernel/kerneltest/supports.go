package kerneltest

import (
	"context"
	"errors"
	"fmt"

	"github.com/cleat-cni/cleat/netstate"
)

// Supports implements planned.Kernel: what check refuses, and what the fault "supports host link cni0" (an object by its key) fails, can't
// be made.
func (m *Memory) Supports(ctx context.Context, s netstate.State) error {
	if err := context.Cause(ctx); err != nil {
		return fmt.Errorf("try the state: %w", err)
	}
	if err := errors.Join(check(s), m.lacking(s)); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, o := range s.Sources {
		if err := inFirewalld(o, m.firewalld); err != nil {
			return &netstate.ObjectError{Object: o.Key(), Err: err}
		}
	}
	for _, o := range s.Objects() {
		if err := m.fault("supports " + o.Key()); err != nil {
			return &netstate.ObjectError{Object: o.Key(), Err: err}
		}
	}
	return nil
}

// lacking is the error about the first object of a state that this kernel has nothing for.
func (m *Memory) lacking(s netstate.State) error {
	if !m.noNFT || len(s.Tables) == 0 {
		return nil
	}
	return &netstate.ObjectError{Object: s.Tables[0].Key(), Err: netstate.ErrUnsupported}
}

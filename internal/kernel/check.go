package kernel

import (
	"errors"

	"github.com/cleat-cni/cleat/netstate"
)

// check refuses what can be told to be wrong from the state alone.
func check(s netstate.State) error {
	return errors.Join(s.Check(), checkIptables(s))
}

// about is an error about one object.
func about(o netstate.Object, err error) error {
	return &netstate.ObjectError{Object: o.Key(), Err: err}
}

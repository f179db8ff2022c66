package libcni

import (
	"context"
	"errors"
	"fmt"

	"github.com/cleat-cni/cleat/netstate"
)

// Repairer is a Runner that can put back what CHECK misses.
type Repairer interface {
	// Repair takes the calls of a CHECK and returns what was not as it should be and is now, also beside an error.
	Repair(ctx context.Context, calls []Call) ([]netstate.Difference, error)
}

// RepairArgs say how to repair.
type RepairArgs struct {
	// SkipBusy: do not wait for another operation on the container; the error then wraps ErrBusy.
	SkipBusy bool
}

// ErrBusy is in the error of a call that would have to wait for another operation on the container.
var ErrBusy = errors.New("another operation is running")

// RepairNetworkList puts back what CHECK of an attachment misses, and touches nothing that is right. It returns what was
// wrong. An attachment that isn't recorded is an error with code 3; a plugin that is a program is checked, and its error returned.
func (c *CNI) RepairNetworkList(ctx context.Context, list *NetworkConfigList, rt *RuntimeConf, args RepairArgs) ([]netstate.Difference, error) {
	op, err := c.operation(list, rt)
	if err != nil {
		return nil, err
	}
	repairer, ok := c.runner.(Repairer)
	if !ok {
		return nil, fmt.Errorf("repair: %w: the plugins are programs, which can only be checked", errors.ErrUnsupported)
	}
	if err := errors.Join(checkList(list), checkIDs(&op.rt)); err != nil {
		return nil, op.wrap("repair", err)
	}
	lock := func() (func(), error) { return c.lock(ctx, op.rt.ContainerID) }
	if args.SkipBusy {
		lock = func() (func(), error) { return c.tryLock(op.rt.ContainerID) }
	}
	release, err := lock()
	if err != nil {
		return nil, op.wrap("repair", err)
	}
	defer release()
	calls, err := c.checkCalls(op)
	if err != nil {
		return nil, op.wrap("repair", err)
	}
	changed, err := repairer.Repair(ctx, calls)
	if err != nil {
		err = op.wrap("repair", err)
	}
	return changed, err
}

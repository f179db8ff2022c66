package kernel_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"testing"

	"github.com/cleat-cni/cleat/internal/netns"
	"github.com/cleat-cni/cleat/libcni"
)

// owners notes which attachment has which address, and refuses a second one.
type owners struct {
	mu  sync.Mutex
	has map[netip.Addr]string
}

func (o *owners) take(a netip.Addr, id string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if other, taken := o.has[a]; taken {
		return fmt.Errorf("address %s is given to %s and to %s", a, other, id)
	}
	o.has[a] = id
	return nil
}

func (o *owners) give(a netip.Addr) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.has, a)
}

// TestManyAtOnce: 64 goroutines add and delete on one network, cold: no address has two owners at a time, and
// nothing is left.
func TestManyAtOnce(t *testing.T) {
	const many, rounds = 64, 4
	c, list, k := runtime(t, t.TempDir())
	have := &owners{has: map[netip.Addr]string{}}
	var wg sync.WaitGroup
	errs := make(chan error, many)
	for g := range many {
		wg.Go(func() {
			pod, err := netns.New()
			if err != nil {
				errs <- err
				return
			}
			defer pod.Close()
			for r := range rounds {
				if err := addAndDelete(t.Context(), c, list, attachment(pod.Path(), g*rounds+r), have); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		t.Error(err)
	}
	freed, err := k.Collect(t.Context(), "bench", nil, true)
	if err != nil || len(freed) > 0 {
		t.Errorf("left in the kernel: %+v, %v", freed, err)
	}
	if left, err := c.Attachments(t.Context()); err != nil || len(left) > 0 {
		t.Errorf("left on record: %+v, %v", left, err)
	}
}

func addAndDelete(ctx context.Context, c *libcni.CNI, list *libcni.NetworkConfigList, rt *libcni.RuntimeConf, have *owners) error {
	res, err := c.AddNetworkList(ctx, list, rt)
	if err != nil {
		return fmt.Errorf("add %s: %w", rt.ContainerID, err)
	}
	a := res.IPs[0].Address.Addr()
	err = have.take(a, rt.ContainerID)
	if checked := c.CheckNetworkList(ctx, list, rt); checked != nil {
		err = errors.Join(err, fmt.Errorf("check %s: %w", rt.ContainerID, checked))
	}
	have.give(a)
	if gone := c.DelNetworkList(ctx, list, rt); gone != nil {
		err = errors.Join(err, fmt.Errorf("delete %s: %w", rt.ContainerID, gone))
	}
	return err
}

package kernel

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cleat-cni/cleat/netstate"
)

// A batch that is sent in several parts tells each request what became of it.
func TestRunTellsEachRequest(t *testing.T) {
	t.Parallel()
	k := testKernel(t)
	const many = 3*batchCount + 5
	addrs := make([]netstate.Addr, many)
	var list []*request
	for i := range addrs {
		addrs[i] = netstate.Addr{Place: netstate.Host, Dev: "lo",
			Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(i / 256), byte(i % 256)}), 32)}
		if i%10 == 9 {
			addrs[i] = addrs[i-1] // which is there by then
		}
		list = append(list, &request{kind: unix.RTM_NEWADDR, flags: unix.NLM_F_CREATE | unix.NLM_F_EXCL,
			body: addrMessage(&addrs[i], 1), object: &addrs[i]})
	}
	if err := k.host.with(func(c *conn) error { return c.run(t.Context(), list...) }); err != nil {
		t.Fatal(err)
	}
	for i, r := range list {
		err := r.failure()
		if twice := i%10 == 9; twice != errors.Is(err, netstate.ErrExist) || twice != (err != nil) || r.changed() == twice {
			t.Errorf("request %d: %v, changed %v", i, err, r.changed())
		}
	}
	if n := k.Stats().Rtnetlink; n != many {
		t.Errorf("%d messages were counted, want %d", n, many)
	}
}

func TestAnswerIsNotWaitedForBeyondTheContext(t *testing.T) {
	t.Parallel()
	k := testKernel(t)
	c, err := k.host.conn()
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	gone := errors.New("nobody waits any more")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Millisecond, gone)
	defer cancel()
	// It is never sent, so there is no answer.
	err = c.answers(ctx, []*request{{sequence: 1}})
	if !errors.Is(err, gone) {
		t.Errorf("answers = %v, want %v", err, gone)
	}
	if !c.broken {
		t.Error("the socket, on which the answer may still come, would be used again")
	}
}

// A deletion that is begun goes on when its caller leaves.
func TestDeletionOutlivesItsCaller(t *testing.T) {
	t.Parallel()
	k := testKernel(t)
	s := openPod(t, k, nil)
	st := netstate.State{Owner: testOwner(1), Links: []netstate.Link{
		{Place: netstate.Host, Name: testOwner(1).HostName("ifb"), Kind: kindIFB}}}
	mustMake(t, s, st)
	var d *device
	err := k.host.with(func(c *conn) error {
		var err error
		d, err = c.link(t.Context(), st.Links[0].Ref())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	n, err := k.host.listen()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	all := k.host.startDelete(ctx, n, []*device{d})
	cancel()
	if err := all[0].wait(ctx); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	k.common.deletes.Wait()
	err = k.host.with(func(c *conn) error {
		_, err := c.link(t.Context(), st.Links[0].Ref())
		return err
	})
	if !errors.Is(err, netstate.ErrNotExist) {
		t.Errorf("look up after deletion: %v, want %v", err, netstate.ErrNotExist)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.waiting) != 0 {
		t.Errorf("%d expectations were not forgotten", len(n.waiting))
	}
}

func TestJournal(t *testing.T) {
	var (
		j     journal
		order []int
		cause = errors.New("the cause")
		stuck = errors.New("stuck")
	)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for i := range 3 {
		j.add(func(ctx context.Context) error {
			order = append(order, i)
			if i == 1 {
				return stuck
			}
			return ctx.Err()
		})
	}
	j.add(nil)
	err := j.rollback(ctx, cause)
	if !errors.Is(err, cause) || !errors.Is(err, stuck) || errors.Is(err, context.Canceled) {
		t.Errorf("rollback = %v", err)
	}
	if len(order) != 3 || order[0] != 2 || order[2] != 0 {
		t.Errorf("order of undo %v, want the reverse", order)
	}
}

// TestNumberOfFailedCall: that a call on the socket failed with ENODEV doesn't say that the link is missing.
func TestNumberOfFailedCall(t *testing.T) {
	c := &conn{socket: -1, common: &common{}}
	_, err := c.link(t.Context(), netstate.Ref{Place: netstate.Host, Name: "eth0"})
	if want := "send to the kernel: bad file descriptor"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("link: %v, want %q", err, want)
	}
	if errors.Is(err, unix.EBADF) || errors.Is(&socketError{"send", unix.ENODEV}, unix.ENODEV) {
		t.Errorf("link: %v: the number of the call is taken for the kernel's answer", err)
	}
}

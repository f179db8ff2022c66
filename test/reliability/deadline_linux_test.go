package reliability

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/libcni"
)

// countdown is a context whose deadline passes when it is asked for the nth time whether it has, in whatever way.
type countdown struct {
	context.Context // answers for values
	left            atomic.Int64
	done            chan struct{}
}

func newCountdown(n int) *countdown {
	c := &countdown{Context: context.Background(), done: make(chan struct{})}
	c.left.Store(int64(n))
	return c
}

func (c *countdown) Done() <-chan struct{} {
	if c.left.Add(-1) == -1 {
		close(c.done)
	}
	return c.done
}

func (c *countdown) Err() error {
	select {
	case <-c.Done():
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// passed reports whether the deadline has passed.
func (c *countdown) passed() bool { return c.left.Load() < 0 }

// maxAsked is more often than any verb asks.
const maxAsked = 5000

// sweep does something with a context that ends at its nth question, for each n until it comes to its end without; unless
// -reliability.every is set, not for all of the later ones. after looks at what is left.
func sweep(t *testing.T, do func(context.Context) error, after func(n int, err error)) {
	t.Helper()
	tried, stopped := 0, 0
	for n := 0; n < maxAsked; n++ {
		tried++
		ctx := newCountdown(n)
		err := do(ctx)
		switch {
		case err != nil && !ctx.passed():
			t.Fatalf("before the deadline passed at question %d: %v", n, err)
		case err != nil && !errors.Is(err, context.DeadlineExceeded):
			t.Errorf("question %d: error %v doesn't match the context's", n, err)
		case err != nil && !strings.Contains(err.Error(), "network "+network):
			t.Errorf("question %d: error %v doesn't say of which network", n, err)
		}
		if err != nil {
			stopped++
		}
		after(n, err)
		if t.Failed() {
			t.Fatalf("question %d ended with: %v", n, err)
		}
		if !ctx.passed() {
			t.Logf("%d questions at most, %d tried, %d of them ended it", n, tried, stopped)
			if stopped == 0 {
				t.Error("no deadline was noticed")
			}
			return
		}
		if !*every {
			n += n / 4
		}
	}
	t.Fatalf("it did not end within %d questions", maxAsked)
}

// TestDeadlineAtEveryPoint ends the context of each verb of the whole chain wherever it is looked at. A failed ADD has left
// nothing, a failed DEL, CHECK or GC nothing that the next one doesn't bring to its end, and the bystander notices nothing.
func TestDeadlineAtEveryPoint(t *testing.T) {
	type bench struct {
		*testing.T
		m     *machine
		s     *side
		list  *libcni.NetworkConfigList
		clean string
	}
	rt := func(b bench, id string) *libcni.RuntimeConf { return b.m.attachment(id, portOf(id)) }
	add := func(b bench) {
		_, err := b.s.AddNetworkList(b.Context(), b.list, rt(b, subject))
		b.m.must(err)
	}
	del := func(b bench, when string) {
		b.m.must(b.s.DelNetworkList(b.Context(), b.list, rt(b, subject)))
		b.m.same(when, b.clean)
	}
	lose := func(b bench) { // the container's namespace ends, and no DEL comes
		b.m.newPod(subject)
		add(b)
		b.m.newPod(subject)
	}
	// freed wants a GC, after one that may have failed, to free what the lost container left.
	freed := func(b bench, n int) {
		_, err := b.s.CollectNetworkList(b.Context(), b.list, libcni.CollectArgs{})
		b.m.must(err)
		b.m.same(fmt.Sprintf("after a GC that followed question %d", n), b.clean)
	}
	for _, tc := range []struct {
		name string
		run  func(b bench)
	}{
		{"add", func(b bench) {
			sweep(b.T, func(ctx context.Context) error {
				_, err := b.s.AddNetworkList(ctx, b.list, rt(b, subject))
				return err
			}, func(n int, err error) {
				if err != nil {
					b.m.same(fmt.Sprintf("after an ADD that failed at question %d", n), b.clean)
					return
				}
				b.m.must(b.s.CheckNetworkList(b.Context(), b.list, rt(b, subject)))
				del(b, "after DEL")
			})
		}},
		{"del", func(b bench) {
			sweep(b.T, func(ctx context.Context) error {
				add(b)
				return b.s.DelNetworkList(ctx, b.list, rt(b, subject))
			}, func(n int, err error) {
				if known, lookErr := b.s.GetNetworkListCachedResult(b.list, rt(b, subject)); lookErr != nil || (known != nil) != (err != nil) {
					b.Errorf("question %d: error %v, but recorded %v, %v", n, err, known, lookErr)
				}
				if err == nil {
					b.m.same(fmt.Sprintf("after a DEL that succeeded in spite of question %d", n), b.clean)
				}
				del(b, fmt.Sprintf("after a DEL that followed question %d", n))
			})
		}},
		{"check", func(b bench) {
			add(b)
			attached := b.m.dump()
			sweep(b.T, func(ctx context.Context) error { return b.s.CheckNetworkList(ctx, b.list, rt(b, subject)) },
				func(n int, _ error) { b.m.same(fmt.Sprintf("after question %d", n), attached) })
			del(b, "after DEL")
		}},
		{"status", func(b bench) {
			sweep(b.T, func(ctx context.Context) error { return b.s.GetStatusNetworkList(ctx, b.list) },
				func(n int, _ error) { b.m.same(fmt.Sprintf("after question %d", n), b.clean) })
		}},
		{"repair", func(b bench) {
			add(b)
			attached := b.m.dump()
			sweep(b.T, func(ctx context.Context) error {
				b.m.must(b.m.host.Do(exec.Command("nft", "flush ruleset").Run))
				b.m.must(b.m.pods[subject].Do(exec.Command("ip", "route", "del", "default").Run))
				_, err := b.s.RepairNetworkList(ctx, b.list, rt(b, subject), libcni.RepairArgs{})
				return err
			}, func(n int, _ error) {
				for _, id := range []string{subject, bystander} {
					_, err := b.s.RepairNetworkList(b.Context(), b.list, rt(b, id), libcni.RepairArgs{})
					b.m.must(err)
				}
				b.m.same(fmt.Sprintf("after a repair that followed question %d", n), attached)
			})
			del(b, "after DEL")
		}},
		{"gc", func(b bench) {
			sweep(b.T, func(ctx context.Context) error {
				lose(b)
				return b.s.GCNetworkList(ctx, b.list, &libcni.GCArgs{ValidAttachments: []cni.Attachment{{ContainerID: bystander, IfName: "eth0"}}})
			}, func(n int, _ error) { freed(b, n) })
		}},
		{"collect", func(b bench) {
			sweep(b.T, func(ctx context.Context) error {
				lose(b)
				_, err := b.s.CollectNetworkList(ctx, b.list, libcni.CollectArgs{})
				return err
			}, func(n int, _ error) { freed(b, n) })
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := bench{T: t, m: newMachine(t)}
			b.s, b.list = b.m.open(0), b.m.list(b.m.chain()...)
			b.clean = b.m.settle(b.s, b.list)
			tc.run(b)
			b.m.must(b.s.CheckNetworkList(t.Context(), b.list, rt(b, bystander)))
		})
	}
}

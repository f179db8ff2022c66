package kernel

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cleat-cni/cleat/internal/sandbox"
	"github.com/cleat-cni/cleat/netstate"
)

// manyLinks makes links in the host's namespace, veths with one end in a pod.
func manyLinks(tb testing.TB, k *Kernel, n int) []*device {
	tb.Helper()
	pod := sandbox.Namespace(tb)
	s, err := k.Open(tb.Context(), pod.Path(), false)
	if err != nil {
		tb.Fatal(err)
	}
	defer s.Close()
	list := make([]*device, n)
	for i := range list {
		o := testOwner(i)
		host, inPod := o.HostName("veth"), fmt.Sprintf("eth%d", i)
		st := netstate.State{Owner: o, Links: []netstate.Link{
			{Place: netstate.Host, Name: host, Kind: kindVeth, Peer: inPod, PeerPlace: netstate.Pod},
			{Place: netstate.Pod, Name: inPod, Kind: kindVeth, Peer: host, PeerPlace: netstate.Host},
		}}
		if err := s.Apply(tb.Context(), st); err != nil {
			tb.Fatal(err)
		}
		list[i] = mustFind(tb, k, host)
	}
	return list
}

func mustFind(tb testing.TB, k *Kernel, name string) *device {
	tb.Helper()
	d, err := find(tb.Context(), k, name)
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

func find(ctx context.Context, k *Kernel, name string) (d *device, err error) {
	err = k.host.with(func(c *conn) error {
		d, err = c.link(ctx, netstate.Ref{Place: netstate.Host, Name: name})
		return err
	})
	return d, err
}

// wantOnly wants all but the first so many links to be gone.
func wantOnly(t *testing.T, k *Kernel, list []*device, kept int) {
	t.Helper()
	for i, d := range list {
		if _, err := find(t.Context(), k, d.name); i < kept && err != nil || i >= kept && !errors.Is(err, netstate.ErrNotExist) {
			t.Errorf("link %d of %d, %d kept: %v", i, len(list), kept, err)
		}
	}
}

// TestLinksGoTogether: links that are deleted together are one deletion of a group, and no other link goes with them.
func TestLinksGoTogether(t *testing.T) {
	t.Parallel()
	k := testKernel(t)
	const n, kept = 20, 3
	list := manyLinks(t, k, n)
	for range 2 { // the second time the kernel is asked for links that are gone
		before := k.Stats()
		if err := k.host.deleteLinks(t.Context(), list[kept:]...); err != nil {
			t.Fatal(err)
		}
		k.Settle()
		if sent := k.Stats().Rtnetlink - before.Rtnetlink; sent > n-kept+2 {
			t.Errorf("%d messages for %d links: want a group for each, one deletion, and one look at the groups", sent, n-kept)
		}
		wantOnly(t, k, list, kept)
	}
}

// TestLinksGoAtOnce: whoever deletes while others do is told when its own is gone.
func TestLinksGoAtOnce(t *testing.T) {
	t.Parallel()
	k := testKernel(t)
	list := manyLinks(t, k, 3*groupMost/2)
	var wg sync.WaitGroup
	for _, d := range list[1:] {
		wg.Go(func() {
			err := k.host.deleteLinks(t.Context(), d)
			if _, lookup := find(t.Context(), k, d.name); err != nil || !errors.Is(lookup, netstate.ErrNotExist) {
				t.Errorf("%s: %v, and then %v", d.name, err, lookup)
			}
		})
	}
	wg.Wait()
	k.Settle()
	wantOnly(t, k, list, 1)
	if l := &k.host.deletions; l.busy > 0 || len(l.waiting) > 0 {
		t.Errorf("busy %d with %d links after all of them", l.busy, len(l.waiting))
	}
}

// TestLinksThatCannotGoTogether: a link that can't be deleted keeps no other from going, and is the only one whose deletion fails.
func TestLinksThatCannotGoTogether(t *testing.T) {
	t.Parallel()
	k := testKernel(t)
	list := append([]*device{mustFind(t, k, "lo")}, manyLinks(t, k, groupFrom)...)
	err := k.host.deleteLinks(t.Context(), list...)
	if !errors.Is(err, unix.EOPNOTSUPP) || strings.Count(err.Error(), "remove:") != 1 || !strings.Contains(err.Error(), "link lo") {
		t.Errorf("error %v: want one, of lo", err)
	}
	wantOnly(t, k, list, 1)
}

// BenchmarkDeleteLinks deletes 100 links, each by a call of its own, so many at once.
func BenchmarkDeleteLinks(b *testing.B) {
	for _, atOnce := range []int{1, 4, 16, 100} {
		b.Run(fmt.Sprintf("%d-at-once", atOnce), func(b *testing.B) {
			k := benchKernel(b)
			for b.Loop() {
				b.StopTimer()
				next := make(chan *device, 100)
				for _, d := range manyLinks(b, k, cap(next)) {
					next <- d
				}
				close(next)
				k.Settle()
				b.StartTimer()
				var wg sync.WaitGroup
				for range atOnce {
					wg.Go(func() {
						for d := range next {
							if err := k.host.deleteLinks(b.Context(), d); err != nil {
								b.Error(err)
							}
						}
					})
				}
				wg.Wait()
			}
		})
	}
}

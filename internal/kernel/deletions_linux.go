package kernel

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/cleat-cni/cleat/netstate"
)

const (
	// groupFrom is the number of links from which on they are deleted as one group: one at a time each costs the kernel's waits for
	// those who may still use it (synchronize_net, under the lock on interfaces), a group all of them only one.
	groupFrom = 4
	// groupMost bounds a group, since the kernel deletes it without letting anybody else near its interfaces: about 0.5 ms a link.
	groupMost = 64
	// deleters is how many deletions, of a link or of a group, are under way at once. They follow each other in the kernel, but none waits for
	// this process to hear that the one before is done.
	deleters = groupFrom
	// groupBlock is how many group numbers are looked for at once.
	groupBlock = 1024
)

// deletions are the links of a space that are to be deleted. The first ones are sent at once. What comes while the kernel is busy with them
// goes together as soon as one is done, so that nobody waits for others to come, and many that go at the same time are few calls.
type deletions struct {
	mu      sync.Mutex
	waiting []*deletion
	busy    int // deleters, who look whether something waits before they end

	groupMu       sync.Mutex
	group, groups uint32 // the next group's number, and how many there are from there on
}

// deletion is a link that is to be deleted.
type deletion struct {
	*device
	gone   chan struct{} // closed at the kernel's notice
	answer chan error    // the kernel's answer
	done   chan struct{} // closed after one of them
	err    error         // once it is done
}

// deleteLinks removes links by index, and returns when each is gone: at the kernel's notice or
// its answer, whichever is first. After the notice the name, the index and the addresses are free; the answer
// comes 15 to 20 ms later, when the kernel has reclaimed the memory. A link that is gone already is success. What is
// begun is finished, also when nobody waits for it any more.
func (sp *space) deleteLinks(ctx context.Context, list ...*device) error {
	if len(list) == 0 {
		return nil
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	n, err := sp.listen()
	if err != nil {
		return err
	}
	var errs []error
	for _, d := range sp.startDelete(ctx, n, list) {
		errs = append(errs, d.wait(ctx))
	}
	return errors.Join(errs...)
}

// startDelete deletes links in the background.
func (sp *space) startDelete(ctx context.Context, n *notices, list []*device) []*deletion {
	all := make([]*deletion, len(list))
	for i, d := range list {
		all[i] = &deletion{device: d, gone: n.expect(d.index), answer: make(chan error, 1), done: make(chan struct{})}
	}
	if sp.deletions.add(all) {
		sp.common.deletes.Go(func() { sp.deleteWaiting(context.WithoutCancel(ctx), n) })
	}
	return all
}

// wait waits until the link is gone.
func (d *deletion) wait(ctx context.Context) error {
	select {
	case <-d.done:
		return d.err
	case <-ctx.Done():
		return about(d.key(), fmt.Errorf("remove: %w", context.Cause(ctx)))
	}
}

// add has links wait, and reports whether the caller has to begin another deleter.
func (l *deletions) add(all []*deletion) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = append(l.waiting, all...)
	if l.busy == deleters {
		return false
	}
	l.busy++
	return true
}

// take returns links that wait, as many as may go together. If there are none the deleter has ended.
func (l *deletions) take() []*deletion {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := min(len(l.waiting), groupMost)
	batch := l.waiting[:n:n]
	l.waiting = l.waiting[n:]
	if n == 0 {
		l.waiting = nil
		l.busy--
	}
	return batch
}

// deleteWaiting deletes what waits, until nothing does.
func (sp *space) deleteWaiting(ctx context.Context, n *notices) {
	for batch := sp.deletions.take(); len(batch) > 0; batch = sp.deletions.take() {
		if len(batch) < groupFrom {
			for _, d := range batch {
				sp.common.deletes.Go(func() { d.answer <- sp.delete(ctx, d.device) })
			}
		} else {
			sp.common.deletes.Go(func() { sp.deleteTogether(ctx, batch) })
		}
		for _, d := range batch {
			select {
			case <-d.gone:
			case d.err = <-d.answer:
			}
			n.forget(d.index, d.gone)
			close(d.done)
		}
	}
}

// delete deletes a link and waits for the kernel's answer.
func (sp *space) delete(ctx context.Context, d *device) error {
	return sp.with(func(c *conn) error {
		return c.run1(ctx, &request{kind: unix.RTM_DELLINK, body: linkMessage(d.index, 0, 0),
			object: d.key(), step: "remove", accept: isMissing})
	})
}

// deleteTogether deletes links that were just proved to be there to be deleted, and waits for the kernel's answer: it puts them into a group
// whose number nobody uses, and deletes that by one message. If the kernel doesn't do it, they are deleted one by one, so that each has an
// answer of its own.
func (sp *space) deleteTogether(ctx context.Context, list []*deletion) {
	err := sp.with(func(c *conn) error {
		group, err := sp.deletions.unusedGroup(ctx, c)
		if err != nil {
			return err
		}
		var b batch
		for _, d := range list {
			m := linkMessage(d.index, 0, 0)
			m.u32(unix.IFLA_GROUP, group)
			b = append(b, &request{kind: unix.RTM_SETLINK, body: m, object: d.key(), step: "set group", accept: isMissing})
		}
		if err := runAll(ctx, c, b); err != nil {
			return err
		}
		m := linkMessage(0, 0, 0)
		m.u32(unix.IFLA_GROUP, group)
		return c.run1(ctx, &request{kind: unix.RTM_DELLINK, body: m, accept: isMissing})
	})
	for _, d := range list {
		if err == nil {
			d.answer <- nil
			continue
		}
		sp.common.deletes.Go(func() { d.answer <- sp.delete(ctx, d.device) })
	}
}

// unusedGroup returns a number of a group that no link had when it was looked last, and that is returned only once. Where the numbers begin is chosen at
// random, so that two programs do not choose the same; small ones are what people write into their configuration.
func (l *deletions) unusedGroup(ctx context.Context, c *conn) (uint32, error) {
	l.groupMu.Lock()
	defer l.groupMu.Unlock()
	if l.groups == 0 {
		all, err := c.links(ctx, netstate.Host)
		if err != nil {
			return 0, err
		}
		used := map[uint32]bool{}
		for _, d := range all {
			used[d.group/groupBlock] = true
		}
		block := rand.Uint32N(1<<31) / groupBlock
		for used[block] || block < 1<<24/groupBlock {
			block = rand.Uint32N(1<<31) / groupBlock
		}
		l.group, l.groups = block*groupBlock, groupBlock
	}
	l.group, l.groups = l.group+1, l.groups-1
	return l.group - 1, nil
}

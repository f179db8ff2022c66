package libcni

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/netstate"
)

// Collector is a Runner that can say what GC frees, and do so for a network of any version.
type Collector interface {
	// Collect runs the GC calls of a network and returns what they freed, also beside an error. With how.DryRun nothing is
	// freed. What belongs to an attachment that is not valid but seems to be in use is kept, and returned with Kept
	// set, unless how.Unknown is set.
	Collect(ctx context.Context, calls []Call, how CollectArgs) ([]Collected, error)
}

// Collected is something that GC freed or would free, or kept though nobody claims it.
type Collected struct {
	Kind  string         // attachment, link, element, lease, …
	Name  string         // its canonical line, or network/container/interface
	Owner netstate.Owner // only Network is set where the object names no more than the mark
	Mark  string         // of the owner
	Why   string
	Kept  bool
}

// CollectArgs say how to collect.
type CollectArgs struct {
	DryRun  bool // only say what would be freed
	Unknown bool // also free what seems to be in use though no record claims it
	// Gone says of owners, by their marks, why they are gone: what is theirs is freed without a question. CollectNetworkList adds those
	// that are recorded.
	Gone map[string]string
}

// CollectNetworkList is GC by liveness: recorded attachments whose namespace is gone, and those whose ADD was not
// finished, get DEL with the list they were added with; then the plugins free what belongs to no recorded
// attachment. No other operation runs meanwhile. It goes on after errors, and returns what was freed also beside
// one. With a Runner that is no [Collector], or plugins that are programs, what these free is not known, and a dry run does not
// ask them.
func (c *CNI) CollectNetworkList(ctx context.Context, list *NetworkConfigList, args CollectArgs) ([]Collected, error) {
	op, err := c.operation(list, nil)
	if err != nil {
		return nil, err
	}
	if list.DisableGC {
		return nil, nil
	}
	if err := checkList(list); err != nil {
		return nil, fmt.Errorf("collect in network %s: %w", list.Name, err)
	}
	release, err := c.lockAll(ctx)
	if err != nil {
		return nil, fmt.Errorf("collect in network %s: %w", list.Name, err)
	}
	defer release()
	freed, err := c.collect(ctx, op, args)
	if err != nil {
		err = fmt.Errorf("collect in network %s: %w", list.Name, err)
	}
	return freed, err
}

// collect is the part of CollectNetworkList under the locks.
func (c *CNI) collect(ctx context.Context, op *operation, args CollectArgs) ([]Collected, error) {
	var errs []error
	if !args.DryRun {
		errs = append(errs, c.store.sweep())
	}
	valid, gone, err := c.sortOut(op.list.Name)
	if err != nil {
		return nil, err // not knowing what is attached, nothing may be freed
	}
	args.Gone = maps.Clone(args.Gone)
	for _, a := range gone {
		if args.Gone == nil {
			args.Gone = map[string]string{}
		}
		args.Gone[a.Mark] = a.Why
	}
	if args.DryRun {
		would, err := c.collectPlugins(ctx, op, valid, args)
		void, voidErr := c.collectEmpty(op.list.Name, valid, would, true)
		return slices.Concat(gone, would, void), errors.Join(append(errs, err, voidErr)...)
	}
	freed, err := c.collectGone(ctx, op, valid, gone)
	errs = append(errs, err)
	more, err := c.collectPlugins(ctx, op, valid, args)
	for _, f := range more {
		if !slices.ContainsFunc(freed, func(have Collected) bool { return have.Name == f.Name }) {
			freed = append(freed, f)
		}
	}
	void, voidErr := c.collectEmpty(op.list.Name, valid, more, false)
	return append(freed, void...), errors.Join(append(errs, err, voidErr)...)
}

// collectEmpty removes the records that hold nothing and are of nobody who is valid or of whom something was kept. Whose that is
// isn't always known; then all stay.
func (c *CNI) collectEmpty(network string, valid []cni.Attachment, seen []Collected, dryRun bool) ([]Collected, error) {
	var keep []key
	for _, a := range valid {
		keep = append(keep, key{network, a.ContainerID, a.IfName})
	}
	for _, s := range seen {
		if s.Kept && s.Owner.ContainerID == "" {
			return nil, nil
		}
		if s.Kept {
			keep = append(keep, key{network, s.Owner.ContainerID, s.Owner.IfName})
		}
	}
	empty, err := c.store.empty(network, keep)
	if err == nil && !dryRun {
		err = c.store.drop(empty...)
	}
	var void []Collected
	for _, e := range empty {
		void = append(void, Collected{Kind: "record", Name: e.path, Owner: netstate.Owner{Network: network}, Why: "it is empty"})
	}
	return void, err
}

// sortOut tells the recorded attachments of a network that are to stay from those that are to go.
func (c *CNI) sortOut(network string) (valid []cni.Attachment, gone []Collected, err error) {
	entries, err := c.store.entries()
	if err != nil {
		return nil, nil, err
	}
	for _, e := range entries {
		if e.rec == nil || e.rec.network != network {
			continue
		}
		why := c.whyDead(e)
		if why == "" {
			valid = append(valid, cni.Attachment{ContainerID: e.rec.containerID, IfName: e.rec.ifName})
			continue
		}
		owner := netstate.Owner{Network: e.rec.network, ContainerID: e.rec.containerID, IfName: e.rec.ifName}
		gone = append(gone, Collected{Kind: "attachment", Name: owner.String(), Owner: owner, Mark: owner.Mark(), Why: why})
	}
	return valid, gone, nil
}

// collectGone deletes recorded attachments that are to go, each with the list it was added with. It returns those that are
// deleted, and what was theirs before.
func (c *CNI) collectGone(ctx context.Context, op *operation, valid []cni.Attachment, gone []Collected) ([]Collected, error) {
	if len(gone) == 0 {
		return nil, nil
	}
	marks := map[string]string{}
	for _, a := range gone {
		marks[a.Mark] = a.Why
	}
	// Nobody is asked whether it lives: only what belongs to those that are gone is of interest.
	theirs, err := c.collectPlugins(ctx, op, valid, CollectArgs{DryRun: true, Unknown: true, Gone: marks})
	errs := []error{err}
	var freed []Collected
	for _, a := range gone {
		if err := c.delRecorded(ctx, key{a.Owner.Network, a.Owner.ContainerID, a.Owner.IfName}, op.list); err != nil {
			errs = append(errs, fmt.Errorf("delete %s: %w", a.Owner, err))
			continue
		}
		freed = append(freed, a)
		for _, t := range theirs {
			if t.Mark == a.Mark {
				freed = append(freed, t)
			}
		}
	}
	return freed, errors.Join(errs...)
}

// whyDead says why an entry's attachment is to go; "" if it is not. All locks are held, so that an ADD which is
// not finished never will be.
func (c *CNI) whyDead(e *entry) string {
	switch {
	case c.refuseNewer(e) != nil:
		return "" // its own release will tell
	case e.rec.result == nil:
		return "its ADD was not finished"
	case c.liveness(e.rec) == dead:
		return "its namespace is gone"
	default:
		return ""
	}
}

// collectPlugins has the plugins free what belongs to nobody valid.
func (c *CNI) collectPlugins(ctx context.Context, op *operation, valid []cni.Attachment, args CollectArgs) ([]Collected, error) {
	calls, err := op.gcCalls(valid)
	if err != nil {
		return nil, err
	}
	if collector, ok := c.runner.(Collector); ok {
		return collector.Collect(ctx, calls, args)
	}
	if args.DryRun || !cni.AtLeast(op.list.CNIVersion, cni.VerbGC.Since()) {
		return nil, nil
	}
	return nil, c.runEach(ctx, calls, true)
}

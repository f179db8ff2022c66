package builtin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/libcni"
	"github.com/cleat-cni/cleat/netstate"
	"github.com/cleat-cni/cleat/planned"
)

var _ libcni.Collector = (*Runner)(nil)

// Collect is libcni.Collector. Built-in plugins first say what they would free; what of that has its owner's
// interface on the host, or an address that answers, is in use by somebody whom no record names, and is kept. Programs get GC, if the network's version
// has it, and can't say what they free.
func (r *Runner) Collect(ctx context.Context, calls []libcni.Call, how libcni.CollectArgs) (all []libcni.Collected, err error) {
	if len(calls) == 0 {
		return nil, nil
	}
	defer r.recovered(calls[0], &err)
	c := &collection{runner: r, how: how}
	c.look(ctx, calls)
	if !how.Unknown {
		c.inUse(ctx)
	}
	if how.DryRun {
		return c.listed(c.would), errors.Join(c.errs...)
	}
	valid, err := c.keep()
	if err != nil {
		return nil, errors.Join(append(c.errs, err)...)
	}
	freed := c.free(ctx, valid)
	for _, f := range c.would {
		if _, kept := c.kept[f.Mark]; kept {
			freed = append(freed, f)
		}
	}
	return c.listed(freed), errors.Join(c.errs...)
}

// collection is one pass over a network.
type collection struct {
	runner *Runner
	how    libcni.CollectArgs
	work   []collectWork
	would  []netstate.Freed  // all that nobody valid owns, once
	kept   map[string]string // marks of owners that are to be kept all the same, and why
	errs   []error
}

// collectWork is what one plugin has to do.
type collectWork struct {
	call  libcni.Call
	step  planned.Step // of a built-in one
	valid []netstate.Owner
	exec  bool // a program does it
}

// look has the built-in plugins say what they would free. One that can't is left out of what follows.
func (c *collection) look(ctx context.Context, calls []libcni.Call) {
	for _, call := range calls {
		loc, err := c.runner.Where(call.Type, call.Dirs)
		if err != nil {
			c.fail(call, err)
			continue
		}
		step, valid, err := c.runner.gcStep(call, loc.BuiltIn)
		if err != nil {
			c.fail(call, err)
			continue
		}
		w := collectWork{call: call, step: step, valid: valid, exec: !loc.BuiltIn}
		if w.exec {
			c.work = append(c.work, w)
			continue
		}
		would, err := c.runner.engine.Collect(ctx, step, valid, true)
		if err != nil {
			c.fail(call, err)
			continue
		}
		c.work = append(c.work, w)
		c.would = addNew(c.would, would)
	}
}

func (c *collection) fail(call libcni.Call, err error) { c.errs = append(c.errs, annotate(err, call)) }

// addNew adds what is not there yet: every plugin of a network finds what of it is in the kernel.
func addNew(list, more []netstate.Freed) []netstate.Freed {
	for _, f := range more {
		if !slices.ContainsFunc(list, func(have netstate.Freed) bool { return have.Object == f.Object }) {
			list = append(list, f)
		}
	}
	return list
}

// maxAsked bounds how many addresses are asked at once.
const maxAsked = 64

// inUse finds the owners that seem to live: they have an interface on the host, or an address that answers.
func (c *collection) inUse(ctx context.Context) {
	c.kept = map[string]string{}
	for _, f := range c.would {
		if _, gone := c.how.Gone[f.Mark]; !gone && provesLife(f.Object) {
			c.kept[f.Mark] = "no record claims it, but its interface is there: --unknown frees it"
		}
	}
	if c.runner.cfg.Answers != nil {
		c.askAddresses(ctx)
	}
}

// askAddresses keeps the owners whose addresses answer, where nothing else tells whether they live. It asks many at the same
// time, since an address that nobody has costs the whole wait for an answer.
func (c *collection) askAddresses(ctx context.Context) {
	var (
		mu    sync.Mutex
		found = map[string]string{}
		wait  sync.WaitGroup
		slots = make(chan struct{}, maxAsked)
	)
	for _, f := range c.would {
		_, gone := c.how.Gone[f.Mark]
		_, kept := c.kept[f.Mark]
		addr := leasedAddr(f.Object)
		if gone || kept || !addr.IsValid() {
			continue
		}
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			answers, err := c.runner.cfg.Answers(ctx, addr)
			why := "no record claims it, but its address answers: --unknown frees it"
			if err != nil {
				why = fmt.Sprintf("no record claims it, and whether it lives can't be told (%v): --unknown frees it", err)
			}
			if answers || err != nil {
				mu.Lock()
				defer mu.Unlock()
				found[f.Mark] = why
			}
		})
	}
	wait.Wait()
	maps.Copy(c.kept, found)
}

// keep returns the owners to be kept beside the recorded ones. One whose names nothing tells can't be kept alone.
func (c *collection) keep() ([]netstate.Owner, error) {
	named := map[string]netstate.Owner{}
	for _, f := range c.would {
		if _, kept := c.kept[f.Mark]; kept && f.Owner.ContainerID != "" {
			named[f.Mark] = f.Owner
		}
	}
	for _, f := range c.would {
		if _, kept := c.kept[f.Mark]; kept && named[f.Mark].ContainerID == "" {
			return nil, fmt.Errorf("nothing is freed: %s seems to be in use, and its owner has no name by which it could be kept", f.Object)
		}
	}
	return slices.Collect(maps.Values(named)), nil
}

// free has the plugins free what belongs to nobody valid or kept, and returns what the built-in ones freed.
func (c *collection) free(ctx context.Context, keep []netstate.Owner) []netstate.Freed {
	var all []netstate.Freed
	for _, w := range c.work {
		valid := slices.Concat(w.valid, keep)
		if !w.exec {
			freed, err := c.runner.engine.Collect(ctx, w.step, valid, false)
			all = addNew(all, freed)
			if err != nil {
				c.fail(w.call, err)
			}
			continue
		}
		if !cni.AtLeast(versionOf(w.call), cni.VerbGC.Since()) {
			continue
		}
		call, err := withValid(w.call, valid)
		if err == nil {
			_, err = c.runner.cfg.Programs.Run(ctx, []libcni.Call{call})
		}
		if err != nil {
			c.fail(w.call, err)
		}
	}
	return all
}

// listed says of each object why it goes or stays.
func (c *collection) listed(list []netstate.Freed) []libcni.Collected {
	var all []libcni.Collected
	for _, f := range list {
		why, kept := c.kept[f.Mark]
		if reason := c.how.Gone[f.Mark]; reason != "" {
			why = reason
		} else if !kept {
			why = "no attachment of the network claims it"
		}
		all = append(all, libcni.Collected{Kind: kindOf(f.Object), Name: f.Object, Owner: f.Owner, Mark: f.Mark, Why: why, Kept: kept})
	}
	return all
}

// gcStep reads the valid owners of a GC call and, for a built-in plugin, makes its step. A built-in plugin has GC whatever the
// network's version; programs have it from 1.1.0 on.
func (r *Runner) gcStep(c libcni.Call, builtIn bool) (planned.Step, []netstate.Owner, error) {
	var step planned.Step
	var name string
	list, _, err := c.Conf.ValidAttachments()
	if err == nil {
		_, err = c.Conf.Decode("name", &name)
	}
	if err == nil && builtIn {
		step, err = r.newerStep(c)
	}
	valid := make([]netstate.Owner, len(list))
	for i, a := range list {
		valid[i] = netstate.Owner{Network: name, ContainerID: a.ContainerID, IfName: a.IfName}
	}
	return step, valid, err
}

// newerStep makes a step of a call whose verb the network's version may not have. The step keeps that version, for plugins that are
// programs and get the verb handed on.
func (r *Runner) newerStep(c libcni.Call) (planned.Step, error) {
	version := versionOf(c)
	c.Conf = c.Conf.Clone()
	if err := c.Conf.SetValue("cniVersion", cni.Current); err != nil {
		return planned.Step{}, err
	}
	steps, err := r.steps([]libcni.Call{c})
	if err != nil {
		return planned.Step{}, err
	}
	steps[0].Req.Conf.CNIVersion = version
	return steps[0], nil
}

// withValid puts other valid attachments into a GC call.
func withValid(c libcni.Call, valid []netstate.Owner) (libcni.Call, error) {
	list := make([]cni.Attachment, len(valid))
	for i, o := range valid {
		list[i] = cni.Attachment{ContainerID: o.ContainerID, IfName: o.IfName}
	}
	c.Conf = c.Conf.Clone()
	return c, c.Conf.SetValidAttachments(list)
}

// kindOf is the kind of an object by its canonical line: `host link cni0` is a link.
func kindOf(line string) string {
	fields := strings.Fields(line)
	if len(fields) < 2 {
		return ""
	}
	if fields[1] == "nft" {
		return "element"
	}
	return fields[1]
}

// provesLife reports whether an object is there as long as its pod: a link is, but for an ifb, which the host keeps when the
// namespace of the pod is gone.
func provesLife(line string) bool {
	return kindOf(line) == "link" && !strings.Contains(line, " kind ifb ")
}

// leasedAddr is the address of a lease by its canonical line; not valid for another object.
func leasedAddr(line string) netip.Addr {
	fields := strings.Fields(line)
	if kindOf(line) != "lease" || len(fields) < 3 {
		return netip.Addr{}
	}
	addr, err := netip.ParseAddr(fields[2])
	if err != nil {
		return netip.Addr{}
	}
	return addr
}

func versionOf(c libcni.Call) string {
	var v string
	if _, err := c.Conf.Decode("cniVersion", &v); err != nil {
		return ""
	}
	return v
}

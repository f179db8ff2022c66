package libcni

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/netns"
)

// AddNetworkList attaches a container to a network: it runs ADD of each plugin in order and returns the result of the last one. Everything
// is checked, and every plugin found, before the first runs. If one fails, those that ran are undone (DEL in
// reverse order, in a time of its own), and the error says so if that failed too.
//
// An attachment that is recorded already is an error, unless its namespace is gone: then it is deleted first, and so is
// what an ADD that was killed left.
func (c *CNI) AddNetworkList(ctx context.Context, list *NetworkConfigList, rt *RuntimeConf) (*cni.Result, error) {
	op, err := c.operation(list, rt)
	if err != nil {
		return nil, err
	}
	cookie := readCookie(op.rt.NetNS)
	if err := c.checkAdd(op); err != nil {
		return nil, op.wrap("add", err)
	}
	release, err := c.lock(ctx, op.rt.ContainerID)
	if err != nil {
		return nil, op.wrap("add", err)
	}
	defer release()
	result, err := c.add(ctx, op, cookie)
	if err != nil {
		return nil, op.wrap("add", err)
	}
	return result, nil
}

// AddNetwork is AddNetworkList for a network that is one plugin.
func (c *CNI) AddNetwork(ctx context.Context, p *PluginConfig, rt *RuntimeConf) (*cni.Result, error) {
	if p == nil || p.Network == nil {
		return nil, errNoConfig()
	}
	return c.AddNetworkList(ctx, p.list(), rt)
}

// wrap says what of which attachment failed.
func (op *operation) wrap(verb string, err error) error {
	return fmt.Errorf("%s %s/%s in network %s: %w", verb, op.rt.ContainerID, op.rt.IfName, op.list.Name, err)
}

func (c *CNI) checkAdd(op *operation) error {
	if err := checkList(op.list); err != nil {
		return err
	}
	if err := checkIDs(&op.rt); err != nil {
		return err
	}
	if op.rt.NetNS == "" {
		return cni.Errorf(cni.CodeInvalidEnvironment, "the path of the network namespace (CNI_NETNS) is empty")
	}
	if err := c.findAll(op.list); err != nil {
		return err
	}
	for _, f := range op.list.Skipped {
		c.log.Warn("plugin configuration is not used", "network", op.list.Name, "file", f.File, "error", f.Err)
	}
	c.warnCapabilities(op)
	return nil
}

// warnCapabilities tells of what was asked for and reaches no plugin. Runtimes pass empty values as a matter of course.
func (c *CNI) warnCapabilities(op *operation) {
	for _, name := range slices.Sorted(maps.Keys(op.caps)) {
		declared := slices.ContainsFunc(op.list.Plugins, func(p *PluginConfig) bool { return p.Network.Capabilities[name] })
		if empty := strings.Trim(string(op.caps[name]), `"[]{} `); declared || empty == "" || empty == "null" {
			continue
		}
		c.log.Warn("capability requested that no plugin of the network declares: it has no effect",
			"capability", name, "network", op.list.Name, "container", op.rt.ContainerID)
	}
}

// readCookie begins to read the cookie of a namespace, which takes a thread there and back, and returns what waits for it. Without
// one, as on an older kernel, it is 0: then the path alone says whether the namespace lives.
func readCookie(path string) func() uint64 {
	read := make(chan uint64, 1)
	go func() {
		cookie, _ := netns.CookieOf(path) // the plugins will tell what is wrong with the path
		read <- cookie
	}()
	return func() uint64 { return <-read }
}

// add is the part of ADD under the lock.
func (c *CNI) add(ctx context.Context, op *operation, cookie func() uint64) (*cni.Result, error) {
	if err := c.clearOld(ctx, op); err != nil {
		return nil, err
	}
	rec := &record{
		key: op.key(), netns: op.rt.NetNS, args: op.rt.Args, caps: op.caps, config: op.list.Bytes,
		added: c.now().UTC(), bootID: c.bootID, list: op.list.effective(), cookie: cookie(), schema: c.schema,
	}
	if rec.config == nil {
		rec.config = rec.list
	}
	if err := c.store.begin(rec); err != nil {
		return nil, cni.Errorf(cni.CodeIO, "record: %w", err)
	}
	result, ran, err := c.runAdd(ctx, op, rec)
	if err == nil {
		rec.done = c.now().UTC()
		if err = c.store.finish(rec); err == nil {
			return result, nil
		}
		err = cni.Errorf(cni.CodeIO, "record: %w", err)
	}
	return nil, c.undo(ctx, op, rec, ran, err)
}

// runAdd runs ADD of each plugin. The record gets the last result; ran is the number of plugins that may have done something,
// the one that failed included, unless the runner has undone it.
func (c *CNI) runAdd(ctx context.Context, op *operation, rec *record) (result *cni.Result, ran int, err error) {
	calls := op.calls(cni.VerbAdd)
	for ran < len(calls) {
		rest := calls[ran:]
		rest[0].Prev = rec.result
		outs, err := c.runner.Run(ctx, rest)
		if err == nil {
			err = checkCount(rest, outs)
		}
		if n := min(len(outs), len(rest)); n > 0 {
			raw, decoded, bad := c.checkResult(op, rest[n-1].Type, outs[n-1])
			switch {
			case bad == nil:
				c.warnSandbox(op, rest[n-1].Type, result, decoded)
				rec.result, result = raw, decoded
			case err == nil:
				return nil, ran + n, bad
			}
		}
		if err != nil {
			failed := failedCall(rest, len(outs), err)
			if _, undone := errors.AsType[*UndoneError](err); undone {
				return nil, ran + len(outs), named(rest[failed].Type, err)
			}
			return nil, ran + failed + 1, named(rest[failed].Type, err)
		}
		ran += len(outs)
	}
	return result, ran, nil
}

// checkResult reads what a plugin answered.
func (c *CNI) checkResult(op *operation, typ string, out []byte) (json.RawMessage, *cni.Result, error) {
	raw, result, err := convertResult(out, op.list.CNIVersion)
	if err != nil {
		e := cni.Errorf(cni.CodeDecode, "read result: %w", err)
		e.Plugin, e.Verb = typ, cni.VerbAdd
		return nil, nil, e
	}
	return raw, result, nil
}

// warnSandbox tells of a plugin that changes in the result where an interface is: the CHECK of another plugin fails for it
// much later, and doesn't know whose doing it was.
func (c *CNI) warnSandbox(op *operation, typ string, before, after *cni.Result) {
	if before == nil {
		return
	}
	for _, old := range before.Interfaces {
		now := sandboxes(after, old.Name)
		if old.Sandbox == "" || slices.Contains(now, old.Sandbox) {
			continue
		}
		c.log.Warn("plugin changed the namespace of an interface in the result", "plugin", typ, "network", op.list.Name,
			"container", op.rt.ContainerID, "interface", old.Name, "before", strconv.Quote(old.Sandbox), "after", fmt.Sprintf("%q", now))
	}
}

func sandboxes(result *cni.Result, ifName string) []string {
	var all []string
	for _, i := range result.Interfaces {
		if i.Name == ifName {
			all = append(all, i.Sandbox)
		}
	}
	return all
}

// undo runs DEL of the plugins that ran. The intent goes if nothing is left; cause is returned with what was.
func (c *CNI) undo(ctx context.Context, op *operation, rec *record, ran int, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.undoTimeout)
	defer cancel()
	err := c.runEach(ctx, op.delCalls(ran, rec.result), true)
	for _, e := range []*entry{c.store.find(rec.key), c.store.intent(rec.key)} {
		if err == nil {
			err = c.store.drop(e)
		}
	}
	if err != nil {
		return fmt.Errorf("%w; undo it: %w; what was left is freed by DEL or GC", cause, err)
	}
	return cause
}

// delCalls are the calls of DEL for the first n plugins, the last one first.
func (op *operation) delCalls(n int, prev json.RawMessage) []Call {
	calls := op.calls(cni.VerbDel)[:n]
	slices.Reverse(calls)
	if !cni.AtLeast(op.list.CNIVersion, "0.4.0") { // the version that brought prevResult to DEL
		return calls
	}
	for i := range calls {
		calls[i].Prev = prev
	}
	return calls
}

// clearOld deletes what an earlier ADD of the attachment left. A living attachment is an error.
func (c *CNI) clearOld(ctx context.Context, op *operation) error {
	rec, intent := c.store.find(op.key()), c.store.intent(op.key())
	if notBegun(intent) && rec == nil {
		return c.store.drop(intent)
	}
	if rec == nil && intent == nil {
		return nil
	}
	if rec != nil && rec.rec != nil && c.liveness(rec.rec) != dead {
		return cni.Errorf(cni.CodeInvalidEnvironment, "CNI_CONTAINERID %s has CNI_IFNAME %s already: added %s (record %s)",
			op.rt.ContainerID, op.rt.IfName, rec.age(c.now()), rec.path).WithHint("delete the attachment first")
	}
	c.log.Info("deleting what an earlier ADD left", "network", op.list.Name, "container", op.rt.ContainerID, "interface", op.rt.IfName)
	old := *op
	old.rt.Args, old.caps = nil, nil // those of the record
	if known := usable(rec, intent); known != nil {
		old.rt.NetNS = c.livingNetNS(known.rec)
	}
	if err := c.del(ctx, &old, rec, intent); err != nil {
		return fmt.Errorf("delete what an earlier ADD left: %w", err)
	}
	return nil
}

// age says when the entry's ADD was.
func (e *entry) age(now time.Time) string {
	at := e.time()
	return fmt.Sprintf("%s ago, at %s", now.Sub(at).Round(time.Second), at.Format(time.RFC3339))
}

// finished is when the entry's ADD had run, or, if it never came to that, when it began.
func (e *entry) finished() time.Time {
	if e.rec != nil && !e.rec.done.IsZero() {
		return e.rec.done
	}
	return e.time()
}

func (e *entry) time() time.Time {
	if e.rec != nil && !e.rec.added.IsZero() {
		return e.rec.added
	}
	return e.mod
}

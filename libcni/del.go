package libcni

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/cleat-cni/cleat/cni"
)

// DelNetworkList detaches a container from a network: it runs DEL of each plugin in reverse order. The list that was
// recorded at ADD is used; the one given where none is recorded, or where a plugin of the recorded one is no longer
// installed. The first error stops it, the record stays, and the next DEL tries again; with BestEffort it goes on
// with the other plugins. What isn't attached is deleted all the same, so that no leftover stays; of a network that the
// container is not known to be attached to, plugins that are not installed are passed over.
//
// A record that is empty, corrupt or unreadable doesn't stop DEL: plugins run without prevResult, and the record goes at the end.
// Arguments and capabilities that rt leaves nil are those of the record.
func (c *CNI) DelNetworkList(ctx context.Context, list *NetworkConfigList, rt *RuntimeConf) error {
	op, err := c.operation(list, rt)
	if err != nil {
		return err
	}
	if err := c.checkDel(op); err != nil {
		return op.wrap("delete", err)
	}
	release, err := c.lock(ctx, op.rt.ContainerID)
	if err != nil {
		return op.wrap("delete", err)
	}
	defer release()
	if err := c.del(ctx, op, c.store.find(op.key()), c.store.intent(op.key())); err != nil {
		return op.wrap("delete", err)
	}
	return nil
}

// DelNetwork is DelNetworkList for a network that is one plugin.
func (c *CNI) DelNetwork(ctx context.Context, p *PluginConfig, rt *RuntimeConf) error {
	if p == nil || p.Network == nil {
		return errNoConfig()
	}
	return c.DelNetworkList(ctx, p.list(), rt)
}

// checkDel refuses bad names, but not those that an older runtime recorded. The version isn't looked at: that is for the plugins.
func (c *CNI) checkDel(op *operation) error {
	if err := cni.CheckNetworkName(op.list.Name); err != nil {
		return err
	}
	err := checkIDs(&op.rt)
	if err == nil || op.rt.ContainerID == "" || op.rt.IfName == "" {
		return err
	}
	if e := c.store.find(op.key()); e != nil && e.rec != nil {
		c.log.Warn("deleting an attachment whose recorded names are not valid", "record", e.path, "error", err)
		return nil
	}
	return err
}

// del is the part of DEL under the lock. rec and intent are what is known; both may be nil.
func (c *CNI) del(ctx context.Context, op *operation, rec, intent *entry) error {
	if err := c.refuseNewer(rec, intent); err != nil {
		return err
	}
	op, prev := c.recorded(op, rec, intent)
	calls := op.delCalls(len(op.list.Plugins), prev)
	if rec == nil && intent == nil {
		calls = c.installed(op, calls)
	}
	err := c.runEach(ctx, calls, c.bestEffort)
	if err != nil && rec == nil && intent == nil && cni.CodeOf(err) == cni.CodeIncompatibleVersion {
		c.log.Info("a plugin doesn't speak the version of a network that the container was never attached to",
			"network", op.list.Name, "container", op.rt.ContainerID, "error", err)
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range []*entry{rec, intent} {
		err := c.store.drop(e)
		if err != nil && e.rec != nil {
			return err
		}
		if err != nil {
			c.log.Warn("an unreadable record stays", "record", e.path, "error", err)
		}
	}
	return nil
}

// installed leaves out the calls of plugins that are nowhere to be found. The container is not known to be attached: an ADD
// could not even begin without them, so that they have left nothing that would be worth an error each time.
func (c *CNI) installed(op *operation, calls []Call) []Call {
	return slices.DeleteFunc(calls, func(call Call) bool {
		_, err := c.runner.Find(call.Type, call.Dirs)
		missing := errors.Is(err, fs.ErrNotExist)
		if missing {
			c.log.Warn("a plugin of a network that the container was never attached to is not installed",
				"network", op.list.Name, "container", op.rt.ContainerID, "error", err)
		}
		return missing
	})
}

// recorded returns op with what the record or intent has in place of what was given, and prevResult.
func (c *CNI) recorded(op *operation, rec, intent *entry) (*operation, json.RawMessage) {
	for _, e := range []*entry{rec, intent} {
		if e != nil && e.err != nil {
			c.log.Warn("record can't be used: plugins run without prevResult", "record", e.path, "error", e.err)
		}
	}
	known := usable(rec, intent)
	if known == nil {
		return op, nil
	}
	used := *op
	used.list = c.chooseList(op.list, known.rec)
	if op.rt.Args == nil {
		used.rt.Args = known.rec.args
	}
	if op.caps == nil {
		used.caps = known.rec.caps
	}
	prev, err := known.rec.resultAs(used.list.CNIVersion)
	if err != nil {
		c.log.Warn("recorded result can't be used: plugins run without prevResult", "record", known.path, "error", err)
		return &used, nil
	}
	return &used, prev
}

// chooseList decides between the list that was given (nil for none) and the recorded one.
func (c *CNI) chooseList(given *NetworkConfigList, rec *record) *NetworkConfigList {
	if rec.legacy {
		return given
	}
	recorded, err := rec.networkList()
	if err != nil {
		c.log.Warn("recorded list can't be used: using the configured one", "attachment", rec.key, "error", err)
		return given
	}
	if given == nil {
		return recorded
	}
	if rec.list == nil {
		// The Go library of the field doesn't record the plugins of the sibling folder.
		if bytes.Equal(rec.config, given.Bytes) {
			return given
		}
		for _, p := range given.Plugins {
			if p.Source != "" && !recorded.LoadOnlyInlinedPlugins {
				recorded.Plugins = append(recorded.Plugins, p)
			}
		}
	}
	if gone := c.findAll(recorded); gone != nil && c.findAll(given) == nil {
		c.log.Warn("a plugin of the recorded list is no longer there: using the configured list", "attachment", rec.key, "error", gone)
		return given
	}
	return recorded
}

// DelAttachment detaches by the record alone: no configuration is needed. The namespace is given to the plugins only if it
// is still the one that was attached.
func (c *CNI) DelAttachment(ctx context.Context, a *NetworkAttachment) error {
	k := key{a.Network, a.ContainerID, a.IfName}
	if k.network == "" || k.containerID == "" || k.ifName == "" {
		return fmt.Errorf("delete by record %s: %w", a.File, cmp.Or(a.Err, errNoNames))
	}
	release, err := c.lock(ctx, k.containerID)
	if err != nil {
		return fmt.Errorf("delete %s: %w", k, err)
	}
	defer release()
	if err := c.delRecorded(ctx, k, nil); err != nil {
		return fmt.Errorf("delete %s: %w", k, err)
	}
	return nil
}

var errNoNames = errors.New("it doesn't name network, container and interface")

// delRecorded deletes the attachment k by its record or intent, under its lock. given is the configured list, if there is one.
// What isn't recorded is success.
func (c *CNI) delRecorded(ctx context.Context, k key, given *NetworkConfigList) error {
	rec, intent := c.store.find(k), c.store.intent(k)
	known := usable(rec, intent)
	if known == nil {
		for _, e := range []*entry{rec, intent} {
			if e != nil {
				return e.err
			}
		}
		return nil
	}
	list := given
	if list == nil {
		var err error
		if list, err = known.rec.networkList(); err != nil {
			return err
		}
	}
	rt := RuntimeConf{ContainerID: k.containerID, IfName: k.ifName, NetNS: c.livingNetNS(known.rec), Args: known.rec.args}
	return c.del(ctx, &operation{list: list, rt: rt, caps: known.rec.caps, dirs: c.dirs}, rec, intent)
}

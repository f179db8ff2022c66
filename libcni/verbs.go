package libcni

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cleat-cni/cleat/cni"
)

// ErrorCheckNotSupp is what the error of a CHECK wraps whose network's version, below 0.4.0, has no CHECK.
var ErrorCheckNotSupp = errors.New("does not support the CHECK command")

// CheckNetworkList checks that an attachment is as ADD left it: it runs CHECK of each plugin in order and stops at the first
// error. A network with disableCheck is fine unseen; an attachment that isn't recorded is an error with code 3. Arguments and
// capabilities that rt leaves nil, and an empty NetNS, are those of the record.
func (c *CNI) CheckNetworkList(ctx context.Context, list *NetworkConfigList, rt *RuntimeConf) error {
	op, err := c.operation(list, rt)
	if err != nil {
		return err
	}
	if err := checkList(list); err != nil {
		return op.wrap("check", err)
	}
	if !cni.AtLeast(list.CNIVersion, cni.VerbCheck.Since()) {
		return fmt.Errorf("configuration version %q %w", list.CNIVersion, ErrorCheckNotSupp)
	}
	if list.DisableCheck {
		return nil
	}
	if err := checkIDs(&op.rt); err != nil {
		return op.wrap("check", err)
	}
	release, err := c.lock(ctx, op.rt.ContainerID)
	if err != nil {
		return op.wrap("check", err)
	}
	defer release()
	if err := c.check(ctx, op); err != nil {
		return op.wrap("check", err)
	}
	return nil
}

// CheckNetwork is CheckNetworkList for a network that is one plugin.
func (c *CNI) CheckNetwork(ctx context.Context, p *PluginConfig, rt *RuntimeConf) error {
	if p == nil || p.Network == nil {
		return errNoConfig()
	}
	return c.CheckNetworkList(ctx, p.list(), rt)
}

// check is the part of CHECK under the lock.
func (c *CNI) check(ctx context.Context, op *operation) error {
	calls, err := c.checkCalls(op)
	if err != nil {
		return err
	}
	return c.runEach(ctx, calls, false)
}

// checkCalls are the calls of a CHECK with what the record holds: result, arguments, capabilities, namespace.
func (c *CNI) checkCalls(op *operation) ([]Call, error) {
	e := c.store.find(op.key())
	switch {
	case e == nil && c.store.intent(op.key()) != nil:
		return nil, cni.Errorf(cni.CodeUnknownContainer, "its ADD was not finished").WithHint("delete the attachment and add it again")
	case e == nil:
		return nil, cni.Errorf(cni.CodeUnknownContainer, "it is not attached: there is no record of it in %s", c.store.results())
	case e.err != nil:
		return nil, e.err
	}
	if err := c.refuseNewer(e); err != nil {
		return nil, err
	}
	if op.rt.Args == nil {
		op.rt.Args = e.rec.args
	}
	if op.caps == nil {
		op.caps = e.rec.caps
	}
	if op.rt.NetNS == "" {
		op.rt.NetNS = e.rec.netns
	}
	prev, err := e.rec.resultAs(op.list.CNIVersion)
	if err != nil {
		return nil, err
	}
	if prev == nil {
		return nil, cni.Errorf(cni.CodeUnknownContainer, "record %s holds no result", e.path)
	}
	calls := op.calls(cni.VerbCheck)
	for i := range calls {
		calls[i].Prev = prev
	}
	return calls, nil
}

// GetStatusNetworkList asks each plugin whether it can serve an ADD, and returns the first answer that is an error, whose code
// tells: 50 not available, 51 existing attachments suffer too. A network below version 1.1.0 has no STATUS and is ready.
func (c *CNI) GetStatusNetworkList(ctx context.Context, list *NetworkConfigList) error {
	op, err := c.operation(list, nil)
	if err != nil {
		return err
	}
	if err := checkList(list); err != nil {
		return fmt.Errorf("status of network %s: %w", list.Name, err)
	}
	if !cni.AtLeast(list.CNIVersion, cni.VerbStatus.Since()) {
		return nil
	}
	if err := c.findAll(list); err != nil {
		return fmt.Errorf("status of network %s: %w", list.Name, cni.Errorf(cni.CodeNotAvailable, "%w", err))
	}
	if err := c.runEach(ctx, op.calls(cni.VerbStatus), false); err != nil {
		return fmt.Errorf("status of network %s: %w", list.Name, err)
	}
	return nil
}

// GCArgs say what a GC keeps.
type GCArgs struct {
	// ValidAttachments are kept, all others of the network are freed. Empty means that none is valid.
	ValidAttachments []cni.Attachment
	// Since is when ValidAttachments was put together, or, if there were ADDs whose return the caller had not noted by then, when the
	// first of them began: an attachment whose ADD was done later is kept, since it can't be in there. Default: the time of the call.
	Since time.Time
}

// GCNetworkList frees what belongs to no valid attachment of the network: attachments that are recorded, or whose ADD
// was not finished, get DEL with the list they were added with, then each plugin is told to collect. No other operation runs
// meanwhile. It goes on after errors and returns all of them. A network with disableGC is left alone; args nil is an error with
// code 7, never everything.
func (c *CNI) GCNetworkList(ctx context.Context, list *NetworkConfigList, args *GCArgs) error {
	op, err := c.operation(list, nil)
	if err != nil {
		return err
	}
	if args == nil {
		return cni.Errorf(cni.CodeInvalidConfig, "collect in network %s: no list of valid attachments is given", list.Name).
			WithHint("give an empty list to free everything")
	}
	if list.DisableGC {
		return nil
	}
	if err := checkList(list); err != nil {
		return fmt.Errorf("collect in network %s: %w", list.Name, err)
	}
	since := args.Since
	if since.IsZero() {
		since = c.now()
	}
	release, err := c.lockAll(ctx)
	if err != nil {
		return fmt.Errorf("collect in network %s: %w", list.Name, err)
	}
	defer release()
	if err := c.gc(ctx, op, args.ValidAttachments, since); err != nil {
		return fmt.Errorf("collect in network %s: %w", list.Name, err)
	}
	return nil
}

// gc is the part of GC under the locks.
func (c *CNI) gc(ctx context.Context, op *operation, valid []cni.Attachment, since time.Time) error {
	errs := []error{c.store.sweep()}
	entries, err := c.store.entries()
	if err != nil {
		return err // not knowing what is attached, nothing may be freed
	}
	valid = slices.Clone(valid)
	for _, e := range entries {
		if e.rec == nil || e.rec.network != op.list.Name {
			continue
		}
		a := cni.Attachment{ContainerID: e.rec.containerID, IfName: e.rec.ifName}
		if slices.Contains(valid, a) {
			continue
		}
		if e.finished().After(since) {
			valid = append(valid, a)
			continue
		}
		if err := c.delRecorded(ctx, e.rec.key, op.list); err != nil {
			errs = append(errs, fmt.Errorf("delete %s/%s: %w", a.ContainerID, a.IfName, err))
		}
	}
	var keep []key
	for _, a := range valid {
		keep = append(keep, key{op.list.Name, a.ContainerID, a.IfName})
	}
	empty, err := c.store.empty(op.list.Name, keep)
	errs = append(errs, err, c.store.drop(empty...))
	if cni.AtLeast(op.list.CNIVersion, cni.VerbGC.Since()) {
		calls, err := op.gcCalls(valid)
		if err != nil {
			return errors.Join(append(errs, err)...)
		}
		errs = append(errs, c.runEach(ctx, calls, true))
	}
	return errors.Join(errs...)
}

// gcCalls gives each plugin the list under the key of the specification and the one it had before.
func (op *operation) gcCalls(valid []cni.Attachment) ([]Call, error) {
	calls := op.calls(cni.VerbGC)
	for _, call := range calls {
		if err := call.Conf.SetValidAttachments(valid); err != nil {
			return nil, err
		}
	}
	return calls, nil
}

// ValidateNetworkList checks that each plugin is installed and speaks the network's version, and returns the
// capabilities that they declare together, sorted. Each fault is named.
func (c *CNI) ValidateNetworkList(ctx context.Context, list *NetworkConfigList) ([]string, error) {
	if list == nil || len(list.Plugins) == 0 {
		return nil, errNoConfig()
	}
	if err := checkList(list); err != nil {
		return nil, err
	}
	var (
		errs   []error
		caps   []string
		common = cni.Versions()
	)
	for _, p := range list.Plugins {
		for name, on := range p.Network.Capabilities {
			if on && !slices.Contains(caps, name) {
				caps = append(caps, name)
			}
		}
		versions, err := c.validate(ctx, p.Network.Type, list.CNIVersion)
		if err != nil {
			errs = append(errs, err)
		}
		if versions != nil {
			common = slices.DeleteFunc(common, func(v string) bool { return !slices.Contains(versions, v) })
		}
	}
	slices.Sort(caps)
	err := errors.Join(errs...)
	if err != nil && cni.CodeOf(err) == cni.CodeIncompatibleVersion && len(common) > 0 {
		err = fmt.Errorf("%w\nthe highest version that all plugins speak is %s", err, common[len(common)-1])
	}
	if err != nil {
		return nil, fmt.Errorf("validate network %s: %w", list.Name, err)
	}
	return caps, nil
}

// ValidateNetwork is ValidateNetworkList for a network that is one plugin.
func (c *CNI) ValidateNetwork(ctx context.Context, p *PluginConfig) ([]string, error) {
	if p == nil || p.Network == nil {
		return nil, errNoConfig()
	}
	return c.ValidateNetworkList(ctx, p.list())
}

// validate returns the versions that a plugin speaks, if it told them.
func (c *CNI) validate(ctx context.Context, typ, version string) ([]string, error) {
	where, err := c.runner.Find(typ, c.dirs)
	if err != nil {
		return nil, named(typ, err)
	}
	info, err := c.GetVersionInfo(ctx, typ)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(info.Supported, version) {
		e := cni.Errorf(cni.CodeIncompatibleVersion, "%s doesn't speak version %s, only %s", where, version, strings.Join(info.Supported, ", "))
		e.Plugin = typ
		return info.Supported, e
	}
	return info.Supported, nil
}

// GetVersionInfo asks a plugin which versions of the specification it speaks.
func (c *CNI) GetVersionInfo(ctx context.Context, pluginType string) (cni.VersionInfo, error) {
	if err := cni.CheckType(pluginType); err != nil {
		return cni.VersionInfo{}, err
	}
	conf := new(cni.Object)
	conf.Set("cniVersion", json.RawMessage(quote(cni.Current)))
	outs, err := c.runner.Run(ctx, []Call{{Verb: cni.VerbVersion, Type: pluginType, Dirs: c.dirs, Conf: conf}})
	if e, ok := errors.AsType[*cni.Error](err); ok && e.Msg == "unknown CNI_COMMAND: VERSION" {
		// Plugins of 0.1.0, which had no VERSION: this text is the only sign of them.
		return cni.VersionInfo{CNIVersion: "0.1.0", Supported: []string{"0.1.0"}}, nil
	}
	if err != nil {
		return cni.VersionInfo{}, named(pluginType, err)
	}
	if len(outs) != 1 {
		return cni.VersionInfo{}, named(pluginType, cni.Errorf(cni.CodeInternal, "runner answered %d of 1 calls", len(outs)))
	}
	info, err := cni.ParseVersionInfo(outs[0])
	if err != nil {
		return cni.VersionInfo{}, named(pluginType, err)
	}
	return info, nil
}

// Calls returns what a verb would run for an attachment, in the order in which the plugins stand in the list, and without
// prevResult. It checks names and version and finds every plugin, but runs nothing: a dry run starts here.
func (c *CNI) Calls(verb cni.Verb, list *NetworkConfigList, rt *RuntimeConf) ([]Call, error) {
	op, err := c.operation(list, rt)
	if err != nil {
		return nil, err
	}
	err = checkList(list)
	if rt != nil && err == nil {
		err = checkIDs(rt)
	}
	if err == nil {
		err = c.findAll(list)
	}
	if err != nil {
		return nil, op.wrap(strings.ToLower(string(verb)), err)
	}
	return op.calls(verb), nil
}

package libcni

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cleat-cni/cleat/cni"
)

// AttachmentState says how an attachment stands.
type AttachmentState string

// The states of attachments.
const (
	StateAdding   AttachmentState = "adding"   // its ADD is running
	StateAttached AttachmentState = "attached" // recorded, and its namespace lives or can't be examined
	StateOrphan   AttachmentState = "orphan"   // recorded, but its namespace is gone
	StateBroken   AttachmentState = "broken"   // its ADD was not finished, or its record can't be read; Err says which
)

// NetworkAttachment is what is remembered of an attachment.
type NetworkAttachment struct {
	ContainerID    string
	Network        string
	IfName         string
	Config         []byte // the network's configuration as it was read at ADD
	NetNS          string
	Args           cni.Args
	CapabilityArgs map[string]any // values are json.RawMessage

	State     AttachmentState
	Added     time.Time       // when its ADD began; for a foreign record when the file was written
	File      string          // of the record or intent
	Result    *cni.Result     // nil while adding, or if it can't be read
	RawResult json.RawMessage // as the last plugin wrote it
	Err       error           // why the state is broken
}

// Attachments returns all attachments, also those that are being added and those that can't be read, of which then only File, Added and Err are
// known. They are sorted by network, container and interface.
func (c *CNI) Attachments(ctx context.Context) ([]*NetworkAttachment, error) {
	entries, err := c.store.entries()
	if errors.Is(err, errNoFolder) {
		c.log.Warn("nothing can be recorded", "error", err)
		err = nil
	}
	if err != nil {
		return nil, err
	}
	all := make([]*NetworkAttachment, 0, len(entries))
	for _, e := range entries {
		if err := context.Cause(ctx); err != nil {
			return nil, fmt.Errorf("list attachments: %w", err)
		}
		a := e.attachment()
		a.State = c.state(e, a)
		all = append(all, a)
	}
	slices.SortFunc(all, func(a, b *NetworkAttachment) int {
		return cmp.Or(cmp.Compare(a.Network, b.Network), cmp.Compare(a.ContainerID, b.ContainerID), cmp.Compare(a.IfName, b.IfName), cmp.Compare(a.File, b.File))
	})
	return all, nil
}

// entries returns all records and the intents that have none, each attachment once. Beside errNoFolder it returns those of
// the folder that is one.
func (s store) entries() ([]*entry, error) {
	var all []*entry
	var errs []error
	recorded := make(map[key]bool)
	for _, dir := range []string{s.results(), s.adding()} {
		names, err := files(dir)
		if errors.Is(err, errNoFolder) {
			errs = append(errs, err)
			continue
		}
		if err != nil {
			return nil, err
		}
		decode := decodeRecord
		if dir == s.adding() {
			decode = decodeIntent
		}
		for _, name := range names {
			e := readEntry(filepath.Join(dir, name), decode)
			if e == nil || notBegun(e) || e.rec != nil && recorded[e.rec.key] {
				continue // it has just gone, is just being written, or has become a record
			}
			if e.rec != nil && !e.rec.legacy {
				recorded[e.rec.key] = true
			}
			e.intent = dir == s.adding()
			all = append(all, e)
		}
	}
	return all, errors.Join(errs...)
}

// attachment is the entry as callers see it, but for its state.
func (e *entry) attachment() *NetworkAttachment {
	a := &NetworkAttachment{File: e.path, Added: e.time(), Err: e.err}
	if e.rec == nil {
		return a
	}
	r := e.rec
	a.ContainerID, a.Network, a.IfName = r.containerID, r.network, r.ifName
	a.Config, a.NetNS, a.Args, a.CapabilityArgs = r.config, r.netns, r.args, r.capabilityArgs()
	a.RawResult = r.result
	if r.result != nil {
		a.Result, a.Err = cni.DecodeResult(r.result, "0.1.0")
	}
	if r.legacy {
		a.Err = errors.New("a bare result, which doesn't say of what")
	}
	return a
}

func (c *CNI) state(e *entry, a *NetworkAttachment) AttachmentState {
	switch {
	case a.Err != nil:
		return StateBroken
	case c.refuseNewer(e) != nil:
		a.Err = c.refuseNewer(e)
		return StateBroken
	case e.intent && c.locked(e.rec.containerID):
		return StateAdding
	case e.intent:
		a.Err = errors.New("its ADD was neither finished nor undone; DEL or GC frees what it left")
		return StateBroken
	case c.liveness(e.rec) == dead:
		return StateOrphan
	default:
		return StateAttached
	}
}

// locked reports whether an operation on the container is running, maybe the one that this process is part of; true where that can't
// be learned.
func (c *CNI) locked(containerID string) bool {
	if c.isHeld(lockIndex(containerID)) {
		return true
	}
	release, err := c.tryLock(containerID)
	if err != nil {
		return true
	}
	release()
	return false
}

// GetCachedAttachments returns the recorded attachments of a container, or with "" of all, sorted by file name. What can't be
// read, and what is being added, is left out; see [CNI.Attachments].
func (c *CNI) GetCachedAttachments(containerID string) ([]*NetworkAttachment, error) {
	names, err := files(c.store.results())
	if err != nil {
		return nil, err
	}
	var found []*NetworkAttachment
	for _, name := range names {
		// The names spare reading every file. A long one may be cut short of the ID.
		if containerID != "" && !strings.Contains(name, "-"+containerID+"-") && !strings.Contains(name, "~") {
			continue
		}
		e := readEntry(filepath.Join(c.store.results(), name), decodeRecord)
		if e == nil || e.rec == nil || e.rec.legacy || containerID != "" && e.rec.containerID != containerID {
			continue
		}
		a := e.attachment()
		a.State = c.state(e, a)
		found = append(found, a)
	}
	return found, nil
}

// GetNetworkListCachedResult returns the recorded result of an attachment in the network's version; nil without a record.
func (c *CNI) GetNetworkListCachedResult(list *NetworkConfigList, rt *RuntimeConf) (*cni.Result, error) {
	e, err := c.cached(list, rt)
	if err != nil || e == nil || e.rec.result == nil {
		return nil, err
	}
	_, result, err := convertResult(e.rec.result, list.CNIVersion)
	if err != nil {
		return nil, fmt.Errorf("recorded result of %s: %w", e.rec.key, err)
	}
	return result, nil
}

// GetNetworkListCachedConfig returns the network's configuration as it was recorded at ADD, and rt with the recorded arguments and
// capabilities, whose values are json.RawMessage; nil without a record.
func (c *CNI) GetNetworkListCachedConfig(list *NetworkConfigList, rt *RuntimeConf) ([]byte, *RuntimeConf, error) {
	e, err := c.cached(list, rt)
	if err != nil || e == nil {
		return nil, nil, err
	}
	if e.rec.legacy {
		return nil, nil, fmt.Errorf("read record %s: a bare result, without configuration", e.path)
	}
	recorded := *rt
	if e.rec.args != nil {
		recorded.Args = e.rec.args
	}
	recorded.CapabilityArgs = e.rec.capabilityArgs()
	return e.rec.config, &recorded, nil
}

// cached returns a readable record, or nil.
func (c *CNI) cached(list *NetworkConfigList, rt *RuntimeConf) (*entry, error) {
	if list == nil || rt == nil {
		return nil, errNoConfig()
	}
	e := c.store.find(key{list.Name, rt.ContainerID, rt.IfName})
	if e == nil {
		return nil, nil
	}
	return e, e.err
}

// GetNetworkCachedResult is GetNetworkListCachedResult for a network that is one plugin.
func (c *CNI) GetNetworkCachedResult(p *PluginConfig, rt *RuntimeConf) (*cni.Result, error) {
	if p == nil || p.Network == nil {
		return nil, errNoConfig()
	}
	return c.GetNetworkListCachedResult(p.list(), rt)
}

// GetNetworkCachedConfig is GetNetworkListCachedConfig for a network that is one plugin.
func (c *CNI) GetNetworkCachedConfig(p *PluginConfig, rt *RuntimeConf) ([]byte, *RuntimeConf, error) {
	if p == nil || p.Network == nil {
		return nil, nil, errNoConfig()
	}
	return c.GetNetworkListCachedConfig(p.list(), rt)
}

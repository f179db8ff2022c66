package cli

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/libcni"
)

// attachmentView is an attachment as ls and show tell of it.
type attachmentView struct {
	Network     string    `json:"network"`
	ContainerID string    `json:"containerID"`
	Pod         string    `json:"pod,omitempty"` // namespace/name, where the runtime said it
	IfName      string    `json:"ifname"`
	IPs         []string  `json:"ips"`
	MAC         string    `json:"mac,omitempty"`
	NetNS       string    `json:"netns"`
	State       string    `json:"state"`
	Why         string    `json:"why,omitempty"` // of a broken state
	Added       time.Time `json:"added,omitzero"`
	RX          *uint64   `json:"rxBytes,omitempty"` // bytes, in wide and structured output of a living one
	TX          *uint64   `json:"txBytes,omitempty"`
	File        string    `json:"file"`
}

func viewOf(at *libcni.NetworkAttachment) attachmentView {
	v := attachmentView{
		Network: at.Network, ContainerID: at.ContainerID, Pod: podOf(at.Args), IfName: at.IfName, IPs: []string{},
		NetNS: at.NetNS, State: string(at.State), Added: at.Added, File: at.File,
	}
	if at.Err != nil {
		v.Why = at.Err.Error()
	}
	if at.Result != nil {
		v.IPs = podIPs(at.Result)
		v.MAC = macOf(at.Result, at.IfName)
	}
	return v
}

// podOf reads the pod's name out of the arguments that Kubernetes runtimes pass.
func podOf(args cni.Args) string {
	namespace, _ := args.Get("K8S_POD_NAMESPACE")
	name, _ := args.Get("K8S_POD_NAME")
	return strings.Trim(namespace+"/"+name, "/")
}

// podIPs are the addresses of a result that are not of an interface on the host.
func podIPs(r *cni.Result) []string {
	ips := []string{}
	for _, ip := range r.IPs {
		i := ip.Interface
		if i.Set && i.Value >= 0 && i.Value < len(r.Interfaces) && r.Interfaces[i.Value].Sandbox == "" {
			continue
		}
		ips = append(ips, ip.Address.String())
	}
	return ips
}

func macOf(r *cni.Result, ifName string) string {
	for _, i := range r.Interfaces {
		if i.Name == ifName && i.Sandbox != "" {
			return i.MAC
		}
	}
	return ""
}

// agentStateDir is where the node agent records attachments, unless it is told otherwise.
const agentStateDir = "/var/lib/cleat/cni"

// attachments lists what the state folder knows, and what that of the node agent does unless one was named.
func (a *app) attachments(ctx context.Context) ([]*libcni.NetworkAttachment, error) {
	all, err := a.attachmentsIn(ctx, a.stateDir)
	if err != nil || !a.agentState {
		return all, err
	}
	more, err := a.attachmentsIn(ctx, agentStateDir)
	if errors.Is(err, fs.ErrPermission) {
		a.log().Warn("what the node agent attached is not shown", "error", err)
		return all, nil
	}
	return append(all, more...), err
}

// attachmentsIn lists what a state folder knows.
func (a *app) attachmentsIn(ctx context.Context, dir string) ([]*libcni.NetworkAttachment, error) {
	in := *a
	in.stateDir = dir
	c, _, err := in.runtime(false)
	if err != nil {
		return nil, err
	}
	return c.Attachments(ctx)
}

// containerIDs lists the IDs that are known, for completion and hints.
func containerIDs(all []*libcni.NetworkAttachment) []string {
	var ids []string
	for _, at := range all {
		if at.ContainerID != "" && !slices.Contains(ids, at.ContainerID) {
			ids = append(ids, at.ContainerID)
		}
	}
	return ids
}

// rawOrNull keeps a missing value a valid one.
func rawOrNull(raw []byte) json.RawMessage {
	if !json.Valid(raw) {
		return json.RawMessage("null")
	}
	return raw
}

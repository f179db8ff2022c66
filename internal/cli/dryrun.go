package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/cleat-cni/cleat/internal/builtin"
	"github.com/cleat-cni/cleat/internal/output"
	"github.com/cleat-cni/cleat/libcni"
	"github.com/cleat-cni/cleat/netstate"
)

// removalView is what a deletion would remove.
type removalView struct {
	Network     string   `json:"network"`
	ContainerID string   `json:"containerID"`
	IfName      string   `json:"ifname"`
	Objects     []string `json:"objects"` // in the kernel, in netstate text
	IPs         []string `json:"ips"`     // that would be given back
	Record      string   `json:"record"`  // its file; "" if there is none
	Notes       []string `json:"notes,omitempty"`
}

// dryRun prints what carries the marks of the attachments in the kernel, their addresses and records. One that is
// not recorded may have left something all the same: its mark is known by its names.
func (a *app) dryRun(ctx context.Context, runner *builtin.Runner, d deletion, found []*libcni.NetworkAttachment) error {
	if len(found) == 0 && d.path != "" {
		found = []*libcni.NetworkAttachment{{Network: d.network, ContainerID: d.containerID(d.path), IfName: d.ifName}}
	}
	views := []removalView{}
	owned := map[string][]netstate.Freed{}
	for _, at := range found {
		if _, asked := owned[at.Network]; !asked {
			objects, err := runner.Owned(ctx, at.Network)
			if err != nil {
				return err
			}
			owned[at.Network] = objects
		}
		v := a.removal(runner, at, owned[at.Network])
		if v.Record != "" || len(v.Objects) > 0 {
			views = append(views, v)
		}
	}
	if a.output.Structured() {
		return output.WriteStructured(a.cfg.Stdout, a.output, views)
	}
	return writeRemovals(a.cfg.Stdout, views)
}

func (a *app) removal(runner *builtin.Runner, at *libcni.NetworkAttachment, owned []netstate.Freed) removalView {
	v := removalView{
		Network: at.Network, ContainerID: at.ContainerID, IfName: at.IfName, Record: at.File, Objects: []string{}, IPs: []string{},
	}
	mark := netstate.Owner{Network: at.Network, ContainerID: at.ContainerID, IfName: at.IfName}.Mark()
	for _, f := range owned {
		if f.Mark == mark {
			v.Objects = append(v.Objects, f.Object)
		}
	}
	if at.Result != nil {
		v.IPs = podIPs(at.Result)
	}
	list, err := libcni.ConfListFromBytes(at.Config)
	if err != nil {
		return v // del says so, if it matters
	}
	for _, p := range list.Plugins {
		if where, err := runner.Where(p.Network.Type, a.pluginDirs); err == nil && !where.BuiltIn {
			v.Notes = append(v.Notes, p.Network.Type+" is a program of its own: what it would remove is not known")
		}
	}
	return v
}

func writeRemovals(w io.Writer, views []removalView) error {
	var b strings.Builder
	line := func(format string, args ...any) { b.WriteString(output.Printable(fmt.Sprintf(format, args...)) + "\n") }
	for _, v := range views {
		line("# %s/%s/%s", v.Network, v.ContainerID, v.IfName)
		for _, n := range v.Notes {
			line("# note: %s", n)
		}
		for _, o := range v.Objects {
			line("%s", o)
		}
		for _, ip := range v.IPs {
			line("address %s", ip)
		}
		if v.Record != "" {
			line("record %s", v.Record)
		}
	}
	if len(views) == 0 {
		line("nothing is attached")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

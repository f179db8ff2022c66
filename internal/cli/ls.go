package cli

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cleat-cni/cleat/internal/output"
	"github.com/cleat-cni/cleat/libcni"
)

func (a *app) lsCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List what is attached",
		Long: `Lists the attachments that the state folder knows, whichever runtime made them,
and, unless --state-dir is given, those of the node agent (/var/lib/cleat/cni):
network, container ID, pod, interface, addresses, namespace and state. The
state is adding, attached, orphan (its namespace is gone) or broken (its ADD was
not finished, or its record can't be read). -o wide adds bytes received and sent.`,
		Example: `  cleat ls
  cleat ls -o wide
  cleat ls -o json`,
		Args: exactArgs(),
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, cancel := a.bounded(c.Context())
			defer cancel()
			return a.ls(ctx)
		},
	}
}

func (a *app) ls(ctx context.Context) error {
	all, err := a.attachments(ctx)
	if err != nil {
		return err
	}
	views := make([]attachmentView, len(all))
	for i, at := range all {
		views[i] = viewOf(at)
		if a.output != output.Tabular {
			a.addTraffic(&views[i], at.State)
		}
	}
	if a.output.Structured() {
		return output.WriteStructured(a.cfg.Stdout, a.output, views)
	}
	t := output.Table{
		Head:     []string{"NETWORK", "ID", "POD", "INTERFACE", "IPS", "MAC", "NAMESPACE", "STATE", "AGE"},
		WideHead: []string{"RX", "TX", "WHY"},
		Empty:    "nothing is attached",
	}
	var broken [][2]string
	for _, v := range views {
		if v.State == string(libcni.StateBroken) {
			broken = append(broken, [2]string{filepath.Base(v.File), v.Why})
		}
		t.Add([]string{v.Network, v.ContainerID, v.Pod, v.IfName, strings.Join(v.IPs, ","), v.MAC, v.NetNS, v.State, a.age(v.Added)},
			bytesText(v.RX), bytesText(v.TX), v.Why)
	}
	if err := t.Write(a.cfg.Stdout, a.output == output.Wide); err != nil {
		return err
	}
	return output.WriteSections(a.cfg.Stdout, output.Section{Title: "Broken records", Lines: broken})
}

// addTraffic adds the counters of a living attachment; where they can't be read there are none.
func (a *app) addTraffic(v *attachmentView, state libcni.AttachmentState) {
	if state != libcni.StateAttached {
		return
	}
	rx, tx, err := traffic(v.NetNS, v.IfName)
	if err != nil {
		a.log().Debug("no counters", "container", v.ContainerID, "error", err)
		return
	}
	v.RX, v.TX = &rx, &tx
}

// bytesText gives a number of bytes in the unit that says most.
func bytesText(n *uint64) string {
	if n == nil {
		return ""
	}
	const units = "KMGTPE"
	value, unit := float64(*n), -1
	for value >= 1024 && unit < len(units)-1 {
		value /= 1024
		unit++
	}
	if unit < 0 {
		return fmt.Sprintf("%d B", *n)
	}
	return fmt.Sprintf("%.1f %ciB", value, units[unit])
}

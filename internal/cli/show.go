package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/nearmiss"
	"github.com/cleat-cni/cleat/internal/output"
	"github.com/cleat-cni/cleat/libcni"
)

// containerView is a container with all its attachments.
type containerView struct {
	ContainerID string       `json:"containerID"`
	Attachments []detailView `json:"attachments"`
}

// detailView is all that is known of an attachment.
type detailView struct {
	attachmentView
	Args         [][2]string     `json:"args,omitempty"`
	Capabilities map[string]any  `json:"capabilities,omitempty"`
	Result       json.RawMessage `json:"result"`
	Config       json.RawMessage `json:"config"`
}

func (a *app) showCmd() *cobra.Command {
	var t target
	c := &cobra.Command{
		Use:   "show ID",
		Short: "Show all that is known about a container's attachments",
		Long: `Shows all that the state folder knows about a container's attachments, and what
its interfaces have received and sent. cleat ls lists the IDs. Values of arguments
and capabilities that it doesn't know are hidden, since they may be secrets; the
record, whose file is named, has them.`,
		Example: `  cleat show cnitool-77383ca0a0715733ca6f
  cleat show 5f2c0d -o json`,
		Args: func(c *cobra.Command, args []string) error {
			if t.id != "" {
				return exactArgs()(c, args)
			}
			return exactArgs("ID")(c, args)
		},
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				t.id = args[0]
			}
			ctx, cancel := a.bounded(c.Context())
			defer cancel()
			return a.show(ctx, t)
		},
		ValidArgsFunction: a.completeID,
	}
	c.Flags().StringVar(&t.id, "id", "", "container ID, in place of the argument")
	c.Flags().StringVarP(&t.ifName, "ifname", "i", "", "only this interface (default: all)")
	completeFlag(c, "id", a.completeKnownID)
	return c
}

func (a *app) show(ctx context.Context, t target) error {
	all, err := a.attachments(ctx)
	if err != nil {
		return err
	}
	view := containerView{ContainerID: t.id}
	for _, at := range all {
		if at.ContainerID != t.id || t.ifName != "" && at.IfName != t.ifName {
			continue
		}
		d := detailView{
			attachmentView: viewOf(at), Args: at.Args.Hidden(), Capabilities: hiddenCapabilities(at.CapabilityArgs),
			Result: rawOrNull(at.RawResult), Config: rawOrNull(at.Config),
		}
		a.addTraffic(&d.attachmentView, at.State)
		view.Attachments = append(view.Attachments, d)
	}
	if len(view.Attachments) == 0 {
		e := cni.Errorf(cni.CodeUnknownContainer, "container %s is not attached to anything", t.id)
		e.Hint = nearmiss.Hint(t.id, containerIDs(all))
		return e
	}
	if a.output.Structured() {
		return output.WriteStructured(a.cfg.Stdout, a.output, view)
	}
	return a.writeDetails(view)
}

func (a *app) writeDetails(view containerView) error {
	var buf bytes.Buffer
	tw := tabwriter.NewWriter(&buf, 0, 8, 2, ' ', 0)
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(tw, "%s\t%s\n", name, output.Printable(value))
		}
	}
	for i, d := range view.Attachments {
		if i > 0 {
			fmt.Fprintln(tw)
		}
		line("Container", d.ContainerID)
		line("Pod", d.Pod)
		line("Network", d.Network)
		line("Interface", d.IfName)
		line("State", d.State)
		line("Why", d.Why)
		line("Addresses", strings.Join(d.IPs, ", "))
		for _, r := range routesOf(d.Result) {
			line("Route", r)
		}
		line("MAC", d.MAC)
		line("Namespace", d.NetNS)
		line("Received", bytesText(d.RX))
		line("Sent", bytesText(d.TX))
		if !d.Added.IsZero() {
			line("Added", d.Added.Format(time.RFC3339)+" ("+a.age(d.Added)+" ago)")
		}
		line("Arguments", cni.Args(d.Args).String())
		for name, value := range sortedPairs(d.Capabilities) {
			line("Capability", name+" "+value)
		}
		line("Plugins", pluginsOf(d.Config))
		line("Record", d.File)
	}
	return output.Flush(a.cfg.Stdout, tw, &buf)
}

// hiddenCapabilities are the values of the capabilities of CONVENTIONS.md, and a sign in the place of those that nobody knows.
func hiddenCapabilities(caps map[string]any) map[string]any {
	known := []string{"portMappings", "ipRanges", "bandwidth", "dns", "ips", "mac", "infinibandGUID", "deviceID", "aliases", "cgroupPath"}
	hidden := maps.Clone(caps)
	for name := range hidden {
		if !slices.Contains(known, name) {
			hidden[name] = cni.HiddenValue
		}
	}
	return hidden
}

// pluginsOf lists the plugins of a recorded configuration.
func pluginsOf(config json.RawMessage) string {
	list, err := libcni.ConfListFromBytes(config)
	if err != nil {
		return ""
	}
	var types []string
	for _, p := range list.Plugins {
		types = append(types, p.Network.Type)
	}
	return strings.Join(types, ", ")
}

// routesOf lists the routes of a recorded result.
func routesOf(result json.RawMessage) []string {
	r, err := cni.DecodeResult(result, cni.Current)
	if err != nil {
		return nil
	}
	var routes []string
	for _, route := range r.Routes {
		text := route.Dst.String()
		if route.GW.IsValid() {
			text += " via " + route.GW.String()
		}
		routes = append(routes, text)
	}
	return routes
}

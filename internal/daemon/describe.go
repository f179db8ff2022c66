package daemon

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"

	"github.com/cleat-cni/cleat/internal/agent/server"
	"github.com/cleat-cni/cleat/internal/agent/status"
	"github.com/cleat-cni/cleat/internal/output"
)

// description is what is known of pods.
type description struct {
	Items    []describedPod  `json:"items"`
	Problems server.Problems `json:"problems"`
}

type describedPod struct {
	Pod    *v1.Pod        `json:"pod"`
	Events []status.Event `json:"events"`
}

func (a *app) describeCmd() *cobra.Command {
	var s scope
	c := &cobra.Command{
		Use:   "describe [NAME...]",
		Short: "Show all that is known of pods, and why they do not run",
		Long: `Show all that is known of pods: their containers, their conditions and what happened to them. Where a network
failed the event names the plugin, the configuration file and what to do. Without NAME
it shows all pods of the namespace. Manifests that are not read stand at the end, with the line at fault, and
network configurations that are not used.`,
		Example: `  cleat pods describe web
  cleat pods describe -A
  cleat pods describe web -o json`,
		RunE: func(c *cobra.Command, names []string) error {
			if err := s.check(); err != nil {
				return err
			}
			return a.describe(c.Context(), s, names)
		},
	}
	s.manyFlags(c)
	c.ValidArgsFunction = a.completeNames(&s, true)
	return c
}

func (a *app) describe(ctx context.Context, s scope, names []string) error {
	pods, err := a.chosen(ctx, s, names)
	if err != nil {
		return err
	}
	d := description{Items: []describedPod{}}
	if d.Problems, err = a.client().Problems(ctx); err != nil {
		return err
	}
	events, err := a.client().Events(ctx, "", "")
	if err != nil {
		return err
	}
	for _, p := range pods {
		item := describedPod{Pod: p, Events: []status.Event{}}
		for _, e := range events {
			if e.UID == p.UID {
				item.Events = append(item.Events, e)
			}
		}
		d.Items = append(d.Items, item)
	}
	if a.output.Structured() {
		return a.print(d, nil)
	}
	return a.writeDescription(d)
}

// chosen are the pods of the names, or without any those of the scope.
func (a *app) chosen(ctx context.Context, s scope, names []string) ([]*v1.Pod, error) {
	var pods []*v1.Pod
	for _, name := range names {
		r, err := s.ref(name)
		if err != nil {
			return nil, err
		}
		p, err := a.find(ctx, r)
		if err != nil {
			return nil, err
		}
		pods = append(pods, p)
	}
	if len(names) > 0 {
		return pods, nil
	}
	list, err := a.client().Pods(ctx)
	if err != nil {
		return nil, err
	}
	list.Items = s.filter(list.Items)
	for i := range list.Items {
		pods = append(pods, &list.Items[i])
	}
	return pods, nil
}

func (a *app) writeDescription(d description) error {
	for i, item := range d.Items {
		if i > 0 {
			fmt.Fprintln(a.cfg.Stdout)
		}
		w := &fieldWriter{now: a.cfg.Now()}
		w.pod(item.Pod)
		w.containers("Init Containers", item.Pod.Spec.InitContainers, item.Pod.Status.InitContainerStatuses)
		w.containers("Containers", item.Pod.Spec.Containers, item.Pod.Status.ContainerStatuses)
		w.conditions(item.Pod.Status.Conditions)
		if _, err := fmt.Fprintf(a.cfg.Stdout, "%s\nEvents:\n", w.b.String()); err != nil {
			return err
		}
		if err := a.eventTable(item.Events, false).Write(a.cfg.Stdout, false); err != nil {
			return err
		}
	}
	if len(d.Items) == 0 {
		fmt.Fprintln(a.cfg.Stdout, "no pods")
	}
	return output.WriteSections(a.cfg.Stdout, problemSections(d.Problems)...)
}

// fieldWriter lays out names and what stands behind them.
type fieldWriter struct {
	b   strings.Builder
	now time.Time
}

// field writes a field, and nothing if there is no value. Indent is in steps of two.
func (w *fieldWriter) field(indent int, name, value string) {
	if value == "" {
		return
	}
	const width = 18
	fmt.Fprintf(&w.b, "%s%-*s %s\n", strings.Repeat("  ", indent), width-2*indent, name+":", output.Printable(value))
}

// pairs writes a map below its name.
func (w *fieldWriter) pairs(name string, m map[string]string) {
	for i, key := range slices.Sorted(maps.Keys(m)) {
		if i > 0 {
			fmt.Fprintf(&w.b, "%-18s %s\n", "", output.Printable(key+"="+m[key]))
			continue
		}
		w.field(0, name, key+"="+m[key])
	}
}

func (w *fieldWriter) pod(p *v1.Pod) {
	sum := summarize(p, w.now)
	w.field(0, "Name", p.Name)
	w.field(0, "Namespace", p.Namespace)
	w.field(0, "UID", string(p.UID))
	w.field(0, "Node", strings.Trim(p.Spec.NodeName+"/"+p.Status.HostIP, "/"))
	w.pairs("Labels", p.Labels)
	w.pairs("Annotations", p.Annotations)
	w.field(0, "Status", sum.status)
	w.field(0, "Reason", p.Status.Reason)
	w.field(0, "Message", p.Status.Message)
	w.field(0, "Ready", sum.ready)
	if p.Status.StartTime != nil {
		w.field(0, "Start Time", w.since(p.Status.StartTime.Time))
	}
	w.field(0, "IPs", cmp.Or(strings.Join(podIPs(p), ", "), "none"))
	if p.Spec.HostNetwork {
		w.field(0, "Network", "the node's own")
	}
}

// since is a time and how long ago that is.
func (w *fieldWriter) since(t time.Time) string {
	return fmt.Sprintf("%s (%s ago)", t.Local().Format(time.RFC3339), age(t, w.now))
}

func (w *fieldWriter) containers(title string, specs []v1.Container, statuses []v1.ContainerStatus) {
	if len(specs) == 0 {
		return
	}
	fmt.Fprintf(&w.b, "%s:\n", title)
	for i := range specs {
		c := &specs[i]
		fmt.Fprintf(&w.b, "  %s:\n", output.Printable(c.Name))
		w.field(2, "Image", cmp.Or(c.Image, "none, a command of the host"))
		w.field(2, "Command", strings.Join(slices.Concat(c.Command, c.Args), " "))
		for _, p := range c.Ports {
			w.field(2, "Port", portText(p))
		}
		s := slices.IndexFunc(statuses, func(s v1.ContainerStatus) bool { return s.Name == c.Name })
		if s < 0 {
			continue
		}
		st := &statuses[s]
		w.field(2, "Container ID", st.ContainerID)
		w.state("State", st.State)
		w.state("Last State", st.LastTerminationState)
		w.field(2, "Ready", fmt.Sprint(st.Ready))
		w.field(2, "Restart Count", fmt.Sprint(st.RestartCount))
	}
}

func portText(p v1.ContainerPort) string {
	text := fmt.Sprintf("%d/%s", p.ContainerPort, cmp.Or(p.Protocol, v1.ProtocolTCP))
	if p.HostPort != 0 {
		text += fmt.Sprintf(" at port %d of the node", p.HostPort)
	}
	return text
}

func (w *fieldWriter) state(name string, s v1.ContainerState) {
	switch {
	case s.Running != nil:
		w.field(2, name, "Running since "+w.since(s.Running.StartedAt.Time))
	case s.Waiting != nil:
		w.field(2, name, "Waiting, "+cmp.Or(s.Waiting.Reason, "for no reason that is known"))
		w.field(3, "Message", s.Waiting.Message)
	case s.Terminated != nil:
		end := s.Terminated
		w.field(2, name, fmt.Sprintf("Terminated, %s, exit code %d, %s", ended(end), end.ExitCode, w.since(end.FinishedAt.Time)))
		w.field(3, "Message", end.Message)
	}
}

func (w *fieldWriter) conditions(list []v1.PodCondition) {
	if len(list) == 0 {
		return
	}
	w.b.WriteString("Conditions:\n")
	for _, c := range list {
		text := string(c.Status)
		if c.Reason != "" {
			text += ", " + c.Reason
		}
		if c.Message != "" {
			text += ": " + c.Message
		}
		fmt.Fprintf(&w.b, "  %-26s %s\n", string(c.Type)+":", output.Printable(text))
	}
}

package daemon

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"

	"github.com/cleat-cni/cleat/internal/agent/server"
	"github.com/cleat-cni/cleat/internal/output"
)

func (a *app) listCmd() *cobra.Command {
	var s scope
	var watch bool
	c := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List pods",
		Long: `List pods, with the columns of kubectl get pods -o wide; -o wide adds all addresses, the UID and where the
pod comes from. -o json is a v1 PodList. With --watch it goes on with whatever changes: rows, or with -o json
objects of type, which is ADDED, MODIFIED or DELETED, and object, the pod.`,
		Example: `  cleat pods
  cleat pods list -A --watch
  cleat pods list -n kube-system -o json`,
		Args: args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := s.check(); err != nil {
				return err
			}
			if watch {
				return a.watch(c.Context(), s)
			}
			return a.list(c.Context(), s)
		},
	}
	s.manyFlags(c)
	c.Flags().BoolVarP(&watch, "watch", "w", false, "go on with what changes, until interrupted")
	return c
}

func (a *app) list(ctx context.Context, s scope) error {
	list, err := a.client().Pods(ctx)
	if err != nil {
		return err
	}
	total := len(list.Items)
	list.Items = s.filter(list.Items)
	if a.output.Structured() {
		return a.print(list, nil)
	}
	problems, err := a.client().Problems(ctx)
	if err != nil {
		return err
	}
	t := podTable(s)
	if total > len(list.Items) {
		t.Empty += fmt.Sprintf("; there are %d in others: -A shows them", total)
	}
	for i := range list.Items {
		row, more := a.podRow(s, &list.Items[i])
		t.Add(row, more...)
	}
	if err := t.Write(a.cfg.Stdout, a.output == output.Wide); err != nil {
		return err
	}
	return output.WriteSections(a.cfg.Stderr, problemSections(problems)...)
}

// filter returns the pods of the scope; an empty list rather than none.
func (s *scope) filter(pods []v1.Pod) []v1.Pod {
	list := []v1.Pod{}
	for i := range pods {
		if s.covers(pods[i].Namespace) {
			list = append(list, pods[i])
		}
	}
	return list
}

// podTable is a table of pods without rows.
func podTable(s scope) *output.Table {
	t := &output.Table{
		Head:     []string{"NAME", "READY", "STATUS", "RESTARTS", "AGE", "IP", "NODE"},
		WideHead: []string{"IPS", "UID", "SOURCE"},
		Empty:    "no pods in namespace " + cmp.Or(s.namespace, defaultNamespace),
	}
	if s.all {
		t.Head, t.Empty = append([]string{"NAMESPACE"}, t.Head...), "no pods"
	}
	return t
}

// podRow is the row of a pod, and what wide adds.
func (a *app) podRow(s scope, pod *v1.Pod) (row, wide []string) {
	now := a.cfg.Now()
	sum := summarize(pod, now)
	if s.all {
		row = append(row, pod.Namespace)
	}
	row = append(row, pod.Name, sum.ready, sum.status, sum.restarts, age(created(pod), now), pod.Status.PodIP, pod.Spec.NodeName)
	return row, []string{strings.Join(podIPs(pod), ","), string(pod.UID), pod.Annotations[sourceAnnotation]}
}

// sourceAnnotation says where a pod comes from, as the kubelet's does.
const sourceAnnotation = "kubernetes.io/config.source"

func podIPs(pod *v1.Pod) []string {
	var list []string
	for _, ip := range pod.Status.PodIPs {
		list = append(list, ip.IP)
	}
	return list
}

// problemSections tell of manifests that are not read, and of networks.
func problemSections(p server.Problems) []output.Section {
	return []output.Section{problemSection("Manifests that are not read", p.Manifests), problemSection("Networks with a problem", p.Networks)}
}

func problemSection(title string, problems map[string]string) output.Section {
	s := output.Section{Title: title}
	for _, file := range slices.Sorted(maps.Keys(problems)) {
		name, text := file, problems[file]
		if strings.HasPrefix(text, file) { // it names the line too
			name = ""
		}
		s.Lines = append(s.Lines, [2]string{name, text})
	}
	return s
}

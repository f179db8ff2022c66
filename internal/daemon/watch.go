package daemon

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cleat-cni/cleat/internal/output"
)

// change is what happened to a pod, in the form of the API's watch events.
type change struct {
	Type string  `json:"type"` // ADDED, MODIFIED or DELETED
	Pod  *v1.Pod `json:"object"`
}

const (
	podAdded    = "ADDED"
	podModified = "MODIFIED"
	podDeleted  = "DELETED"
)

// watch prints pods as they are and then what changes, until ctx ends, which is no error.
func (a *app) watch(ctx context.Context, s scope) error {
	show := a.changePrinter(s)
	known := map[types.UID]*v1.Pod{}
	var shown error
	err := a.client().Watch(ctx, func(list *v1.PodList) bool {
		for _, c := range changes(known, s.filter(list.Items)) {
			if shown = show(c); shown != nil {
				return false
			}
		}
		return true
	})
	if ctx.Err() != nil {
		return nil
	}
	return cmp.Or(shown, err)
}

// changes says what is different from the pods that were known, and makes them the new ones.
func changes(known map[types.UID]*v1.Pod, pods []v1.Pod) []change {
	var list []change
	here := map[types.UID]bool{}
	for i := range pods {
		p := &pods[i]
		here[p.UID] = true
		old := known[p.UID]
		known[p.UID] = p
		switch {
		case old == nil:
			list = append(list, change{podAdded, p})
		case !equality.Semantic.DeepEqual(old, p):
			list = append(list, change{podModified, p})
		}
	}
	for uid, p := range known {
		if !here[uid] {
			delete(known, uid)
			list = append(list, change{podDeleted, p})
		}
	}
	slices.SortStableFunc(list, func(a, b change) int {
		return cmp.Or(cmp.Compare(a.Pod.Namespace, b.Pod.Namespace), cmp.Compare(a.Pod.Name, b.Pod.Name))
	})
	return list
}

// changePrinter returns what prints a change: an object, or a row below a heading that is printed once.
func (a *app) changePrinter(s scope) func(change) error {
	if a.output.Structured() {
		return func(c change) error { return a.writeChange(c) }
	}
	t := podTable(s)
	head := t.Head
	if a.output == output.Wide {
		head = append(head, t.WideHead...)
	}
	columns := newColumns(a.cfg.Stdout, head)
	last := map[types.UID]string{}
	return func(c change) error {
		row, more := a.podRow(s, c.Pod)
		if a.output == output.Wide {
			row = append(row, more...)
		}
		status := slices.Index(head, "STATUS")
		if c.Type == podDeleted {
			row[status] = "Deleted"
		}
		said := slices.Clone(row)
		said[slices.Index(head, "AGE")] = "" // what only grows is no news
		if text := strings.Join(said, "\t"); last[c.Pod.UID] != text {
			last[c.Pod.UID] = text
			return columns.write(row)
		}
		return nil
	}
}

func (a *app) writeChange(c change) error {
	if a.output == output.YAML {
		if _, err := io.WriteString(a.cfg.Stdout, "---\n"); err != nil {
			return err
		}
	}
	data, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return output.WriteStructured(a.cfg.Stdout, a.output, json.RawMessage(data))
}

// columns writes rows one by one; a column grows with what it holds.
type columns struct {
	w      io.Writer
	widths []int
	head   []string // until it was written
}

func newColumns(w io.Writer, head []string) *columns {
	c := &columns{w: w, widths: make([]int, len(head)), head: head}
	for i, least := range map[string]int{"NAME": 24, "READY": 5, "STATUS": 18, "RESTARTS": 12, "AGE": 5, "IP": 15} {
		if at := slices.Index(head, i); at >= 0 {
			c.widths[at] = least
		}
	}
	return c
}

func (c *columns) write(row []string) error {
	lines := [][]string{row}
	if c.head != nil {
		lines, c.head = [][]string{c.head, row}, nil
	}
	var b strings.Builder
	for _, line := range lines {
		for i, cell := range line {
			cell = cmp.Or(output.Printable(cell), "-")
			c.widths[i] = max(c.widths[i], utf8.RuneCountInString(cell))
			if i < len(line)-1 {
				cell = fmt.Sprintf("%-*s", c.widths[i]+3, cell)
			}
			b.WriteString(cell)
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(c.w, b.String())
	return err
}

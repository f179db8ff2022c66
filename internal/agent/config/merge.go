package config

import (
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cleat-cni/cleat/internal/agent/manifest"
)

// merged is what a set of a source changed.
type merged struct {
	updates []PodUpdate
	dropped []dropped
}

type dropped struct {
	pod    *v1.Pod
	reason string
}

// merge puts all pods of a source in the place of those it had, and returns what changed.
func (s storage) merge(source string, pods []*v1.Pod, now time.Time) merged {
	old, seen := s[source]
	var result merged
	pods, result.dropped = s.claim(source, pods)
	ops := map[Op][]*v1.Pod{}
	next := map[types.UID]*v1.Pod{}
	for _, ref := range pods {
		known := old[ref.UID]
		pod := ref.DeepCopy()
		next[ref.UID] = pod
		if pod.Annotations == nil {
			pod.Annotations = map[string]string{}
		}
		pod.Annotations[SourceAnnotation] = source
		if known == nil || fullName(known) != fullName(pod) { // under another name it is another pod
			pod.Annotations[FirstSeenAnnotation] = now.Format(time.RFC3339Nano)
			ops[ADD] = append(ops[ADD], pod)
			continue
		}
		pod.Annotations[FirstSeenAnnotation] = known.Annotations[FirstSeenAnnotation]
		switch {
		case !sameWish(known, pod) && pod.DeletionTimestamp != nil:
			ops[DELETE] = append(ops[DELETE], pod)
		case !sameWish(known, pod):
			ops[UPDATE] = append(ops[UPDATE], pod)
		case !equality.Semantic.DeepEqual(known.Status, pod.Status):
			ops[RECONCILE] = append(ops[RECONCILE], pod)
		}
	}
	for _, uid := range slices.Sorted(maps.Keys(old)) {
		pod := old[uid]
		if next[uid] == nil || fullName(next[uid]) != fullName(pod) {
			ops[REMOVE] = append(ops[REMOVE], pod)
		}
	}
	s[source] = next
	for _, op := range []Op{REMOVE, ADD, UPDATE, DELETE, RECONCILE} {
		first := op == ADD && !seen && len(ops[UPDATE])+len(ops[DELETE]) == 0
		if len(ops[op]) > 0 || first {
			result.updates = append(result.updates, PodUpdate{Pods: ops[op], Op: op, Source: source})
		}
	}
	return result
}

// claim leaves out pods whose name or UID another one has: one of another source, or of the same. What is known stays before what is
// new; of new ones the first does.
func (s storage) claim(source string, pods []*v1.Pod) (kept []*v1.Pod, left []dropped) {
	names := map[string]string{}
	uids := map[types.UID]string{}
	for other, list := range s {
		if other == source {
			continue
		}
		for uid, pod := range list {
			names[fullName(pod)] = "source " + other
			uids[uid] = "source " + other
		}
	}
	old := s[source]
	counts := map[string]int{} // of new pods that have a name which a known one has
	for _, p := range pods {
		if old[p.UID] != nil && fullName(old[p.UID]) == fullName(p) {
			counts[fullName(p)]++
		}
	}
	for _, p := range pods {
		name := fullName(p)
		known := old[p.UID] != nil && fullName(old[p.UID]) == name
		switch {
		case names[name] != "":
			left = append(left, dropped{p, fmt.Sprintf("a pod of this name is there already, of %s", names[name])})
		case uids[p.UID] != "":
			left = append(left, dropped{p, fmt.Sprintf("a pod of this UID is there already, of %s", uids[p.UID])})
		case !known && counts[name] > 0:
			left = append(left, dropped{p, "a pod of this name is there already, of the same source"})
		default:
			kept = append(kept, p)
			names[name], uids[p.UID] = "the same source", "the same source"
		}
	}
	return kept, left
}

func fullName(p *v1.Pod) string { return p.Namespace + "/" + p.Name }

// sameWish reports whether what a pod should be is the same, all but its status.
func sameWish(a, b *v1.Pod) bool {
	return equality.Semantic.DeepEqual(a.Spec, b.Spec) &&
		equality.Semantic.DeepEqual(a.Labels, b.Labels) &&
		equality.Semantic.DeepEqual(a.DeletionTimestamp, b.DeletionTimestamp) &&
		equality.Semantic.DeepEqual(a.DeletionGracePeriodSeconds, b.DeletionGracePeriodSeconds) &&
		maps.Equal(foreignAnnotations(a), foreignAnnotations(b))
}

// foreignAnnotations returns the annotations that aren't of the agent's own making.
func foreignAnnotations(p *v1.Pod) map[string]string {
	m := maps.Clone(p.Annotations)
	for _, name := range []string{SourceAnnotation, FirstSeenAnnotation, manifest.HashAnnotation, mirrorAnnotation} {
		delete(m, name)
	}
	return m
}

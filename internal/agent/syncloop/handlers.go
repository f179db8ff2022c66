package syncloop

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cleat-cni/cleat/internal/agent/container"
	"github.com/cleat-cni/cleat/internal/agent/podworkers"
)

// HandlePodAdditions takes pods that are new in a source, the oldest first. One whose UID had a life that is over, and of which something is
// left in the runtime, is begun by housekeeping.
func (l *Loop) HandlePodAdditions(ctx context.Context, pods []*v1.Pod) {
	slices.SortStableFunc(pods, func(a, b *v1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	for _, pod := range pods {
		l.pods.AddPod(pod)
		if l.leaving[pod.UID] {
			notify(l.tidy)
			continue
		}
		l.workers.UpdatePod(ctx, podworkers.Update{Type: podworkers.Create, Pod: pod})
	}
}

// HandlePodUpdates takes pods that a source changed, or began to delete.
func (l *Loop) HandlePodUpdates(ctx context.Context, pods []*v1.Pod) {
	for _, pod := range pods {
		l.pods.UpdatePod(pod)
		l.workers.UpdatePod(ctx, podworkers.Update{Type: podworkers.Change, Pod: pod})
	}
}

// HandlePodRemoves takes pods that are gone from their source. They are not stopped before every source has reported: housekeeping does
// that then.
func (l *Loop) HandlePodRemoves(ctx context.Context, pods []*v1.Pod) {
	for _, pod := range pods {
		l.pods.RemovePod(pod)
		if !l.config.Sources.AllReady() {
			l.log.Warn("not stopped yet: not every source has reported", "pod", fullName(pod), "uid", pod.UID)
			continue
		}
		l.workers.UpdatePod(ctx, podworkers.Update{Type: podworkers.Kill, Pod: pod})
	}
}

// HandlePodReconcile takes pods whose status in the source differs from the agent's, which counts. What the agent reads of a status are
// the conditions of readiness gates.
func (l *Loop) HandlePodReconcile(ctx context.Context, pods []*v1.Pod) {
	for _, pod := range pods {
		l.pods.UpdatePod(pod)
		if len(pod.Spec.ReadinessGates) > 0 {
			l.workers.UpdatePod(ctx, podworkers.Update{Type: podworkers.Sync, Pod: pod})
		}
	}
}

// HandlePodSyncs has pods looked at.
func (l *Loop) HandlePodSyncs(ctx context.Context, pods []*v1.Pod) {
	for _, pod := range pods {
		l.workers.UpdatePod(ctx, podworkers.Update{Type: podworkers.Sync, Pod: pod})
	}
}

// HandlePodCleanups brings workers, statuses and probes in line with the pods that the sources have, starts again what ended and came
// anew under its old UID, and stops what the runtime runs and nobody knows: pods that were removed while the agent was away. It runs in the
// loop, so no pod is added meanwhile.
func (l *Loop) HandlePodCleanups(ctx context.Context) error {
	// The list comes first: a worker is forgotten only if it is known whether the runtime still has something of its pod.
	inRuntime, err := l.config.Runtime.Pods(ctx)
	if err != nil {
		return fmt.Errorf("list the runtime's pods: %w", err)
	}
	desired := l.pods.GetPods()
	working := l.workers.SyncKnownPods(desired)
	known := make(map[types.UID]bool, len(desired))
	for _, pod := range desired {
		known[pod.UID] = true
	}
	for uid := range working {
		known[uid] = true
	}
	l.prober.CleanupPods(known)
	l.status.RemoveOrphanedStatuses(known)
	l.leaving = l.handleUnknown(ctx, inRuntime, working)
	for _, pod := range desired {
		if _, ok := working[pod.UID]; ok || l.leaving[pod.UID] {
			continue // it may come again when nothing is left of its last life
		}
		l.log.Info("pod is started again", "pod", fullName(pod), "uid", pod.UID)
		l.status.RemovePodStatus(pod.UID)
		l.workers.UpdatePod(ctx, podworkers.Update{Type: podworkers.Create, Pod: pod, Again: true})
	}
	return nil
}

// handleUnknown stops the pods of the runtime that no worker knows, and returns which there are. What is left of one that has ended is
// removed soon.
func (l *Loop) handleUnknown(ctx context.Context, inRuntime []container.Pod, working map[types.UID]podworkers.Worker) map[types.UID]bool {
	unknown := map[types.UID]bool{}
	for i := range inRuntime {
		p := &inRuntime[i]
		if _, ok := working[p.UID]; ok {
			continue
		}
		unknown[p.UID] = true
		if p.Running() {
			l.log.Info("clean up pod that no source has", "namespace", p.Namespace, "name", p.Name, "uid", p.UID)
			l.workers.UpdatePod(ctx, podworkers.Update{Type: podworkers.Kill, Running: p})
		} else if _, wanted := l.pods.GetPodByUID(p.UID); wanted {
			l.collector.Forget(*p)
		}
	}
	return unknown
}

func fullName(pod *v1.Pod) string { return pod.Namespace + "/" + pod.Name }

func compareNames(a, b *v1.Pod) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
}

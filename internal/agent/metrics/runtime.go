package metrics

import (
	"context"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cleat-cni/cleat/internal/agent/config"
	"github.com/cleat-cni/cleat/internal/agent/container"
	"github.com/cleat-cni/cleat/internal/agent/syncloop"
)

// Runtime returns a runtime whose operations are counted and timed. Listing and asking, which happen all the time, are only counted.
func (m *Metrics) Runtime(r syncloop.Runtime) syncloop.Runtime {
	return &meteredRuntime{Runtime: r, m: m}
}

type meteredRuntime struct {
	syncloop.Runtime

	m    *Metrics
	pods sync.Map // of sandboxes that are there, by ID: namespace/name
}

func (r *meteredRuntime) Pods(ctx context.Context) ([]container.Pod, error) {
	began := time.Now()
	list, err := r.Runtime.Pods(ctx)
	r.m.count("list_podsandbox", began, err)
	return list, err
}

func (r *meteredRuntime) PodStatus(ctx context.Context, uid types.UID) (*container.PodStatus, error) {
	began := time.Now()
	st, err := r.Runtime.PodStatus(ctx, uid)
	r.m.count("podsandbox_status", began, err)
	return st, err
}

func (r *meteredRuntime) CreateSandbox(ctx context.Context, pod *v1.Pod, attempt int) (string, error) {
	began := time.Now()
	id, err := r.Runtime.CreateSandbox(ctx, pod, attempt)
	r.m.runs.sandbox(began, err)
	if err == nil {
		r.pods.Store(id, fullName(pod))
	}
	r.m.observe(operation{"run_podsandbox", fullName(pod)}, began, err)
	return id, err
}

// podOf is the pod of a sandbox, also of one that an earlier agent made; "" if that can't be told.
func (r *meteredRuntime) podOf(ctx context.Context, id string) string {
	if name, ok := r.pods.Load(id); ok {
		return name.(string)
	}
	list, err := r.Runtime.Pods(ctx)
	if err != nil {
		return "" // whoever wants the pods is told
	}
	for _, p := range list {
		for _, s := range p.Sandboxes {
			r.pods.Store(s.ID, p.Namespace+"/"+p.Name)
		}
	}
	name, _ := r.pods.Load(id)
	text, _ := name.(string)
	return text
}

func (r *meteredRuntime) StopSandbox(ctx context.Context, id string) error {
	pod := r.podOf(ctx, id)
	began := time.Now()
	err := r.Runtime.StopSandbox(ctx, id)
	r.m.observe(operation{"stop_podsandbox", pod}, began, err)
	return err
}

func (r *meteredRuntime) RemoveSandbox(ctx context.Context, id string) error {
	pod := r.podOf(ctx, id)
	began := time.Now()
	err := r.Runtime.RemoveSandbox(ctx, id)
	if err == nil {
		r.pods.Delete(id)
	}
	r.m.observe(operation{"remove_podsandbox", pod}, began, err)
	return err
}

func (r *meteredRuntime) StartContainer(ctx context.Context, start container.Start) (string, error) {
	began := time.Now()
	id, err := r.Runtime.StartContainer(ctx, start)
	r.m.observe(operation{"start_container", fullName(start.Pod)}, began, err)
	r.m.runs.container(start, err)
	if err == nil {
		r.m.started(start)
	}
	return id, err
}

// started times the start of a pod whose container was started, if it is the last one, and that for the first time.
func (m *Metrics) started(start container.Start) {
	list := start.Pod.Spec.Containers
	seen, err := time.Parse(time.RFC3339Nano, start.Pod.Annotations[config.FirstSeenAnnotation])
	if err != nil || start.Init || start.RestartCount > 0 || start.Container.Name != list[len(list)-1].Name {
		return
	}
	m.observe(operation{OperationStart, fullName(start.Pod)}, seen, nil)
}

func fullName(pod *v1.Pod) string { return pod.Namespace + "/" + pod.Name }

func (r *meteredRuntime) StopContainer(ctx context.Context, id string, grace time.Duration) error {
	began := time.Now()
	err := r.Runtime.StopContainer(ctx, id, grace)
	r.m.observe(operation{kind: "stop_container"}, began, err)
	return err
}

func (r *meteredRuntime) Exec(ctx context.Context, id string, command []string) ([]byte, int, error) {
	began := time.Now()
	out, code, err := r.Runtime.Exec(ctx, id, command)
	r.m.count("exec_sync", began, err)
	return out, code, err
}

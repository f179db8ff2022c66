package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/internal/agent/metrics"
	"github.com/cleat-cni/cleat/internal/agent/server"
	"github.com/cleat-cni/cleat/internal/atomicfile"
)

// benchOptions say what is measured.
type benchOptions struct {
	number    int
	command   string
	manifests string
	timeout   time.Duration
}

// benchNamespace is that of the pods which a bench makes; all of it is the bench's own.
const benchNamespace = "cleat-bench"

func (a *app) benchCmd() *cobra.Command {
	var o benchOptions
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measure how fast pods come and go",
		Long: `Measure how fast pods come and go: makes pods that do nothing in the namespace ` + benchNamespace + `, waits until the last one
runs, and removes them again. It prints how long a start took, from when the agent saw the manifest: total, and of
that the sandbox (namespaces, pause process, waiting for its turn), the CNI plugins and the container; then memory
and descriptors of the agent. What an interrupted run left is removed by the next one.`,
		Example: `  cleat pods bench -n 500
  cleat pods bench -n 100 --command 'python3 -m http.server' -o json
  cleat pods bench --manifests /etc/cleat/pods        through a folder that the agent watches`,
		Args: args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			if o.number < 1 {
				return &usageError{cni.Errorf(cni.CodeInvalidEnvironment, "-n %d is no number of pods", o.number)}
			}
			return a.bench(c.Context(), o)
		},
	}
	f := c.Flags()
	f.IntVarP(&o.number, "number", "n", 100, "how many pods")
	f.StringVar(&o.command, "command", "exec sleep 1000000", "what the shell runs in each pod's container")
	f.StringVar(&o.manifests, "manifests", "", "folder to write manifests into that the agent watches (default: through its socket)")
	f.DurationVar(&o.timeout, "timeout", 5*time.Minute, "how long all pods have to come, and to go")
	return c
}

func (a *app) bench(ctx context.Context, o benchOptions) error {
	// No two runs share names: the agent still tidies up after the last one when the next begins.
	prefix := "bench-" + strconv.FormatInt(a.cfg.Now().UnixMilli(), 36) + "-"
	b := &bench{app: a, options: o, prefix: prefix, watched: newTimingLog(benchNamespace + "/" + prefix)}
	if err := a.client().Ready(ctx); err != nil {
		return fmt.Errorf("bench: the agent is not ready: %w", err)
	}
	if err := b.clear(ctx); err != nil {
		return fmt.Errorf("bench: remove what an earlier one left: %w", err)
	}
	stop, err := b.watch(ctx)
	if err != nil {
		return err
	}
	defer stop()
	result, err := b.measure(ctx)
	if err != nil {
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.timeout)
		defer cancel()
		return errors.Join(fmt.Errorf("bench: %w", err), b.remove(undo, b.names()))
	}
	return a.printBench(result)
}

// bench is one run.
type bench struct {
	app     *app
	options benchOptions
	prefix  string // of the pods' names
	watched *timingLog
}

func (b *bench) names() []string {
	names := make([]string, b.options.number)
	for i := range names {
		names[i] = fmt.Sprintf("%s%04d", b.prefix, i+1)
	}
	return names
}

func (b *bench) client() *server.Client { return b.app.client() }

// watch has the agent tell how long what takes, until the function is called that it returns.
func (b *bench) watch(ctx context.Context) (stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	began, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- b.client().Timings(ctx, func() { close(began) }, func(t metrics.Timing) bool { b.watched.add(t); return true })
	}()
	select {
	case <-began:
		return func() { cancel(); <-ended }, nil
	case err := <-ended:
		cancel()
		return nil, fmt.Errorf("bench: %w", err)
	}
}

// measure has all pods come and go.
func (b *bench) measure(ctx context.Context) (*benchResult, error) {
	r := &benchResult{Pods: b.options.number, Command: b.options.command}
	before, err := b.client().Metrics(ctx)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if err := b.apply(ctx); err != nil {
		return nil, err
	}
	if err := b.await(ctx, "run", metrics.OperationStart); err != nil {
		return nil, err
	}
	r.Up = rate(b.options.number, time.Since(began))
	r.Start = b.watched.split()
	up, err := b.client().Metrics(ctx)
	if err != nil {
		return nil, err
	}
	began = time.Now()
	if err := b.remove(ctx, b.names()); err != nil {
		return nil, err
	}
	if err := b.await(ctx, "are gone", "stop_podsandbox"); err != nil {
		return nil, err
	}
	r.Down = rate(b.options.number, time.Since(began))
	if err := b.gone(ctx); err != nil {
		return nil, err
	}
	after, err := b.client().Metrics(ctx)
	if err != nil {
		return nil, err
	}
	r.Agent = agentUse{
		Memory: up["process_resident_memory_bytes"], Descriptors: up["process_open_fds"], DescriptorsAfter: after["process_open_fds"],
		Goroutines: up["go_goroutines"], CPU: after["process_cpu_seconds_total"] - before["process_cpu_seconds_total"],
	}
	return r, nil
}

// progressEvery is how often a run that takes long says how far it is.
const progressEvery = 5 * time.Second

// await waits until an operation was done with each pod.
func (b *bench) await(ctx context.Context, what, operation string) error {
	timeout, tick := time.NewTimer(b.options.timeout), time.NewTicker(progressEvery)
	defer timeout.Stop()
	defer tick.Stop()
	for {
		n, changed := b.watched.count(operation)
		if n >= b.options.number {
			return nil
		}
		select {
		case <-changed:
		case <-tick.C:
			fmt.Fprintf(b.app.cfg.Stderr, "%d of %d pods %s\n", n, b.options.number, what)
		case <-timeout.C:
			return b.late(ctx, fmt.Sprintf("%d of %d pods %s after %v", n, b.options.number, what, b.options.timeout))
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// late is the error of pods that did not come or go in time, with the last event that says why.
func (b *bench) late(ctx context.Context, text string) error {
	events, err := b.client().Events(ctx, "", "")
	if err != nil {
		return errors.Join(errors.New(text), err)
	}
	for _, e := range slices.Backward(events) {
		if e.Namespace == benchNamespace && e.Type == v1.EventTypeWarning {
			return fmt.Errorf("%s; %s: %s: %s", text, e.Name, e.Reason, e.Message)
		}
	}
	return errors.New(text)
}

// gone waits until no pod of the bench is listed.
func (b *bench) gone(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, b.options.timeout, fmt.Errorf("pods are left after %v", b.options.timeout))
	defer cancel()
	return b.client().Watch(ctx, func(list *v1.PodList) bool {
		return slices.ContainsFunc(list.Items, func(p v1.Pod) bool { return p.Namespace == benchNamespace })
	})
}

// clear removes what an earlier run left.
func (b *bench) clear(ctx context.Context) error {
	list, err := b.client().Pods(ctx)
	if err != nil {
		return err
	}
	var names []string
	for i := range list.Items {
		if list.Items[i].Namespace == benchNamespace {
			names = append(names, short(&list.Items[i]))
		}
	}
	if len(names) == 0 {
		return nil
	}
	if err := b.remove(ctx, names); err != nil {
		return err
	}
	return b.gone(ctx)
}

// remove takes manifests away, wherever they are. One that isn't there is gone.
func (b *bench) remove(ctx context.Context, names []string) error {
	client := b.client()
	var errs []error
	for _, name := range names {
		if b.options.manifests != "" {
			if err := os.Remove(b.file(name)); err != nil && !errors.Is(err, os.ErrNotExist) {
				errs = append(errs, err)
			}
			continue
		}
		_, err := client.Delete(ctx, benchNamespace, name, false)
		if answer, ok := errors.AsType[*server.AnswerError](err); err != nil && (!ok || answer.Code != http.StatusNotFound && answer.Code != http.StatusConflict) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (b *bench) file(name string) string { return filepath.Join(b.options.manifests, name+".json") }

// apply makes all pods: as files, or through the socket.
func (b *bench) apply(ctx context.Context) error {
	const atOnce = 200 // what a text of pods may hold is bounded
	for names := range slices.Chunk(b.names(), atOnce) {
		list := v1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}}
		for _, name := range names {
			pod := b.pod(name)
			list.Items = append(list.Items, pod)
			if b.options.manifests == "" {
				continue
			}
			data, err := json.Marshal(pod)
			if err != nil {
				return err
			}
			if err := atomicfile.Write(b.file(name), data, 0o600); err != nil {
				return err
			}
		}
		if b.options.manifests != "" {
			continue
		}
		data, err := json.Marshal(list)
		if err != nil {
			return err
		}
		if _, err := b.client().Apply(ctx, "bench", data, false); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) pod(name string) v1.Pod {
	return v1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: benchNamespace, Name: name},
		Spec: v1.PodSpec{
			TerminationGracePeriodSeconds: new(int64(1)),
			Containers:                    []v1.Container{{Name: "main", Command: []string{"/bin/sh", "-c", b.options.command}}},
		},
	}
}

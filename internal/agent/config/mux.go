// Package config brings the pods that should run from where they are written down to the loop that runs them: sources hand over all
// their pods at a time, and the [Mux] compares each such set with the one before and says what changed, in one ordered stream.
//
// The sources are folders and files of manifests, watched and read again every 20 seconds, and a URL that is asked every 20 seconds.
// A source that fails keeps its last pods, and so does each file with a mistake or that is being written; a file that is gone takes its pods
// away. Until each source has reported once, nobody may delete anything: [Mux.AllReady].
package config

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cleat-cni/cleat/internal/agent/manifest"
)

// Op says what happened to the pods of a [PodUpdate].
type Op int

// The operations. The order of the constants is the kubelet's, not that of the stream.
const (
	SET       Op = iota // these are all pods of the source; the mux takes such sets and sends none
	ADD                 // new in the source; none if the source has reported for the first time and has none
	DELETE              // a graceful deletion has begun
	REMOVE              // gone from the source
	UPDATE              // what the pod should be changed
	RECONCILE           // only the status differs
)

// String returns the name of the operation.
func (o Op) String() string {
	return [...]string{"SET", "ADD", "DELETE", "REMOVE", "UPDATE", "RECONCILE"}[o]
}

// PodUpdate is one operation on pods of a source. The pods are the receiver's own.
type PodUpdate struct {
	Pods   []*v1.Pod
	Op     Op
	Source string
}

// Annotations that the mux sets, as the kubelet does.
const (
	SourceAnnotation    = "kubernetes.io/config.source"
	FirstSeenAnnotation = "kubernetes.io/config.seen"
	mirrorAnnotation    = "kubernetes.io/config.mirror"
)

// updateCapacity is how many updates may wait for the loop. One more makes the source wait.
const updateCapacity = 50

type recorder interface {
	Event(pod *v1.Pod, kind, reason, message string)
}

// Config configures a [Mux].
type Config struct {
	Paths     []string      // folders and files of manifests; they need not be there yet
	URL       string        // answers with a Pod or a PodList; default none
	Node      string        // required
	FileCheck time.Duration // between two looks at the files, beside those that a change causes; default 20 s
	HTTPCheck time.Duration // between two questions to the URL; default 20 s
	Log       *slog.Logger  // default slog.Default()
	Recorder  recorder      // is told of pods that can't be taken; default nobody
}

// Mux makes one stream of the sources' sets.
type Mux struct {
	cfg     Config
	log     *slog.Logger
	sources map[string]func(ctx context.Context, m *Mux)
	updates chan PodUpdate

	updateLock sync.Mutex // held over a merge and the sending of what it found, so that the stream has an order
	storage    storage

	mu       sync.Mutex
	handled  map[string]bool
	unknown  bool              // a manifest that was there at the start has not been read
	problems map[string]string // by file or URL
}

// New returns a mux. [Mux.Run] starts it.
func New(cfg Config) *Mux {
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	if cfg.FileCheck == 0 {
		cfg.FileCheck = 20 * time.Second
	}
	if cfg.HTTPCheck == 0 {
		cfg.HTTPCheck = 20 * time.Second
	}
	m := &Mux{cfg: cfg, log: cfg.Log, sources: map[string]func(context.Context, *Mux){}, updates: make(chan PodUpdate, updateCapacity),
		storage: storage{}, handled: map[string]bool{}, problems: map[string]string{}}
	if len(cfg.Paths) > 0 {
		m.sources[string(manifest.File)] = newFileSource(cfg).run
	}
	if cfg.URL != "" {
		m.sources[string(manifest.HTTP)] = newHTTPSource(cfg).run
	}
	return m
}

// Run reads the sources until ctx ends, and returns when all of them have stopped. It closes the channel of updates.
func (m *Mux) Run(ctx context.Context) {
	var wg sync.WaitGroup
	for _, run := range m.sources {
		wg.Go(func() { run(ctx, m) })
	}
	wg.Wait()
	close(m.updates)
}

// Updates returns the stream. Of one set of a source come REMOVE, ADD, UPDATE, DELETE and RECONCILE, in this order, and those without
// pods not at all; but the first set of a source without pods comes as an ADD of none, so that the loop knows that the source has reported.
func (m *Mux) Updates() <-chan PodUpdate { return m.updates }

// AddSource notes that an update of a source was handled. Who handles updates calls it after each.
func (m *Mux) AddSource(source string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.handled[source] = true
}

// AllReady reports whether an update of each source was handled. Until then a pod that no source has may be one of a source that
// hasn't reported, so nothing may be deleted or cleaned up. The same is so while a manifest that was there at the start has a mistake:
// its pods may run, and nobody can say which they are.
func (m *Mux) AllReady() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.unknown {
		return false
	}
	for name := range m.sources {
		if !m.handled[name] {
			return false
		}
	}
	return true
}

func (m *Mux) setUnknown(unknown bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unknown = unknown
}

// Problems returns what is wrong with files and the URL at present, by their names: why they are not, or no longer, read.
func (m *Mux) Problems() map[string]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.problems)
}

// problem notes what is wrong with a file or URL, nil if nothing is any more. It logs what is new.
func (m *Mux) problem(ctx context.Context, name string, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	m.mu.Lock()
	old := m.problems[name]
	if m.problems[name] = text; text == "" {
		delete(m.problems, name)
	}
	m.mu.Unlock()
	switch {
	case text == old:
	case text == "":
		m.log.InfoContext(ctx, "pods are read again", "from", name)
	default:
		m.log.ErrorContext(ctx, "pods are not read, those known from there stay", "from", name, "error", text)
	}
}

// merge takes all pods of a source and sends what changed. It waits for the loop if that is behind, until ctx ends.
func (m *Mux) merge(ctx context.Context, source string, pods []*v1.Pod) {
	m.updateLock.Lock()
	defer m.updateLock.Unlock()
	result := m.storage.merge(source, pods, time.Now())
	for _, d := range result.dropped {
		m.log.WarnContext(ctx, "a pod is left out", "pod", d.pod.Namespace+"/"+d.pod.Name, "uid", d.pod.UID, "source", source, "reason", d.reason)
		if m.cfg.Recorder != nil {
			m.cfg.Recorder.Event(d.pod, v1.EventTypeWarning, "FailedValidation", d.reason)
		}
	}
	for _, u := range result.updates {
		for i := range u.Pods {
			u.Pods[i] = u.Pods[i].DeepCopy()
		}
		select {
		case m.updates <- u:
		case <-ctx.Done():
			return
		}
	}
}

// storage is what the sources have, by source and UID.
type storage map[string]map[types.UID]*v1.Pod

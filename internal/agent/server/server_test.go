package server

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cleat-cni/cleat/internal/agent/agenttest"
	"github.com/cleat-cni/cleat/internal/agent/manifest"
	"github.com/cleat-cni/cleat/internal/agent/metrics"
	"github.com/cleat-cni/cleat/internal/agent/status"
)

// bed is an agent as far as a server sees it.
type bed struct {
	*Client
	dir    string
	status *status.Manager
	public string // URL
	meter  *metrics.Metrics

	mu      sync.Mutex
	pods    []v1.Pod
	ready   error
	running bool
	hung    chan error // why a command that hangs has ended
}

func newBed(t *testing.T) *bed {
	t.Helper()
	b := &bed{dir: t.TempDir(), meter: metrics.New(), status: status.NewManager(slog.New(slog.DiscardHandler)), running: true, hung: make(chan error, 1)}
	events := status.NewRecorder(slog.New(slog.DiscardHandler))
	pod := v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-node1", Namespace: "default", UID: "u1"},
		Spec: v1.PodSpec{Containers: []v1.Container{{Name: "main"}, {Name: "side"}}}}
	b.pods = []v1.Pod{pod}
	events.Event(&pod, v1.EventTypeWarning, "FailedCreatePodSandBox", "no network")
	s, err := New(Config{
		Socket: filepath.Join(b.dir, "agent.sock"), Listen: "127.0.0.1:0", Manifests: filepath.Join(b.dir, "manifests"), Node: "Node1",
		Log: slog.New(slog.DiscardHandler), Changes: b.status.Changes, Events: events.Events,
		Pods:     func() []v1.Pod { b.mu.Lock(); defer b.mu.Unlock(); return append([]v1.Pod(nil), b.pods...) },
		Problems: func() Problems { return Problems{Manifests: map[string]string{"/etc/x.yaml": "line 3: tabs"}} },
		Healthy:  func() error { return nil },
		Ready:    func() error { b.mu.Lock(); defer b.mu.Unlock(); return b.ready },
		Logs: func(_ context.Context, uid types.UID, container string, previous bool) (string, bool, error) {
			if container == "side" || previous {
				return "", false, errors.New("it has not run")
			}
			b.mu.Lock()
			defer b.mu.Unlock()
			return filepath.Join(b.dir, "0.log"), b.running, nil
		},
		Exec:    b.exec,
		Timings: b.meter.Timings,
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, "# HELP up x\nup 1\nsize{of=\"a\"} 2\nbytes 1.5e+06\nodd text\n")
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := s.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
	b.Client, b.public = NewClient(filepath.Join(b.dir, "agent.sock")), "http://"+s.Addr().String()
	return b
}

func (b *bed) write(t *testing.T, name, text string) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(b.dir, name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

const line = "2026-01-02T03:04:05.6Z stdout "

func TestSocketIsRootsAndTheAddressShowsLittle(t *testing.T) {
	b := newBed(t)
	info, err := os.Stat(filepath.Join(b.dir, "agent.sock"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("socket: %v, %v", info.Mode(), err)
	}
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/pods": 200, "/metrics": 200,
		"/events": 404, "/problems": 404, "/debug/pprof/": 404, "/logs/default/web-node1": 404, "/manifests": 404} {
		resp, err := http.Get(b.public + path)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: %d, want %d", path, resp.StatusCode, want)
		}
	}
}

func TestReady(t *testing.T) {
	b := newBed(t)
	if err := b.Ready(t.Context()); err != nil {
		t.Error(err)
	}
	b.mu.Lock()
	b.ready = errors.New("no network is configured")
	b.mu.Unlock()
	if err := b.Ready(t.Context()); err == nil || err.Error() != "no network is configured" {
		t.Errorf("ready: %v", err)
	}
}

func TestPodsEventsProblems(t *testing.T) {
	b := newBed(t)
	list, err := b.Pods(t.Context())
	if err != nil || len(list.Items) != 1 || list.Kind != "PodList" || list.APIVersion != "v1" {
		t.Errorf("pods: %+v, %v", list, err)
	}
	for _, name := range []string{"web", "web-node1", ""} { // with the node's name and without, and all
		events, err := b.Events(t.Context(), "default", name)
		if err != nil || len(events) != 1 || events[0].Reason != "FailedCreatePodSandBox" {
			t.Errorf("events of %q: %+v, %v", name, events, err)
		}
	}
	if _, err := b.Events(t.Context(), "default", "none"); err == nil || !strings.Contains(err.Error(), "no pod default/none") {
		t.Errorf("events of none: %v", err)
	}
	b.mu.Lock()
	b.pods = nil
	b.mu.Unlock()
	for _, name := range []string{"web", "web-node1"} {
		if events, err := b.Events(t.Context(), "default", name); err != nil || len(events) != 1 {
			t.Errorf("events of %q, which is gone: %+v, %v", name, events, err)
		}
	}
	if p, err := b.Problems(t.Context()); err != nil || p.Manifests["/etc/x.yaml"] == "" {
		t.Errorf("problems: %v, %v", p, err)
	}
}

func TestWatch(t *testing.T) {
	b := newBed(t)
	n := 0
	err := b.Watch(t.Context(), func(list *v1.PodList) bool {
		n++
		if n == 1 {
			b.mu.Lock()
			b.pods = nil
			b.mu.Unlock()
			b.status.SetPodStatus(&v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u1"}}, v1.PodStatus{Phase: v1.PodRunning})
			return true
		}
		if len(list.Items) != 0 {
			t.Errorf("after the change: %v", list.Items)
		}
		return false
	})
	if err != nil || n != 2 {
		t.Errorf("watch: %d lists, %v", n, err)
	}
}

func TestApplyAndDelete(t *testing.T) {
	b := newBed(t)
	text := "apiVersion: v1\nkind: Pod\nmetadata: {name: db}\nspec:\n  containers:\n  - {name: main, command: [sleep, '600']}\n"
	for i, want := range []string{"created", "created", "unchanged", "changed"} {
		if i == 3 {
			text = strings.Replace(text, "600", "700", 1)
		}
		list, err := b.Apply(t.Context(), "db.yaml", []byte(text), i == 0)
		if err != nil || len(list) != 1 || list[0].Change != want || list[0].Name != "db-node1" || list[0].Namespace != "default" {
			t.Fatalf("%d: %+v, %v, want %s", i, list, err, want)
		}
		if _, err := os.Stat(list[0].File); (err == nil) == (i == 0) {
			t.Errorf("%d: %v", i, err)
		}
	}
	written, err := os.ReadFile(filepath.Join(b.dir, "manifests", "default_db.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := manifest.Parse(manifest.Source{Kind: manifest.File, Name: "written", Node: "Node1"}, written); err != nil {
		t.Errorf("what was written is not read: %v", err)
	}
	_, err = b.Apply(t.Context(), "bad.yaml", []byte("kind: Pod\napiVersion: v1\nmetadata: {name: x}\nspec: {containers: [{name: a, imagee: b}]}"), false)
	if err == nil || !strings.Contains(err.Error(), "bad.yaml:4") {
		t.Errorf("a bad one: %v, want its line", err)
	}
	taken := strings.Replace(text, "name: db", "name: web", 1)
	if _, err := b.Apply(t.Context(), "web.yaml", []byte(taken), false); err == nil || !strings.Contains(err.Error(), "comes from a manifest") {
		t.Errorf("a name that another manifest has: %v", err)
	}
	file, err := os.ReadFile(filepath.Join(b.dir, "manifests", "default_db.yaml"))
	if err != nil || strings.Contains(string(file), "nodeName") {
		t.Errorf("the stored manifest names the node, which may be called something else later: %v\n%s", err, file)
	}
	for _, tt := range []struct{ name, want string }{
		{"db", ""}, {"db", "no pod default/db"}, {"web-node1", "was not applied here"}, {"..%2f..%2fx", "no pod"}, {"a_b", "no pod"},
	} {
		_, err := b.Delete(t.Context(), "default", tt.name, false)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("delete %s: %v, want %q", tt.name, err, tt.want)
		}
	}
	b.mu.Lock()
	b.pods[0].DeletionTimestamp = &metav1.Time{Time: time.Now()}
	b.mu.Unlock()
	if a, err := b.Delete(t.Context(), "default", "web-node1", false); err != nil || a.Change != "ending already" {
		t.Errorf("delete what ends: %+v, %v", a, err)
	}
}

func TestLogs(t *testing.T) {
	b := newBed(t)
	b.write(t, "0.log.20260102-030405.000000", line+"F first\n")
	b.write(t, "0.log", line+"P half \n"+line+"F line\n"+line+"F last\n")
	for _, tt := range []struct {
		name string
		o    LogOptions
		want string
	}{
		{"all", LogOptions{Tail: -1}, "first\nhalf line\nlast\n"},
		{"tail", LogOptions{Tail: 1}, "last\n"},
		{"none", LogOptions{Tail: 0}, ""},
		{"timestamps", LogOptions{Tail: 1, Timestamps: true}, "2026-01-02T03:04:05.6Z last\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			body, err := b.Logs(t.Context(), "default", "web-node1", tt.o)
			if err != nil {
				t.Fatal(err)
			}
			defer body.Close()
			if got, err := io.ReadAll(body); err != nil || string(got) != tt.want {
				t.Errorf("logs: %q, %v, want %q", got, err, tt.want)
			}
		})
	}
	if _, err := b.Logs(t.Context(), "default", "web-node1", LogOptions{Container: "side"}); err == nil || !strings.Contains(err.Error(), "has not run") {
		t.Errorf("logs of one that has not run: %v", err)
	}
}

func TestFollowGoesOnAfterARotationAndEnds(t *testing.T) {
	b := newBed(t)
	b.write(t, "0.log", line+"F one\n")
	body, err := b.Logs(t.Context(), "default", "web-node1", LogOptions{Tail: -1, Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	buf := make([]byte, 64)
	read := func(want string) {
		t.Helper()
		n, err := io.ReadFull(body, buf[:len(want)])
		if err != nil || string(buf[:n]) != want {
			t.Fatalf("read %q, %v, want %q", buf[:n], err, want)
		}
	}
	read("one\n")
	b.write(t, "0.log", line+"F two\n")
	read("two\n")
	if err := os.Rename(filepath.Join(b.dir, "0.log"), filepath.Join(b.dir, "0.log.1")); err != nil {
		t.Fatal(err)
	}
	b.write(t, "0.log", line+"F three\n")
	read("three\n")
	b.write(t, "0.log", line+"F four\n")
	b.mu.Lock()
	b.running = false
	b.mu.Unlock()
	if rest, err := io.ReadAll(body); err != nil || string(rest) != "four\n" {
		t.Errorf("the rest: %q, %v", rest, err)
	}
}

func TestNoAgent(t *testing.T) {
	_, err := NewClient(filepath.Join(t.TempDir(), "none.sock")).Pods(t.Context())
	if !errors.Is(err, ErrNoAgent) {
		t.Errorf("no agent: %v", err)
	}
}

func TestTimings(t *testing.T) {
	b := newBed(t)
	runtime := b.meter.Runtime(agenttest.New())
	work := func() {
		for range 3 { // of containers that are not there
			if err := runtime.StopContainer(t.Context(), "x", 0); err != nil {
				t.Error(err)
			}
		}
	}
	work() // before somebody listens
	n := 0
	err := b.Timings(t.Context(), work, func(m metrics.Timing) bool {
		n++
		if m.Operation != "stop_container" || m.Began.IsZero() {
			t.Errorf("timing %+v", m)
		}
		return n < 3
	})
	if err != nil || n != 3 {
		t.Errorf("%d timings, %v", n, err)
	}
	body, err := b.ask(t.Context(), http.MethodGet, "/timings", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	if text, err := io.ReadAll(body); err != nil || strings.Count(string(text), "\n") != 6 {
		t.Errorf("%v: %s", err, text)
	}
}

func TestMetrics(t *testing.T) {
	got, err := newBed(t).Metrics(t.Context())
	if diff := cmp.Diff(map[string]float64{"up": 1, "bytes": 1.5e6}, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

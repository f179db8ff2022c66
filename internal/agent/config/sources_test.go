package config

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/cleat-cni/cleat/internal/sandbox"
)

func yamlPod(name string) string {
	return "apiVersion: v1\nkind: Pod\nmetadata: {name: " + name + "}\nspec: {containers: [{name: c, command: [sleep]}]}\n"
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func names(pods []*v1.Pod) string {
	var list []string
	for _, p := range pods {
		list = append(list, strings.TrimSuffix(p.Name, "-node"))
	}
	return strings.Join(list, " ")
}

// TestFiles does one thing after the other to a folder, and looks at the pods after each.
func TestFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pods")
	in := func(name string) string { return filepath.Join(dir, name) }
	s := newFiles([]string{dir}, "node")
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	steps := []struct {
		name  string
		do    func()
		pods  string
		wrong string // part of what is wrong with a.yaml
	}{
		{"no-folder", func() {}, "", ""},
		{"empty-folder", func() { do(os.Mkdir(dir, 0o755)) }, "", ""},
		{"files-in-order", func() { write(t, in("b.yaml"), yamlPod("b")); write(t, in("a.yaml"), yamlPod("a")) }, "a b", ""},
		{"several-documents", func() { write(t, in("b.yaml"), yamlPod("b")+"---\n"+yamlPod("c")) }, "a b c", ""},
		{"broken", func() { write(t, in("a.yaml"), "{") }, "a b c", "a.yaml:"},
		{"emptied", func() { write(t, in("a.yaml"), "") }, "a b c", "no pod in it"},
		{"5-megabytes", func() { write(t, in("a.yaml"), yamlPod("z")+strings.Repeat("#", 5<<20)) }, "a b c", "longer than 1048576"},
		{"repaired", func() { write(t, in("a.yaml"), yamlPod("a2")) }, "a2 b c", ""},
		{"in-json", func() { write(t, in("a.yaml"), `{"apiVersion":"v1","kind":"PodList","items":[]}`) }, "b c", ""},
		{"hidden-and-copies", func() {
			for _, n := range []string{".a.yaml.swp", "b.yaml~", "#b.yaml#", "..data"} {
				write(t, in(n), yamlPod("copy"))
			}
			do(os.Mkdir(in("sub"), 0o755))
		}, "b c", ""},
		{"link", func() { do(os.Symlink(".a.yaml.swp", in("link.yaml"))) }, "b c copy", ""},
		{"link-to-nothing", func() { do(os.Remove(in(".a.yaml.swp"))) }, "b c", ""},
		{"pipe", func() { do(os.Remove(in("a.yaml"))); do(unix.Mkfifo(in("a.yaml"), 0o644)) }, "b c", "no regular file"},
		{"removed", func() { do(os.Remove(in("a.yaml"))); do(os.Remove(in("b.yaml"))) }, "", ""},
		{"folder-removed", func() { write(t, in("d.yaml"), yamlPod("d")); do(os.RemoveAll(dir)) }, "", ""},
		{"folder-made-again", func() { do(os.Mkdir(dir, 0o755)); write(t, in("d.yaml"), yamlPod("d")) }, "d", ""},
	}
	for _, step := range steps {
		step.do()
		if whole, _ := s.read(time.Now()); !whole {
			t.Fatalf("%s: not whole", step.name)
		}
		if got := names(s.pods()); got != step.pods {
			t.Errorf("%s: pods %q, want %q", step.name, got, step.pods)
		}
		err := s.problems()[in("a.yaml")]
		if (err != nil) != (step.wrong != "") || err != nil && !strings.Contains(err.Error(), step.wrong) {
			t.Errorf("%s: a.yaml: %v, want %q", step.name, err, step.wrong)
		}
	}
}

// TestFilesOfAnUnreadablePath is about a path that can't be listed: nothing is known of it at first, and later what was known stays.
func TestFilesOfAnUnreadablePath(t *testing.T) {
	top := t.TempDir()
	path := filepath.Join(top, "x", "pods")
	write(t, filepath.Join(top, "x"), "")
	s := newFiles([]string{path}, "node")
	if whole, _ := s.read(time.Now()); whole || s.problems()[path] == nil {
		t.Errorf("whole %v, problems %v", whole, s.problems())
	}
	if err := os.Remove(filepath.Join(top, "x")); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(path, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(path, "a.yaml"), yamlPod("a"))
	if whole, changed := s.read(time.Now()); !whole || !changed || names(s.pods()) != "a" {
		t.Errorf("whole %v, changed %v, pods %q", whole, changed, names(s.pods()))
	}
	if err := os.RemoveAll(filepath.Join(top, "x")); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(top, "x"), "")
	if whole, changed := s.read(time.Now()); !whole || changed || names(s.pods()) != "a" || s.problems()[path] == nil {
		t.Errorf("whole %v, changed %v, pods %q, problems %v", whole, changed, names(s.pods()), s.problems())
	}
}

// TestFilesWaitForTheWriter is about half of a text, which is a whole pod by itself: it counts once the writer has closed the file, or
// after five seconds.
func TestFilesWaitForTheWriter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.yaml")
	write(t, path, yamlPod("old"))
	s := newFiles([]string{path}, "node")
	at := time.Unix(1000, 0)
	look := func(want string, busy bool) {
		t.Helper()
		s.read(at)
		if got := names(s.pods()); got != want || s.busy() != busy {
			t.Errorf("pods %q, busy %v, want %q, %v", got, s.busy(), want, busy)
		}
	}
	look("old", false)
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(f, yamlPod("half"))
	if !beingWritten(readable(t, path)) {
		sandbox.Need(t, "leases", "the file system has none")
	}
	look("old", true)
	at = at.Add(patience - time.Second)
	look("old", true)
	at = at.Add(time.Second)
	look("half", false)
	fmt.Fprint(f, "---\n"+yamlPod("rest"))
	look("half", true)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	look("half rest", false)
}

func readable(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// next returns the next update, or fails: real files need real time.
func next(t *testing.T, m *Mux) PodUpdate {
	t.Helper()
	select {
	case u := <-m.Updates():
		m.AddSource(u.Source)
		return u
	case <-time.After(10 * time.Second):
		t.Fatal("no update")
		return PodUpdate{}
	}
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func start(t *testing.T, cfg Config) *Mux {
	t.Helper()
	cfg.Node, cfg.Log = "node", quiet()
	m := New(cfg)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { m.Run(ctx) })
	t.Cleanup(func() { cancel(); wg.Wait() })
	return m
}

// TestFolderIsWatched has a period of an hour, so that what comes comes by a watch.
func TestFolderIsWatched(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pods")
	m := start(t, Config{Paths: []string{dir}, FileCheck: time.Hour})
	want := func(what string) {
		t.Helper()
		u := next(t, m)
		if got := fmt.Sprint(u.Op, " ", names(u.Pods)); got != what {
			t.Fatalf("got %q, want %q", got, what)
		}
	}
	if m.AllReady() {
		t.Error("ready before anything")
	}
	want("ADD ")
	if !m.AllReady() {
		t.Error("not ready")
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "a.yaml"), yamlPod("a"))
	want("ADD a")
	write(t, filepath.Join(dir, ".b"), yamlPod("b"))
	if err := os.Rename(filepath.Join(dir, ".b"), filepath.Join(dir, "b.yaml")); err != nil {
		t.Fatal(err)
	}
	want("ADD b")
	write(t, filepath.Join(dir, "a.yaml"), yamlPod("c"))
	want("REMOVE a")
	want("ADD c")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	for left := 2; left > 0; {
		u := next(t, m)
		if u.Op != REMOVE {
			t.Fatalf("got %v %s", u.Op, names(u.Pods))
		}
		left -= len(u.Pods)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "a.yaml"), yamlPod("d"))
	want("ADD d")
}

// TestFileIsWatched is about a path that is a file, and a writer that takes its time.
func TestFileIsWatched(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.yaml")
	m := start(t, Config{Paths: []string{path}, FileCheck: time.Hour})
	if u := next(t, m); u.Op != ADD || len(u.Pods) > 0 {
		t.Fatalf("got %v %s", u.Op, names(u.Pods))
	}
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(f, yamlPod("a"))
	if !beingWritten(readable(t, path)) {
		sandbox.Need(t, "leases", "the file system has none")
	}
	select {
	case u := <-m.Updates():
		t.Errorf("half of the file: %v %s", u.Op, names(u.Pods))
	case <-time.After(300 * time.Millisecond):
	}
	fmt.Fprint(f, "---\n"+yamlPod("b"))
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if u := next(t, m); names(u.Pods) != "a b" {
		t.Errorf("got %v %s", u.Op, names(u.Pods))
	}
}

// TestFirstSetWaitsForTheWriter is about a start while a file is being written: a first set without its pods would have them stopped.
func TestFirstSetWaitsForTheWriter(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "b.yaml"), yamlPod("b"))
	f, err := os.Create(filepath.Join(dir, "a.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if !beingWritten(readable(t, f.Name())) {
		sandbox.Need(t, "leases", "the file system has none")
	}
	m := start(t, Config{Paths: []string{dir}, FileCheck: time.Hour})
	select {
	case u := <-m.Updates():
		t.Errorf("before the file is whole: %v %s", u.Op, names(u.Pods))
	case <-time.After(300 * time.Millisecond):
	}
	fmt.Fprint(f, yamlPod("a"))
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if u := next(t, m); names(u.Pods) != "a b" {
		t.Errorf("got %v %s", u.Op, names(u.Pods))
	}
}

// server answers what it is told to.
type server struct {
	mu     sync.Mutex
	status int
	body   string
	err    error
	asked  int
}

func (s *server) RoundTrip(*http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	if s.err != nil {
		return nil, s.err
	}
	return &http.Response{StatusCode: s.status, Status: fmt.Sprint(s.status), Body: io.NopCloser(strings.NewReader(s.body))}, nil
}

func (s *server) say(status int, body string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status, s.body, s.err = status, body, err
}

func TestHTTP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &server{}
		source := newHTTPSource(Config{URL: "http://user:secret@example/pods", Node: "node", HTTPCheck: 20 * time.Second})
		source.client.Transport = srv
		m := New(Config{Node: "node", Log: quiet()})
		m.sources["http"] = source.run
		srv.say(500, "", nil)
		ctx, cancel := context.WithCancel(t.Context())
		go m.Run(ctx)
		steps := []struct {
			name    string
			status  int
			body    string
			err     error
			want    []string
			problem bool
		}{
			{"refused-at-first", 503, "", nil, nil, true},
			{"one", 200, yamlPod("a"), nil, []string{"ADD a"}, false},
			{"the-same", 200, yamlPod("a"), nil, nil, false},
			{"down", 0, "", errors.New("connection refused"), nil, true},
			{"broken", 200, "{", nil, nil, true},
			{"two", 200, yamlPod("a") + "---\n" + yamlPod("b"), nil, []string{"ADD b"}, false},
			{"nothing", 200, "", nil, []string{"REMOVE"}, false},
			{"too-long", 200, strings.Repeat("#", 11<<20), nil, nil, true},
		}
		for _, step := range steps {
			srv.say(step.status, step.body, step.err)
			time.Sleep(20 * time.Second)
			synctest.Wait()
			var got []string
			for range len(m.updates) {
				u := <-m.updates
				text := u.Op.String()
				if u.Op != REMOVE {
					text += " " + names(u.Pods)
				}
				got = append(got, text)
			}
			if diff := cmp.Diff(step.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", step.name, diff)
			}
			problem, ok := m.Problems()["http://user:xxxxx@example/pods"]
			if ok != step.problem || strings.Contains(problem, "secret") {
				t.Errorf("%s: problem %q", step.name, problem)
			}
		}
		if want := len(steps) + 1; srv.asked != want {
			t.Errorf("asked %d times, want %d", srv.asked, want)
		}
		cancel()
		synctest.Wait()
		if _, open := <-m.Updates(); open {
			t.Error("the stream goes on")
		}
	})
}

// TestSlowLoopHoldsTheSources fills the channel and ends while a source waits.
func TestSlowLoopHoldsTheSources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(Config{Node: "node", Log: quiet()})
		ctx, cancel := context.WithCancel(t.Context())
		m.sources["file"] = func(ctx context.Context, m *Mux) {
			for i := range 2 * updateCapacity {
				m.merge(ctx, "file", []*v1.Pod{pod(fmt.Sprint(i), fmt.Sprint(i))})
			}
		}
		go m.Run(ctx)
		synctest.Wait()
		if len(m.updates) != updateCapacity {
			t.Errorf("%d updates wait", len(m.updates))
		}
		cancel()
		synctest.Wait()
		n := 0
		for range m.Updates() {
			n++
		}
		if n != updateCapacity {
			t.Errorf("%d updates came", n)
		}
	})
}

// TestAllReadyWantsEverySource has two sources of which one reports.
func TestAllReadyWantsEverySource(t *testing.T) {
	m := New(Config{Paths: []string{"/none"}, URL: "http://none", Node: "node"})
	m.AddSource("file")
	if m.AllReady() {
		t.Error("ready without http")
	}
	m.AddSource("http")
	if !m.AllReady() {
		t.Error("not ready")
	}
	if !New(Config{Node: "node"}).AllReady() {
		t.Error("not ready without sources")
	}
}

// events keeps what a recorder is told.
type events []string

func (e *events) Event(p *v1.Pod, kind, reason, message string) {
	*e = append(*e, strings.Join([]string{p.Name, kind, reason, message}, " | "))
}

func TestDroppedPodsAreAnEvent(t *testing.T) {
	var e events
	m := New(Config{Node: "node", Log: quiet(), Recorder: &e})
	a := pod("1", "a")
	m.merge(t.Context(), "file", []*v1.Pod{a, pod("2", "a")})
	if diff := cmp.Diff(events{"a | Warning | FailedValidation | a pod of this name is there already, of the same source"}, e); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	u := <-m.Updates()
	u.Pods[0].Name = "changed by the receiver"
	m.merge(t.Context(), "file", []*v1.Pod{a})
	if len(m.updates) > 0 {
		t.Errorf("the receiver's change came back: %v", text([]PodUpdate{<-m.updates}))
	}
}

// TestEarlyMistakeHoldsDeletions: the pods of a manifest that has a mistake when the agent starts may run from before, and nobody knows
// which they are.
func TestEarlyMistakeHoldsDeletions(t *testing.T) {
	dir := t.TempDir()
	broken, later := filepath.Join(dir, "a.yaml"), filepath.Join(dir, "b.yaml")
	write(t, broken, "x: [")
	s := newFiles([]string{dir}, "n1")
	for i, step := range []struct {
		do   func()
		want bool
	}{
		{func() {}, true},
		{func() { write(t, later, "x: [") }, true}, // it came later: none of its pods can run
		{func() {
			if err := os.Remove(broken); err != nil {
				t.Fatal(err)
			}
		}, false},
	} {
		step.do()
		s.read(time.Now())
		if got := s.unknown(); got != step.want {
			t.Errorf("step %d: unknown %v, want %v", i, got, step.want)
		}
	}
	m := New(Config{Node: "n1"})
	m.setUnknown(true)
	if m.AllReady() {
		t.Error("deletions are allowed")
	}
}

// TestOpenToAll: what everybody can write to says nothing of what runs as root.
func TestOpenToAll(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root's agent minds")
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "a.yaml")
	write(t, file, yamlPod("a"))
	for _, open := range []string{file, dir} {
		if err := os.Chmod(open, 0o777); err != nil {
			t.Fatal(err)
		}
		s := newFiles([]string{dir}, "n1")
		s.read(time.Now())
		if len(s.pods()) > 0 || s.problems()[open] == nil {
			t.Errorf("%s is open to all: %d pods, %v", open, len(s.pods()), s.problems())
		}
		if err := os.Chmod(open, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

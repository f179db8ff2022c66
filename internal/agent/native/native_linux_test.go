package native

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cleat-cni/cleat/internal/agent/container"
	"github.com/cleat-cni/cleat/internal/agent/images"
	"github.com/cleat-cni/cleat/internal/agent/network"
	"github.com/cleat-cni/cleat/internal/agent/spawn"
	"github.com/cleat-cni/cleat/internal/builtin"
	"github.com/cleat-cni/cleat/internal/kernel"
	"github.com/cleat-cni/cleat/internal/leases"
	"github.com/cleat-cni/cleat/internal/originals"
	gate "github.com/cleat-cni/cleat/internal/sandbox"
	"github.com/cleat-cni/cleat/libcni"
	"github.com/cleat-cni/cleat/netstate"
	"github.com/cleat-cni/cleat/planned"
	"github.com/cleat-cni/cleat/plugins"
)

// program is cleat-cni, built once for all tests.
var program = struct{ path string }{}

func TestMain(m *testing.M) {
	if os.Getenv("CLEAT_SANDBOX") != "1" {
		os.Exit(m.Run())
	}
	// In a machine without Go it was built before.
	if program.path = os.Getenv("CLEAT_TEST_PROGRAM"); program.path != "" {
		os.Exit(m.Run())
	}
	dir, err := os.MkdirTemp("", "cleat-native-")
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	program.path = filepath.Join(dir, "cleat-cni")
	build := exec.Command("go", "build", "-buildvcs=false", "-o", program.path, "github.com/cleat-cni/cleat/cmd/cleat-cni")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Printf("%v\n%s", err, out)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// node is a runtime on a host's namespace of its own.
type node struct {
	*Runtime
	root    string
	conf    string
	cni     *libcni.CNI
	images  string // folder
	changed chan types.UID
}

func newNode(t *testing.T) *node {
	t.Helper()
	gate.Require(t)
	n := &node{root: t.TempDir(), conf: t.TempDir(), images: t.TempDir()}
	conf := fmt.Sprintf(`{"cniVersion":"1.1.0","name":"pods","plugins":[
		{"type":"bridge","bridge":"cni0","isDefaultGateway":true,"ipam":{"type":"host-local","dataDir":%q,"ranges":[[{"subnet":"10.99.0.0/24"}]]}},
		{"type":"portmap","capabilities":{"portMappings":true}}]}`, filepath.Join(n.root, "leases"))
	if err := os.WriteFile(filepath.Join(n.conf, "10-pods.conflist"), []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	n.open(t)
	t.Cleanup(func() { n.cleanUp(t) })
	return n
}

// open starts a runtime on what is in the folder, as a new agent does.
func (n *node) open(t *testing.T) {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	k, err := kernel.New(kernel.Config{Log: log})
	if err != nil {
		t.Fatal(err)
	}
	store, err := leases.New(leases.Config{Log: log})
	if err != nil {
		t.Fatal(err)
	}
	runner := builtin.New(builtin.Config{Plugins: plugins.All(), Kernel: planned.Wrap(k), Leases: store, Originals: originals.Store{}, Mode: builtin.BuiltinOnly, Log: log})
	n.cni, err = libcni.New(libcni.Config{PluginDirs: []string{"/nowhere"}, StateDir: filepath.Join(n.root, "cni"), LockDir: filepath.Join(n.root, "locks"), Runner: runner, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	n.changed = make(chan types.UID, 100)
	n.Runtime, err = New(t.Context(), Config{
		Root: n.root, Program: program.path, Cgroup: fmt.Sprintf("cleat-test-%d", os.Getpid()), Log: log, Networks: network.New(network.Config{CNI: n.cni, ConfDir: n.conf, Log: log}),
		Images:  images.New(images.Config{Dirs: []string{n.images}, Root: filepath.Join(n.root, "images")}),
		Changed: func(uid types.UID) { n.changed <- uid },
	})
	if err != nil {
		t.Fatal(err)
	}
}

// cleanUp removes all pods and holds that nothing is left of them.
func (n *node) cleanUp(t *testing.T) {
	ctx := context.WithoutCancel(t.Context())
	pods, err := n.Pods(ctx)
	if err != nil {
		t.Error(err)
	}
	for _, p := range pods {
		for _, s := range p.Sandboxes {
			if err := n.RemoveSandbox(ctx, s.ID); err != nil {
				t.Errorf("remove sandbox: %v", err)
			}
		}
		if err := n.RemovePod(ctx, &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: p.Namespace, UID: p.UID}}); err != nil {
			t.Errorf("remove pod: %v", err)
		}
	}
	n.Close()
	if list, err := n.cni.Attachments(ctx); err != nil || len(list) > 0 {
		t.Errorf("attachments left: %v, %v", list, err)
	}
	for _, dir := range []string{"sandboxes", "netns", "pods", "logs"} {
		if entries, err := os.ReadDir(filepath.Join(n.root, dir)); err != nil || len(entries) > 0 {
			t.Errorf("left in %s: %v, %v", dir, entries, err)
		}
	}
	if pids, err := n.groups.Processes(n.cfg.Cgroup); err != nil || len(pids) > 0 {
		t.Errorf("processes left: %v, %v", pids, err)
	}
	if err := n.groups.Remove(ctx, n.cfg.Cgroup); err != nil {
		t.Errorf("control groups left: %v", err)
	}
	if out, err := exec.Command("find", "/sys/fs/cgroup", "-maxdepth", "2", "-name", n.cfg.Cgroup).Output(); len(out) > 0 {
		t.Errorf("control groups left: %s%v", out, err)
	}
	if out, err := exec.Command("sh", "-c", "mount | grep "+n.root).Output(); len(out) > 0 {
		t.Errorf("mounts left: %s%v", out, err)
	}
}

func pod(name string, containers ...v1.Container) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID("uid-" + name)}, Spec: v1.PodSpec{Containers: containers}}
}

func shell(name, script string) v1.Container {
	return v1.Container{Name: name, Command: []string{"sh", "-c", script}}
}

func (n *node) start(t *testing.T, p *v1.Pod, sandboxID string, i int) (string, error) {
	t.Helper()
	c := &p.Spec.Containers[i]
	return n.StartContainer(t.Context(), container.Start{Pod: p, SandboxID: sandboxID, Container: c, Command: c.Command, Args: c.Args})
}

func (n *node) status(t *testing.T, p *v1.Pod) *container.PodStatus {
	t.Helper()
	st, err := n.PodStatus(t.Context(), p.UID)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// run makes a pod with all of its containers.
func (n *node) run(t *testing.T, p *v1.Pod) string {
	t.Helper()
	id, err := n.CreateSandbox(t.Context(), p, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i := range p.Spec.Containers {
		if _, err := n.start(t, p, id, i); err != nil {
			t.Fatal(err)
		}
	}
	return id
}

// await waits until something of the pod ends.
func (n *node) await(t *testing.T, p *v1.Pod) {
	t.Helper()
	for {
		select {
		case uid := <-n.changed:
			if uid == p.UID {
				return
			}
		case <-t.Context().Done():
			t.Fatal("nothing ended")
		}
	}
}

func TestPodRunsAndEnds(t *testing.T) {
	n := newNode(t)
	p := pod("web", shell("job", "echo $HOSTNAME; hostname; ip -o -4 addr show eth0 | grep -o '10.99.0.[0-9]*'; exit 7"))
	id := n.run(t, p)
	n.await(t, p)
	st := n.status(t, p)
	if len(st.IPs) != 1 || !netip.MustParsePrefix("10.99.0.0/24").Contains(st.IPs[0]) || st.Sandboxes[0].State != container.StateRunning {
		t.Errorf("sandbox: %+v", st.Sandboxes)
	}
	c := st.FindContainer("job")
	if c.State != container.StateExited || c.ExitCode != 7 || c.Reason != "Error" || c.StartedAt.IsZero() || c.FinishedAt.Before(c.StartedAt.Add(-time.Second)) {
		t.Errorf("container: %+v", c)
	}
	log, err := os.ReadFile(c.LogPath)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(string(log), "web\n"); got != 2 || !strings.Contains(string(log), st.IPs[0].String()) {
		t.Errorf("log:\n%s", log)
	}
	for range 2 {
		if err := n.StopSandbox(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	st = n.status(t, p)
	if st.Sandboxes[0].State != container.StateExited || len(st.IPs) > 0 {
		t.Errorf("after the stop: %+v", st)
	}
	if list, err := n.cni.Attachments(t.Context()); err != nil || len(list) > 0 {
		t.Errorf("still attached: %v, %v", list, err)
	}
}

func TestStopContainer(t *testing.T) {
	n := newNode(t)
	p := pod("stop", shell("polite", "trap 'exit 3' TERM; echo up; while :; do sleep 0.01; done"), shell("deaf", "trap '' TERM; echo up; sleep 600 & sleep 600"))
	n.run(t, p)
	st := n.status(t, p)
	polite, deaf := st.FindContainer("polite"), st.FindContainer("deaf")
	for _, path := range []string{polite.LogPath, deaf.LogPath} {
		for { // it has set its trap
			if data, err := os.ReadFile(path); err == nil && strings.Contains(string(data), "up") {
				break
			}
		}
	}
	if err := n.StopContainer(t.Context(), polite.ID, time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := n.StopContainer(t.Context(), deaf.ID, 50*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	st = n.status(t, p)
	if c := st.FindContainer("polite"); c.ExitCode != 3 {
		t.Errorf("the polite one ended with %d", c.ExitCode)
	}
	if c := st.FindContainer("deaf"); c.ExitCode != 137 {
		t.Errorf("the deaf one ended with %d", c.ExitCode)
	}
	if err := n.StopContainer(t.Context(), "none", 0); err != nil {
		t.Errorf("one that is not there: %v", err)
	}
}

// TestMountsInVolumes: what somebody mounted in a pod's volume is not the pod's, and stays.
func TestMountsInVolumes(t *testing.T) {
	n := newNode(t)
	p := pod("mounts", shell("main", "sleep 600"))
	p.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}}
	id := n.run(t, p)
	kept := t.TempDir()
	if err := os.WriteFile(filepath.Join(kept, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	sub := filepath.Join(n.podDir(p.UID), volumesDir, "v", "sub")
	if err := os.Mkdir(sub, 0o755); err != nil {
		t.Fatal(err)
	}
	for range 2 { // one on top of the other
		if err := unix.Mount(kept, sub, "", unix.MS_BIND, ""); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(n.RemoveSandbox(t.Context(), id), n.RemovePod(t.Context(), p)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(kept, "file")); err != nil {
		t.Error(err)
	}
}

// TestNewAgentAdopts: pods go on while no agent runs, and a new one knows how they stand.
func TestNewAgentAdopts(t *testing.T) {
	n := newNode(t)
	p := pod("adopt", shell("lives", "sleep 600"), shell("ends", "read x < $FIFO; exit 5"))
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	p.Spec.Containers[1].Command[2] = "read x < " + fifo + "; exit 5"
	n.run(t, p)
	before := n.status(t, p)
	n.Close()
	if err := os.WriteFile(fifo, []byte("end\n"), 0); err != nil { // while no agent is there
		t.Fatal(err)
	}
	monitor := n.findContainer(before.FindContainer("ends").ID).rec.Monitor
	if err := monitor.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	n.open(t)
	after := n.status(t, p)
	if diff := cmp.Diff(before.Sandboxes, after.Sandboxes, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Errorf("sandbox (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(before.FindContainer("lives"), after.FindContainer("lives")); diff != "" {
		t.Errorf("the one that lives (-before +after):\n%s", diff)
	}
	if c := after.FindContainer("ends"); c.State != container.StateExited || c.ExitCode != 5 {
		t.Errorf("the one that ended meanwhile: %+v", c)
	}
}

// TestKilledProcesses: of whatever is killed something says so, and StopSandbox takes the rest down.
func TestKilledProcesses(t *testing.T) {
	for _, tt := range []struct {
		name string
		who  func(n *node, s *sandbox, c *ctr) spawn.Identity
		want string
	}{
		{"pause", func(_ *node, s *sandbox, _ *ctr) spawn.Identity { return s.rec.Pause }, "exited exited 137"},
		{"monitor", func(_ *node, _ *sandbox, c *ctr) spawn.Identity { return c.rec.Monitor }, "running running 0"},
		{"container", func(_ *node, _ *sandbox, c *ctr) spawn.Identity { return c.rec.Process }, "running exited 137"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := newNode(t)
			p := pod("killed", shell("main", "sleep 600"))
			id := n.run(t, p)
			c := n.findContainer(n.status(t, p).FindContainer("main").ID)
			victim := tt.who(n, n.find(id), c)
			if err := victim.Signal(unix.SIGKILL); err != nil {
				t.Fatal(err)
			}
			if err := victim.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(tt.want, "running running") {
				<-c.done
			}
			if tt.name == "pause" {
				<-n.find(id).done
			}
			st := n.status(t, p)
			main := st.FindContainer("main")
			if got := fmt.Sprintf("%s %s %d", st.Sandboxes[0].State, main.State, main.ExitCode); got != tt.want {
				t.Errorf("sandbox and container: %s, want %s", got, tt.want)
			}
			if err := n.StopSandbox(t.Context(), id); err != nil {
				t.Error(err)
			}
			if st := n.status(t, p); st.FindContainer("main").State != container.StateExited {
				t.Errorf("after the stop: %+v", st)
			}
		})
	}
}

// TestSandboxThatEnds: the sandbox counts as ended as soon as its containers do, although its pause process waits for the last of them.
func TestSandboxThatEnds(t *testing.T) {
	n := newNode(t)
	p := pod("ends", shell("main", "sleep 600"), shell("held", "sleep 600"))
	id := n.run(t, p)
	st := n.status(t, p)
	main, held := n.findContainer(st.FindContainer("main").ID), n.findContainer(st.FindContainer("held").ID)
	if err := held.rec.Monitor.Signal(unix.SIGSTOP); err != nil { // nobody reaps its process
		t.Fatal(err)
	}
	pause := n.find(id).rec.Pause
	if err := pause.Signal(unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-main.done
	select {
	case <-n.find(id).done:
		t.Error("the pause process does not wait: this proves nothing")
	default:
	}
	if st := n.status(t, p); st.Sandboxes[0].State != container.StateExited || st.FindContainer("main").State != container.StateExited {
		t.Errorf("status %+v", st)
	}
	if err := held.rec.Monitor.Signal(unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
}

// TestFailedSandboxLeavesNothing holds that of each step that fails nothing is left.
func TestFailedSandboxLeavesNothing(t *testing.T) {
	for _, tt := range []struct {
		name  string
		spoil func(t *testing.T, n *node, p *v1.Pod)
		want  string
	}{
		{"no-network", func(t *testing.T, n *node, _ *v1.Pod) {
			if err := os.Remove(n.conf + "/10-pods.conflist"); err != nil {
				t.Fatal(err)
			}
			n.cfg.Networks = network.New(network.Config{CNI: n.cni, ConfDir: n.conf})
		}, "network is not ready: no network is configured"},
		{"bad-sysctl", func(_ *testing.T, _ *node, p *v1.Pod) {
			p.Spec.SecurityContext = &v1.PodSecurityContext{Sysctls: []v1.Sysctl{{Name: "net.core.nothing", Value: "1"}}}
		}, "net.core.nothing"},
		{"bad-annotation", func(_ *testing.T, _ *node, p *v1.Pod) {
			p.Annotations = map[string]string{annotationIngress: "fast"}
		}, "no rate"},
		{"no-program", func(_ *testing.T, n *node, _ *v1.Pod) { n.cfg.Program = "/does/not/exist" }, "/does/not/exist"},
		{"port-taken", func(t *testing.T, n *node, p *v1.Pod) {
			other := pod("other")
			port := []v1.ContainerPort{{HostPort: 8080, ContainerPort: 80, Protocol: v1.ProtocolTCP}}
			other.Spec.Containers = []v1.Container{{Name: "a", Ports: port}}
			p.Spec.Containers = []v1.Container{{Name: "a", Ports: port}}
			_, err := n.CreateSandbox(t.Context(), other, 0)
			if errors.Is(err, netstate.ErrUnsupported) {
				gate.Need(t, "nft", err.Error())
			}
			if err != nil {
				t.Fatal(err)
			}
		}, "8080"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := newNode(t)
			p := pod("fails")
			tt.spoil(t, n, p)
			_, err := n.CreateSandbox(t.Context(), p, 0)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("create: %v, want %q", err, tt.want)
			}
			if _, again := n.CreateSandbox(t.Context(), p, 0); fmt.Sprint(again) != fmt.Sprint(err) {
				t.Errorf("create again: %v, want the same as before: %v", again, err)
			}
			if st := n.status(t, p); len(st.Sandboxes) > 0 {
				t.Errorf("left: %+v", st)
			}
			list, err := n.cni.Attachments(t.Context())
			if err != nil || slices.ContainsFunc(list, func(a *libcni.NetworkAttachment) bool { return strings.Contains(a.Args.String(), "=fails") }) {
				t.Errorf("attached: %v, %v", list, err)
			}
			if err := n.RemovePod(t.Context(), p); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestSandboxOfADeadAgent: a sandbox that was being made when its agent died is one that has ended, and is taken down.
func TestSandboxOfADeadAgent(t *testing.T) {
	n := newNode(t)
	p := pod("half")
	s := &sandbox{done: make(chan struct{}), rec: sandboxRecord{ID: newID(), UID: p.UID, Name: p.Name, Namespace: p.Namespace, CreatedAt: now(), Boot: n.boot}}
	if err := n.update(s, func(*sandboxRecord) {}); err != nil {
		t.Fatal(err)
	}
	ns, err := n.connect(t.Context(), s, withFiles(t, n, p))
	if err != nil {
		t.Fatal(err)
	}
	ns.Close()
	n.Close() // and here it dies
	n.open(t)
	st := n.status(t, p)
	if len(st.Sandboxes) != 1 || st.Sandboxes[0].State != container.StateExited {
		t.Fatalf("sandboxes: %+v", st.Sandboxes)
	}
	if err := n.StopSandbox(t.Context(), s.rec.ID); err != nil {
		t.Fatal(err)
	}
	if list, err := n.cni.Attachments(t.Context()); err != nil || len(list) > 0 {
		t.Errorf("attached: %v, %v", list, err)
	}
}

func withFiles(t *testing.T, n *node, p *v1.Pod) *v1.Pod {
	t.Helper()
	if err := n.makePodFiles(p); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestStartErrors(t *testing.T) {
	n := newNode(t)
	p := pod("bad", v1.Container{Name: "empty"}, v1.Container{Name: "missing", Command: []string{"/does/not/exist"}}, v1.Container{Name: "image", Image: "web:1"})
	id, err := n.CreateSandbox(t.Context(), p, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{container.ReasonConfig, container.ReasonRun, container.ReasonImagePull} {
		_, err := n.start(t, p, id, i)
		if err == nil || container.Reason(err) != want {
			t.Errorf("%s: %v, reason %s, want %s", p.Spec.Containers[i].Name, err, container.Reason(err), want)
		}
		c := n.status(t, p).FindContainer(p.Spec.Containers[i].Name)
		if want != container.ReasonRun {
			if c != nil {
				t.Errorf("%s: status %+v, want none: it would count as a crash", p.Spec.Containers[i].Name, c)
			}
			continue
		}
		if c == nil || c.State != container.StateExited || c.Message == "" || c.Reason != "ContainerCannotRun" {
			t.Errorf("%s: status %+v", p.Spec.Containers[i].Name, c)
		}
	}
	if _, err := n.start(t, p, "none", 1); err == nil {
		t.Error("a container in no sandbox was started")
	}
}

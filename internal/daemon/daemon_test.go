package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
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

	"github.com/cleat-cni/cleat/internal/agent"
	"github.com/cleat-cni/cleat/internal/agent/container"
	"github.com/cleat-cni/cleat/internal/agent/metrics"
	"github.com/cleat-cni/cleat/internal/agent/server"
	"github.com/cleat-cni/cleat/internal/agent/status"
)

var update = flag.Bool("update", false, "rewrite golden files")

// stage is a command line, and an agent as far as its socket shows one.
type stage struct {
	t      *testing.T
	root   string
	status *status.Manager
	events *status.Recorder

	mu       sync.Mutex
	pods     []v1.Pod
	problems server.Problems
}

// newStage has the pod web, which runs, and kube-system/dns, which can't be connected.
func newStage(t *testing.T) *stage {
	quiet := slog.New(slog.DiscardHandler)
	s := &stage{t: t, root: t.TempDir(), status: status.NewManager(quiet), events: status.NewRecorder(quiet), problems: server.Problems{Manifests: map[string]string{}, Networks: map[string]string{}}}
	web := podWith(v1.PodStatus{Phase: v1.PodRunning, PodIP: "10.0.0.7", PodIPs: []v1.PodIP{{IP: "10.0.0.7"}, {IP: "fd00::7"}}, StartTime: &metav1.Time{Time: clock()},
		ContainerStatuses: []v1.ContainerStatus{statusOf("httpd", runs(), true)}})
	web.Name, web.Namespace, web.UID, web.Spec.NodeName = "web-n1", "default", "u1", "N1"
	web.Annotations = map[string]string{sourceAnnotation: "file"}
	dns := podWith(v1.PodStatus{Phase: v1.PodPending, ContainerStatuses: []v1.ContainerStatus{statusOf("dns", waits("ContainerCreating"), false)},
		Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionFalse, Reason: "ContainersNotReady", Message: "containers with unready status: [dns]"}}})
	dns.Name, dns.Namespace, dns.UID, dns.Spec.NodeName = "dns-n1", "kube-system", "u2", "N1"
	s.events.Event(dns, v1.EventTypeWarning, "FailedCreatePodSandBox", "network pods (/etc/cni/net.d/10.conflist): bridge: apply: cni0 is no bridge; name another one")
	s.pods = []v1.Pod{*web, *dns}
	meter := metrics.New()
	srv, err := server.New(server.Config{
		Socket: agent.Socket(s.root), Manifests: filepath.Join(s.root, "manifests"), Node: "n1", Log: quiet, Changes: s.status.Changes, Events: s.eventsOf,
		Pods:     func() []v1.Pod { s.mu.Lock(); defer s.mu.Unlock(); return append([]v1.Pod(nil), s.pods...) },
		Problems: func() server.Problems { s.mu.Lock(); defer s.mu.Unlock(); return s.problems },
		Healthy:  func() error { return nil }, Ready: func() error { return nil },
		Logs: func(_ context.Context, _ types.UID, _ string, previous bool) (string, bool, error) {
			if previous {
				return "", false, errors.New("container httpd has not run before")
			}
			return filepath.Join(s.root, "0.log"), false, nil
		},
		Exec: func(_ context.Context, _ types.UID, name string, command container.Command) (int, error) {
			fmt.Fprintf(command.Stdout, "%s ran %q\n", name, command.Args)
			if command.Stdin != nil {
				if _, err := io.Copy(command.Stderr, command.Stdin); err != nil {
					return 0, err
				}
			}
			return len(command.Args), nil
		},
		Timings: meter.Timings, Metrics: meter.Handler(),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := srv.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
	return s
}

// eventsOf are events that have just happened.
func (s *stage) eventsOf(uid types.UID) []status.Event {
	list := s.events.Events(uid)
	for i := range list {
		list[i].First, list[i].Last = clock(), clock()
	}
	return list
}

// change changes what the agent has.
func (s *stage) change(f func()) {
	s.mu.Lock()
	f()
	s.mu.Unlock()
	s.status.SetPodStatus(&v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "x"}}, v1.PodStatus{Message: fmt.Sprint(time.Now())}) // wakes who watches
}

// output is what a command printed.
type printed struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (p *printed) Write(data []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.buf.Write(data)
}

func (p *printed) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.buf.String()
}

// start runs a command whose output can be looked at meanwhile.
func (s *stage) start(ctx context.Context, out *printed, stdin string, args ...string) (status int, stderr string) {
	var errs bytes.Buffer
	status = Main(ctx, Config{Args: append([]string{args[0], "--root", s.root}, args[1:]...), Name: "cleat", Stdin: strings.NewReader(stdin), Stdout: out, Stderr: &errs,
		Version: "v1.2.3", Now: clock})
	return status, errs.String()
}

// expect runs a command and compares its exit status, and what it printed on both streams.
func (s *stage) expect(status int, want, wantErr string, args ...string) {
	s.t.Helper()
	var out printed
	got, errs := s.start(s.t.Context(), &out, manifestOfDB, args...)
	if got != status {
		s.t.Errorf("%q: status %d, want %d", args, got, status)
	}
	if diff := cmp.Diff(want, out.String()); diff != "" {
		s.t.Errorf("%q (-want +got):\n%s", args, diff)
	}
	if diff := cmp.Diff(wantErr, errs); diff != "" {
		s.t.Errorf("%q, standard error (-want +got):\n%s", args, diff)
	}
}

const manifestOfDB = `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "db"}, "spec": {"containers": [{"name": "main", "command": ["sleep", "600"]}]}}`

// TestHelp keeps the help of each command as it was agreed on. -update rewrites the files.
func TestHelp(t *testing.T) {
	root := (&app{cfg: Config{Name: "cleat"}}).command()
	pods, _, err := root.Find([]string{"pods"})
	if err != nil {
		t.Fatal(err)
	}
	commands := [][]string{{"agent"}, {"pods"}}
	for _, name := range commandNames(pods) {
		commands = append(commands, []string{"pods", name})
	}
	s := &stage{t: t, root: agent.DefaultRoot}
	for _, command := range commands {
		t.Run(strings.Join(command, "-"), func(t *testing.T) {
			var out printed
			if status, stderr := s.start(t.Context(), &out, "", append(command, "--help")...); status != 0 || stderr != "" {
				t.Fatalf("status %d, stderr %q", status, stderr)
			}
			got := out.String()
			if !strings.Contains(got, "Examples:\n") {
				t.Error("no example")
			}
			golden := filepath.Join("testdata", "help", strings.Join(command, "-")+".txt")
			if *update {
				if err := os.MkdirAll(filepath.Dir(golden), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestList(t *testing.T) {
	s := newStage(t)
	const row = "NAME     READY   STATUS    RESTARTS   AGE   IP         NODE\nweb-n1   1/1     Running   0          0s    10.0.0.7   N1\n"
	s.expect(0, row, "", "pods")
	s.expect(0, row, "", "pods", "list")
	s.expect(0, `NAMESPACE     NAME     READY   STATUS              RESTARTS   AGE   IP         NODE   IPS                UID   SOURCE
default       web-n1   1/1     Running             0          0s    10.0.0.7   N1     10.0.0.7,fd00::7   u1    file
kube-system   dns-n1   0/1     ContainerCreating   0          -     -          N1     -                  u2    -
`, "", "pods", "-A", "-o", "wide")
	s.expect(0, "no pods in namespace other; there are 2 in others: -A shows them\n", "", "pods", "list", "-n", "other")
	s.expect(2, "", "cleat: -n and -A exclude each other\n", "pods", "-A", "-n", "other")
	s.expect(2, "", "cleat: unknown command \"descripe\"\nhint: did you mean describe?\n", "pods", "descripe")

	var out printed
	if code, errs := s.start(t.Context(), &out, "", "pods", "-o", "json"); code != 0 {
		t.Fatal(errs)
	}
	var list v1.PodList
	if err := json.Unmarshal([]byte(out.String()), &list); err != nil || list.Kind != "PodList" || list.APIVersion != "v1" || len(list.Items) != 1 ||
		list.Items[0].Status.PodIP != "10.0.0.7" || len(list.Items[0].Status.PodIPs) != 2 {
		t.Errorf("%v: %s", err, out.String())
	}
	s.problems.Manifests["/etc/x.yaml"], s.problems.Manifests["http://a/"] = "/etc/x.yaml:3: a tab", "404"
	s.problems.Networks["/etc/cni/net.d/10.conflist"] = "/etc/cni/net.d/10.conflist:4:1: unexpected end"
	s.expect(0, row, "\nManifests that are not read:\n  /etc/x.yaml:3: a tab\n  http://a/: 404\n\nNetworks with a problem:\n  /etc/cni/net.d/10.conflist:4:1: unexpected end\n", "pods")
}

func TestListWithoutAgent(t *testing.T) {
	s := &stage{t: t, root: t.TempDir()}
	s.expect(1, "", "cleat: no agent runs here (nobody answers at "+agent.Socket(s.root)+")\nhint: start one: cleat agent --manifests DIR; or name its folder with --root\n", "pods")
}

// until waits until what a command printed holds a text.
func until(t *testing.T, out *printed, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !strings.Contains(out.String(), text) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("no %q in %q", text, out.String())
		}
	}
}

func TestWatch(t *testing.T) {
	for _, tt := range []struct {
		name  string
		args  []string
		marks [4]string // of each change
		want  string
	}{
		{"table", []string{"pods", "--watch"}, [4]string{"Running", "Error", "ContainerCreating", "Deleted"},
			`NAME                       READY   STATUS               RESTARTS       AGE     IP                NODE
web-n1                     1/1     Running              0              0s      10.0.0.7          N1
web-n1                     0/1     Error                0              0s      10.0.0.7          N1
api-n1                     0/1     ContainerCreating    0              -       -                 N1
web-n1                     0/1     Deleted              0              0s      10.0.0.7          N1
`},
		{"json", []string{"pods", "list", "-w", "-o", "json"}, [4]string{"ADDED", "MODIFIED", `"api-n1"`, "DELETED"}, ""},
		{"yaml", []string{"pods", "list", "-w", "-o", "yaml"}, [4]string{"---\ntype: ADDED", "---\ntype: MODIFIED", "api-n1", "---\ntype: DELETED"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newStage(t)
			ctx, cancel := context.WithCancel(t.Context())
			var out printed
			var wg sync.WaitGroup
			wg.Go(func() {
				if code, errs := s.start(ctx, &out, "", tt.args...); code != 0 || errs != "" {
					t.Errorf("status %d: %s", code, errs)
				}
			})
			until(t, &out, tt.marks[0])
			s.change(func() {
				s.pods[0].Status.ContainerStatuses = []v1.ContainerStatus{statusOf("httpd", ends(1, "Error"), false)}
			})
			until(t, &out, tt.marks[1])
			s.change(func() {
				api := s.pods[1]
				api.Name, api.Namespace, api.UID = "api-n1", "default", "u3"
				s.pods = append(s.pods, api)
			})
			until(t, &out, tt.marks[2])
			s.change(func() { s.pods = s.pods[1:] })
			until(t, &out, tt.marks[3])
			cancel()
			wg.Wait()
			if diff := cmp.Diff(tt.want, out.String()); tt.want != "" && diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestDescribe(t *testing.T) {
	s := newStage(t)
	s.problems.Manifests["/etc/x.yaml"] = "/etc/x.yaml:3: a tab"
	s.expect(0, `Name:              dns-n1
Namespace:         kube-system
UID:               u2
Node:              N1
Status:            ContainerCreating
Ready:             0/1
IPs:               none
Containers:
  dns:
    Image:         none, a command of the host
    State:         Waiting, ContainerCreating
    Ready:         false
    Restart Count: 0
Conditions:
  Ready:                     False, ContainersNotReady: containers with unready status: [dns]

Events:
LAST SEEN   TYPE      REASON                   COUNT   MESSAGE
0s          Warning   FailedCreatePodSandBox   1       network pods (/etc/cni/net.d/10.conflist): bridge: apply: cni0 is no bridge; name another one

Manifests that are not read:
  /etc/x.yaml:3: a tab
`, "", "pods", "describe", "kube-system/dns")
	for _, tt := range []struct{ name, want string }{
		{"wep", "cleat: no pod default/wep\nhint: did you mean web?\n"},
		{"dns", "cleat: no pod default/dns\nhint: there is one in namespace kube-system: kube-system/dns\n"},
		{"other/x", "cleat: no pod other/x\nhint: some manifests are not read: see cleat pods describe\n"},
	} {
		s.expect(1, "", tt.want, "pods", "describe", tt.name)
	}
	s.expect(2, "", "cleat: \"/web\" is neither NAME nor NAMESPACE/NAME\n", "pods", "describe", "/web")
	s.expect(2, "", "cleat: -n a and b/c name two namespaces\n", "pods", "describe", "-n", "a", "b/c")

	var out printed
	if code, errs := s.start(t.Context(), &out, "", "pods", "describe", "-A", "-o", "json"); code != 0 {
		t.Fatal(errs)
	}
	var d description
	if err := json.Unmarshal([]byte(out.String()), &d); err != nil || len(d.Items) != 2 || len(d.Items[1].Events) != 1 || d.Items[0].Events == nil || len(d.Problems.Manifests) != 1 {
		t.Errorf("%v: %s", err, out.String())
	}
}

func TestEvents(t *testing.T) {
	s := newStage(t)
	s.expect(0, "no events\n", "", "pods", "events")
	s.expect(0, "no events\n", "", "pods", "events", "web")
	s.expect(0, `LAST SEEN   TYPE      REASON                   POD                  COUNT   MESSAGE
0s          Warning   FailedCreatePodSandBox   kube-system/dns-n1   1       network pods (/etc/cni/net.d/10.conflist): bridge: apply: cni0 is no bridge; name another one
`, "", "pods", "events", "-A")
	s.expect(1, "", "cleat: events: no pod default/wep\nhint: did you mean web?\n", "pods", "events", "wep")
	s.expect(0, "[]\n", "", "pods", "events", "-o", "json")
	s.change(func() { s.pods = s.pods[:1] })
	s.expect(1, "", "cleat: no pod kube-system/dns any more\nhint: cleat pods events kube-system/dns shows what happened to it\n", "pods", "describe", "kube-system/dns")
}

func TestApplyAndDelete(t *testing.T) {
	s := newStage(t)
	file := filepath.Join(s.root, "db.json")
	if err := os.WriteFile(file, []byte(manifestOfDB), 0o600); err != nil {
		t.Fatal(err)
	}
	s.expect(0, "pod default/db-n1 created (dry run)\n", "", "pods", "apply", "--dry-run", "-f", file)
	s.expect(0, "pod default/db-n1 created\n", "", "pods", "apply", "-f", "-") // standard input is the same
	s.expect(0, "pod default/db-n1 unchanged\n", "", "pods", "apply", "-f", file)
	s.expect(2, "", "cleat: -f is missing\nhint: name a manifest: -f FILE, or -f - for standard input\n", "pods", "apply")
	if err := os.WriteFile(file, []byte("kind: Pod\napiVersion: v1\nmetadata: {name: x}\nspec: {containers: [{name: a, comand: [b]}]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.expect(1, "", "cleat: apply: "+file+":4: pod x: spec.containers[0].comand: unknown field, did you mean command?\n", "pods", "apply", "-f", file)

	s.expect(0, "pod default/db deleted (dry run)\n", "", "pods", "delete", "db", "--dry-run")
	s.expect(1, "pod default/db deleted\n",
		"cleat: delete: no pod default/wep; delete: pod default/web was not applied here: remove it from its manifest\nhint: did you mean web?\n",
		"pods", "delete", "wep", "db", "web")
	s.expect(2, "", "cleat: requires at least 1 arg(s), only received 0\n", "pods", "delete")
}

func TestLogs(t *testing.T) {
	s := newStage(t)
	const stamp = "2026-01-02T03:04:05.6Z"
	if err := os.WriteFile(filepath.Join(s.root, "0.log"), []byte(stamp+" stdout F one\n"+stamp+" stderr F two\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.expect(0, "one\ntwo\n", "", "pods", "logs", "web")
	s.expect(0, "one\ntwo\n", "", "pods", "logs", "default/web-n1", "-f", "-c", "httpd")
	s.expect(0, stamp+" two\n", "", "pods", "logs", "web", "--tail", "1", "--timestamps")
	s.expect(1, "", "cleat: logs: container httpd has not run before\n", "pods", "logs", "web", "--previous")
	s.expect(1, "", "cleat: logs: pod default/web-n1 has no container \"no\"; it has [httpd]\n", "pods", "logs", "web", "-c", "no")
	s.expect(1, "", "cleat: logs: no pod default/wep\nhint: did you mean web?\n", "pods", "logs", "wep")
	s.expect(2, "", "cleat: --tail -2 is no number of lines\n", "pods", "logs", "web", "--tail", "-2")
}

func TestExec(t *testing.T) {
	s := newStage(t)
	s.expect(3, "httpd ran [\"ls\" \"-l\" \"/\"]\n", "", "pods", "exec", "web", "-c", "httpd", "--", "ls", "-l", "/")
	s.expect(1, "httpd ran [\"ls\"]\n", "", "pods", "exec", "web", "ls")
	s.expect(2, "httpd ran [\"cat\" \"-\"]\n", manifestOfDB, "pods", "exec", "-i", "web", "--", "cat", "-")
	s.expect(2, "{\n  \"code\": 2,\n  \"output\": \"httpd ran [\\\"cat\\\" \\\"-\\\"]\\n\"\n}\n", "", "pods", "exec", "web", "-o", "json", "--", "cat", "-")
	const usage = "cleat: one NAME, and a command after --, are needed\nhint: usage: cleat pods exec NAME -- COMMAND [ARGUMENT...] [flags]\n"
	s.expect(2, "", usage, "pods", "exec", "web")
	s.expect(2, "", usage, "pods", "exec", "web", "ls", "--", "-l")
	s.expect(1, "", "cleat: exec: no pod default/wep\nhint: did you mean web?\n", "pods", "exec", "wep", "--", "ls")
}

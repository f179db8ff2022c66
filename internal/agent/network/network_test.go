package network

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cleat-cni/cleat/cni"
	"github.com/cleat-cni/cleat/libcni"
)

// runner is a libcni.Runner whose plugins all give one address of each family and remember who has it.
type runner struct {
	mu       sync.Mutex
	attached map[string]json.RawMessage // by type, container and interface: the request
	fails    map[string]error           // by verb and type
	verbs    []string
}

func (r *runner) Find(typ string, _ []string) (string, error) {
	if typ == "nowhere" {
		return "", cni.Errorf(cni.CodeInvalidEnvironment, "find %s: %w", typ, os.ErrNotExist)
	}
	return "/fake/" + typ, nil
}

func (r *runner) Run(_ context.Context, calls []libcni.Call) ([][]byte, error) {
	c := calls[0]
	r.mu.Lock()
	defer r.mu.Unlock()
	r.verbs = append(r.verbs, fmt.Sprintf("%s %s %s", c.Verb, c.Type, c.IfName))
	if err := r.fails[string(c.Verb)+" "+c.Type]; err != nil {
		return nil, err
	}
	key := c.Type + "/" + c.ContainerID + "/" + c.IfName
	switch c.Verb {
	case cni.VerbAdd:
		raw, err := json.Marshal(map[string]any{"conf": json.RawMessage(c.Stdin()), "args": c.Args.String()})
		if err != nil {
			return nil, err
		}
		r.attached[key] = raw
		if c.Type == "loopback" {
			return [][]byte{[]byte(`{"cniVersion":"1.0.0"}`)}, nil
		}
		return [][]byte{[]byte(`{"cniVersion":"1.0.0","ips":[{"address":"10.1.0.5/16"},{"address":"10.1.0.6/16"},{"address":"fd00::5/64"}]}`)}, nil
	case cni.VerbDel:
		delete(r.attached, key)
	case cni.VerbVersion:
		return [][]byte{[]byte(`{"cniVersion":"1.1.0","supportedVersions":["1.0.0","1.1.0"]}`)}, nil
	}
	return [][]byte{nil}, nil
}

// bed is a manager over a runner, with a folder of configurations.
type bed struct {
	*Manager
	runner *runner
	conf   string
}

func newBed(t *testing.T, files map[string]string) *bed {
	t.Helper()
	b := &bed{runner: &runner{attached: map[string]json.RawMessage{}, fails: map[string]error{}}, conf: t.TempDir()}
	for name, text := range files {
		b.write(t, name, text)
	}
	dir := t.TempDir()
	log := slog.New(slog.DiscardHandler)
	c, err := libcni.New(libcni.Config{PluginDirs: []string{dir}, StateDir: dir + "/state", LockDir: dir + "/locks", Runner: b.runner, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	b.Manager = New(Config{CNI: c, ConfDir: b.conf, Log: log, Ranges: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}})
	return b
}

func (b *bed) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(b.conf, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func conflist(name, typ string) string {
	return fmt.Sprintf(`{"cniVersion":"1.1.0","name":%q,"plugins":[{"type":%q,"capabilities":{"portMappings":true,"ipRanges":true,"ips":true,"bandwidth":true}}]}`, name, typ)
}

func pod() *Pod {
	return &Pod{Namespace: "default", Name: "web", UID: "u-1", SandboxID: "s1", NetNS: "/proc/self/ns/net",
		Ports: []cni.PortMapping{{HostPort: 8080, ContainerPort: 80, Protocol: "tcp"}}}
}

func TestSetUpAndTearDown(t *testing.T) {
	b := newBed(t, map[string]string{"10-main.conflist": conflist("main", "mainplugin"), "20-st.conflist": conflist("storage", "stplugin")})
	p := pod()
	p.Networks = []Selection{{Name: "storage", IPs: []string{"10.9.0.9/24"}, Args: cni.Args{{"X", "1"}}}}
	plan, err := b.Plan(p)
	if err != nil {
		t.Fatal(err)
	}
	want := []Attachment{{"cni-loopback", "lo"}, {"main", "eth0"}, {"storage", "net1"}}
	if diff := cmp.Diff(want, plan); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
	addrs, err := b.SetUpPod(t.Context(), p, plan)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(addrs); got != "[10.1.0.5 fd00::5 10.1.0.6]" {
		t.Errorf("addresses %s: the first of each family comes first", got)
	}
	main, st := string(b.runner.attached["mainplugin/s1/eth0"]), string(b.runner.attached["stplugin/s1/net1"])
	for _, part := range []string{`"portMappings":[{"hostPort":8080`, `"ipRanges":[[{"subnet":"10.1.0.0/16"}]]`, "K8S_POD_NAME=web", "K8S_POD_INFRA_CONTAINER_ID=s1", "IgnoreUnknown=1"} {
		if !strings.Contains(main, part) {
			t.Errorf("the default network was not told %s:\n%s", part, main)
		}
	}
	if !strings.Contains(st, `"ips":["10.9.0.9/24"]`) || !strings.Contains(st, "X=1") || strings.Contains(st, "portMappings\":[{") {
		t.Errorf("the other network was told:\n%s", st)
	}
	if got, err := b.GetPodNetworkStatus("s1"); err != nil || fmt.Sprint(got) != fmt.Sprint(addrs) {
		t.Errorf("status: %v, %v, want %v", got, err, addrs)
	}
	// Neither configuration nor namespace is needed any more.
	if err := os.RemoveAll(b.conf); err != nil {
		t.Fatal(err)
	}
	b.look(t.Context())
	for range 2 {
		if err := b.TearDownPod(t.Context(), "s1", plan); err != nil {
			t.Fatal(err)
		}
	}
	if len(b.runner.attached) > 0 {
		t.Errorf("left: %v", b.runner.attached)
	}
}

func TestFailedSetUpIsUndone(t *testing.T) {
	b := newBed(t, map[string]string{"10-main.conflist": conflist("main", "mainplugin"), "20-st.conflist": conflist("storage", "stplugin")})
	b.runner.fails["ADD stplugin"] = cni.Errorf(cni.CodeTryAgain, "no more addresses").WithHint("widen the range")
	p := pod()
	p.Networks = []Selection{{Name: "storage"}}
	plan, err := b.Plan(p)
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.SetUpPod(t.Context(), p, plan)
	if err == nil || cni.CodeOf(err) != cni.CodeTryAgain || !strings.Contains(err.Error(), "network storage ("+b.conf+"/20-st.conflist)") ||
		!strings.HasSuffix(err.Error(), "no more addresses; widen the range") {
		t.Errorf("error: %v, want the network, its file, the code and what to do", err)
	}
	if len(b.runner.attached) > 0 {
		t.Errorf("left: %v", b.runner.attached)
	}
}

func TestFolderKeepsTheLastGood(t *testing.T) {
	b := newBed(t, nil)
	step := func(what, status string) {
		t.Helper()
		b.look(t.Context())
		err := b.Status()
		if status == "" && err != nil || status != "" && (err == nil || !strings.Contains(err.Error(), status)) {
			t.Errorf("%s: status %v, want %q", what, err, status)
		}
	}
	step("nothing", "no network is configured in "+b.conf)
	b.write(t, "10-main.conflist", conflist("main", "mainplugin")[:20])
	step("half-written", "10-main.conflist")
	b.write(t, "10-main.conflist", conflist("main", "mainplugin"))
	step("whole", "")
	b.write(t, "10-main.conflist", "{")
	step("broken afterwards: the last good stays", "")
	if err := os.Rename(b.conf+"/10-main.conflist", b.conf+"/10-main.conflist.bak"); err != nil {
		t.Fatal(err)
	}
	step("moved away", "no network is configured")
	b.write(t, "30-other.conf", `{"cniVersion":"1.0.0","name":"other","type":"x"}`)
	b.write(t, "40-main.conflist", conflist("main", "mainplugin"))
	step("two", "")
	if n, err := b.folder.defaultNetwork(); err != nil || n.Name != "other" {
		t.Errorf("default %v, %v: want that of the first file", n, err)
	}
	if _, err := b.folder.network("storage"); err == nil || !strings.Contains(err.Error(), `no network "storage"`) {
		t.Errorf("an unknown one: %v", err)
	}
	if err := os.RemoveAll(b.conf); err != nil {
		t.Fatal(err)
	}
	step("the folder is gone", "no network is configured")
}

func TestStatusHoldsBackOnlyWhoNeedsTheNetwork(t *testing.T) {
	b := newBed(t, map[string]string{"10-main.conflist": conflist("main", "mainplugin"), "20-st.conflist": conflist("storage", "stplugin")})
	b.runner.fails["STATUS stplugin"] = cni.Errorf(cni.CodeNotAvailable, "the daemon is away").WithHint("start it")
	b.look(t.Context())
	if err := b.Ready(pod()); err != nil {
		t.Errorf("a pod of the default network waits: %v", err)
	}
	p := pod()
	p.Networks = []Selection{{Name: "storage"}}
	if err := b.Ready(p); err == nil || !strings.HasSuffix(err.Error(), "the daemon is away ("+b.conf+"/20-st.conflist); start it") {
		t.Errorf("a pod of the other network: %v", err)
	}
	p.Networks = []Selection{{Name: "nowhere"}}
	if err := b.Ready(p); err == nil {
		t.Error("a pod of a network that isn't configured is ready")
	}
}

// TestMissingPluginIsNotReady: no version of the network is too old for that.
func TestMissingPluginIsNotReady(t *testing.T) {
	old := strings.Replace(conflist("main", "nowhere"), "1.1.0", "0.4.0", 1)
	b := newBed(t, map[string]string{"10-main.conflist": old})
	b.look(t.Context())
	if err := b.Status(); err == nil || !strings.Contains(err.Error(), "find nowhere") {
		t.Errorf("status: %v, want that the plugin is missing", err)
	}
	b.write(t, "10-main.conflist", conflist("main", "mainplugin"))
	b.look(t.Context())
	if err := b.Status(); err != nil {
		t.Errorf("status after the correction: %v", err)
	}
}

// TestProblems: what is wrong with the folder is told by file, until it is mended.
func TestProblems(t *testing.T) {
	b := newBed(t, map[string]string{"10-main.conflist": conflist("main", "mainplugin"), "20-other.conflist": conflist("other", "nowhere")})
	file := func(name string) string { return filepath.Join(b.conf, name) }
	wants := func(when string, want map[string][]string) {
		t.Helper()
		b.look(t.Context())
		have := b.Problems()
		for path, parts := range want {
			for _, part := range parts {
				if !strings.Contains(have[path], part) {
					t.Errorf("%s: %s: %q, want %q in it", when, path, have[path], part)
				}
			}
			delete(have, path)
		}
		if len(have) > 0 {
			t.Errorf("%s: also %v", when, have)
		}
	}
	missing := []string{"network other is not ready: ", "find nowhere"}
	wants("a plugin is missing", map[string][]string{file("20-other.conflist"): missing})
	b.write(t, "10-main.conflist", `{"cniVersion":"1.0.0","name":"main","plugins":[`)
	b.write(t, "30-new.conflist", "[]")
	wants("files are broken", map[string][]string{file("20-other.conflist"): missing,
		file("10-main.conflist"): {file("10-main.conflist") + ":1:", "; network main stays as it was"}, file("30-new.conflist"): {file("30-new.conflist") + ":1:"}})
	for name, text := range map[string]string{"10-main.conflist": conflist("main", "mainplugin"), "20-other.conflist": conflist("other", "mainplugin")} {
		b.write(t, name, text)
	}
	if err := os.Remove(file("30-new.conflist")); err != nil {
		t.Fatal(err)
	}
	wants("all is mended", nil)
}

func TestCollectNamesWhatIsValid(t *testing.T) {
	b := newBed(t, map[string]string{"10-main.conflist": conflist("main", "mainplugin")})
	keep, lose, foreign := pod(), pod(), pod()
	lose.SandboxID, foreign.SandboxID = "s2", "s3"
	unknown := errors.New("unknown")
	b.cfg.Others = func(context.Context) ([]*libcni.NetworkAttachment, error) {
		return []*libcni.NetworkAttachment{{Network: "main", ContainerID: "s3", IfName: "eth0"}}, unknown
	}
	plan, err := b.Plan(keep)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []*Pod{keep, lose, foreign} {
		if _, err := b.SetUpPod(t.Context(), p, plan); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(b.conf + "/10-main.conflist"); err != nil { // also of a network that is configured no more
		t.Fatal(err)
	}
	b.look(t.Context())
	valid := map[string][]Attachment{"s1": plan}
	if err := b.Collect(t.Context(), valid, time.Now()); !errors.Is(err, unknown) || b.runner.attached["mainplugin/s2/eth0"] == nil {
		t.Errorf("collected without knowing what others have: %v", err)
	}
	unknown = nil
	if err := b.Collect(t.Context(), valid, time.Now()); err != nil {
		t.Fatal(err)
	}
	for key := range b.runner.attached {
		if strings.Contains(key, "s2") {
			t.Errorf("%s was not freed", key)
		}
	}
	if b.runner.attached["mainplugin/s1/eth0"] == nil {
		t.Error("a valid attachment was freed")
	}
	if b.runner.attached["mainplugin/s3/eth0"] == nil {
		t.Error("an attachment of somebody else was freed")
	}
}

func TestPlanRefusesOneInterfaceTwice(t *testing.T) {
	b := newBed(t, map[string]string{"10-main.conflist": conflist("main", "mainplugin")})
	p := pod()
	p.Networks = []Selection{{Name: "main", IfName: "eth0"}}
	if _, err := b.Plan(p); err == nil || !strings.Contains(err.Error(), "interface eth0") {
		t.Errorf("plan: %v", err)
	}
}

func TestRunSeesChanges(t *testing.T) {
	b := newBed(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	changes := make(chan struct{}, 16)
	var wg sync.WaitGroup
	wg.Go(func() { b.Run(ctx, func() { changes <- struct{}{} }) })
	defer wg.Wait()
	defer cancel()
	tmp := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(tmp, []byte(conflist("main", "mainplugin")), 0o600); err != nil {
		t.Fatal(err)
	}
	// From another folder, which other watchers miss.
	if err := os.Rename(tmp, b.conf+"/10-main.conflist"); err != nil {
		t.Fatal(err)
	}
	<-changes
	if err := b.Status(); err != nil {
		t.Errorf("status: %v", err)
	}
	if err := os.Remove(b.conf + "/10-main.conflist"); err != nil {
		t.Fatal(err)
	}
	<-changes
	if err := b.Status(); err == nil {
		t.Error("status is fine without a network")
	}
	// Another folder in its place: it is seen before the next look in any case.
	if err := os.RemoveAll(b.conf); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := os.Mkdir(b.conf, 0o755); err != nil {
		t.Fatal(err)
	}
	b.write(t, "20-main.conflist", conflist("main", "mainplugin"))
	<-changes
	if took := time.Since(began); b.Status() != nil || took > relistEvery/2 {
		t.Errorf("status after %v: %v", took, b.Status())
	}
}

func TestSetUpEndsWithItsTime(t *testing.T) {
	b := newBed(t, map[string]string{"10-main.conflist": conflist("main", "mainplugin")})
	b.cfg.Timeout = time.Nanosecond
	plan, err := b.Plan(pod())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.SetUpPod(t.Context(), pod(), plan); err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("set up: %v, want that it took too long", err)
	}
}
